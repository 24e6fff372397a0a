"""Several real GPUs beside the simulated node: recordings of copies and training steps, and the model's.

`results/` holds what machines with two and four H200 gave, each file with how it was timed in `about`. `copies.py`
makes the same calls on the simulated node, `collectives.py` the same collectives, `training.py` the same steps with
`gpusim.parallel` (and `python -m validate node`).
"""
