"""A stand-in for cuDNN: convolutions by its backend interface, over kernels of this project's own.

Programs that link cuDNN 9 get this one, as they get the stand-in for cuBLAS (`gpusim.driver.libraries.blas`). Read in
this order: `api_backend.py` declares the functions and keeps descriptors; `graph.py` says which convolution a graph of
operations is; `convolve.py` chooses its kernels (`conv.cu`, `tensor.cu`, or a product of matrices), with parameters.
Functions that are not declared return CUDNN_STATUS_NOT_SUPPORTED.
"""
