"""Libraries over the driver, each by its own room: the CUDA runtime, NVML, and what stands in for cuBLAS and for CuPy's
own modules."""
