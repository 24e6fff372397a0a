"""Several real GPUs beside the simulated node: recordings of copies, and the comparison with `gpusim.node`.

`measure_copies.py` runs on a machine with GPUs and torch and imports nothing of gpusim; `results/` holds what it gave;
`copies.py` makes the same calls on the simulated node; `command.py` is `python -m validate node`.
"""
