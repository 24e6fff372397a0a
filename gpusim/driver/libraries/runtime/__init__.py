"""The CUDA runtime API over the simulated driver: what `libcudart.so.12` and `.13` do for programs that link them.

Most functions are the driver's under other names (`exports.py`); the others stand in `api_*.py`, one file for each
chapter of the CUDA Runtime API's documentation, declared as the driver's are (`gpusim.driver.registry`). `symbols.txt`
has the functions that each library exports. A function's variant for CUDA 12 alone is declared as `name@12`.
"""
