"""A CUDA driver in Python: what `libcuda.so.1` does on a machine with a GPU, done by a simulated one.

Reading order: `elf.py` (a shared library without a compiler), `registry.py` (the API as a table), `library.py` (how C
code gets here), `state.py` (contexts, memory, streams), `graphs.py` (work of streams, done or captured), then
`api_*.py`, one file for each chapter of the CUDA Driver API's documentation, `modules.py` and `images.py` (what is
loaded), `log.py` (what ran), and `hook.py`. Users take `gpusim.driver.numba_cuda`.
"""
