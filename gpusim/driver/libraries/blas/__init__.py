"""A stand-in for cuBLAS and cuBLASLt: their documented interfaces over kernels of this project's own.

The vendor's libraries work with the vendor's driver alone. Programs that link them get these, which multiply correctly
and launch real machine code, but are not the vendor's kernels: times are those of `gpusim_gemm_*`, as the table of
launches says. `api_handle.py`, `api_gemm.py`, `api_vector.py` and `api_lt.py` declare the functions, in the order of
the documentation; `multiply.py` says what a product is and chooses its kernel; `kernels.py` compiles `*.cu` when a
kernel is first used. Functions that are not declared return CUBLAS_STATUS_NOT_SUPPORTED.
"""
