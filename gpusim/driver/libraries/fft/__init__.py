"""A stand-in for cuFFT by its documented interface, over kernels of this project's own.

Programs that link cuFFT 11 or 12 get this one, as they get the stand-in for cuBLAS (`gpusim.driver.libraries.blas`).
Read in this order: `api_plan.py` declares the functions and keeps plans; `passes.py` says by which passes over memory a
transform is done; `fft.cu` is such a pass. Callbacks, several GPUs and device extensions return CUFFT_NOT_SUPPORTED.
"""
