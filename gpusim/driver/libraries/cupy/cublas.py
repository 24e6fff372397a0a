"""In the place of `cupy_backends.cuda.libs.cublas`: this project's stand-in for cuBLAS (`gpusim/driver/blas`), since
the vendor's has the static runtime inside. alpha, beta and results are addresses, of the host or of the device.
"""

from __future__ import annotations

import ctypes
from typing import Any

from cupy_backends.cuda.api import runtime

from gpusim.driver.libraries.cupy import calling

globals().update(calling.constants("cublas"))
_library = ctypes.CDLL("libcublas.so.13")
_library.cublasGetStatusString.restype = ctypes.c_char_p
_WITHOUT_STREAM = ("create", "getVersion", "getPointerMode", "setPointerMode", "getStream")
_COMPUTED = {0: 68, 1: 70, 2: 64, 4: 68, 5: 70, 10: 72}
"""cublasComputeType_t by cudaDataType, which older callers give for it."""


class CUBLASError(RuntimeError):
    """An error code of cuBLAS. status: cublasStatus_t."""

    def __init__(self, status: int):
        self.status = status
        super().__init__(_library.cublasGetStatusString(status).decode())

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return type(self), (self.status,)


def check_status(status: int) -> None:
    if status != 0:
        raise CUBLASError(status)


def __getattr__(name: str) -> Any:
    """A function, made when it is first asked for: 'sgemm' is cublasSgemm_v2, which works in CuPy's current stream."""
    plain = f"cublas{name[0].upper()}{name[1:]}"
    symbol = next((each for each in (f"{plain}_v2", plain) if hasattr(_library, each)), None)
    if symbol is None or name.startswith("_"):
        raise AttributeError(f"there is no {name} in cuBLAS", name=name)
    function = calling.wrapped(_library, symbol, check_status)

    def in_stream(handle: int, *arguments: int) -> Any:
        from cupy.cuda import get_current_stream

        setStream(handle, get_current_stream().ptr)
        if name in ("gemmEx", "gemmStridedBatchedEx"):
            *others, compute, algorithm = arguments
            arguments = *others, _COMPUTED.get(compute, compute), algorithm
        return function(handle, *arguments)

    globals()[name] = found = function if name in _WITHOUT_STREAM else in_stream
    return found


_set_stream = calling.wrapped(_library, "cublasSetStream_v2", check_status)
destroy = calling.c_function(_library, "cublasDestroy_v2")  # no function of Python's: handles end when names are gone


def setStream(handle: int, of: int) -> None:
    if runtime.streamIsCapturing(of):
        raise NotImplementedError("CuPy does not capture what cuBLAS does")
    _set_stream(handle, of)
