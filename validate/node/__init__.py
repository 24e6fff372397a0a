"""Several real GPUs beside the simulated node: recordings of copies and training steps, and the model's.

`measure_copies.py` runs on a machine with GPUs and torch and imports nothing of gpusim; `results/` holds what it gave;
`copies.py` makes the same calls on the simulated node, `training.py` the same steps with `gpusim.parallel` (and
`python -m validate node`).
"""
