"""A stand-in for cuSPARSE by its documented interface: matrices in CSR, CSC, COO and blocks, their products with dense
and sparse ones, sums, conversions, orders and triangular systems, by kernels of this project's own.

`functions.txt` says which of `routines.py` runs each function; the others return CUSPARSE_STATUS_NOT_SUPPORTED.
`state.py` has what handles stand for, and starts kernels of `sparse.cu`; `api_functions.py` declares the functions.
"""
