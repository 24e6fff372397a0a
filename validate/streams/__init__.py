"""Streams, copies and managed memory of a real H200: `python -m validate streams measure` records them on its GPU.

Read in this order: `kernels.cu` (blocks that say where and when they ran), `driver.py` (CUDA's driver through ctypes),
`lab.py` (streams behind a gate), then the experiments: `sharing.py`, `splits.py`, `gaps.py`, `pairs.py`, `copying.py`,
`managed.py`; `measure.py` runs them. None of these imports the simulator, so that they run where nothing else is.
"""
