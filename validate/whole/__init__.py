"""Whole programs of PyTorch and CuPy, from their first kernel to the last, recorded on an H200 and simulated.

`tests/gpusim/data/whole_programs.py` has them, `compare.py` runs them, `results/` has what came of it on both sides."""
