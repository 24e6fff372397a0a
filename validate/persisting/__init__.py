"""What L2 keeps when it is told to: kernels, what an H200 did with them, and the comparison.

In this order: `kernels.cu`, `build.py`, `gpu.py`, `lab.py`, `experiments.py`, `run.py` (on the GPU), `compare.py`
(anywhere).
"""
