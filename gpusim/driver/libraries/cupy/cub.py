"""In the place of `cupy.cuda.cub`, which is not available: CuPy reduces and scans by kernels of its own then."""

from __future__ import annotations

from enum import IntEnum

from gpusim.driver.libraries.cupy import capi

available = False
cupy_cub_op = IntEnum(
    "cupy_cub_op",
    "CUPY_CUB_SUM CUPY_CUB_MIN CUPY_CUB_MAX CUPY_CUB_ARGMIN "
    "CUPY_CUB_ARGMAX CUPY_CUB_CUMSUM CUPY_CUB_CUMPROD CUPY_CUB_PROD",
    start=0,
)
globals().update(cupy_cub_op.__members__)


def get_build_version() -> str:
    """Of the library that is not there."""
    return "<unknown>"


def cub_reduction(*_request: object) -> None:
    """None: CuPy is to do it otherwise."""


cub_scan = cub_histogram = cub_reduction


def _cub_device_segmented_reduce_axis_compatible(axes: tuple[int, ...], ndim: int, order: str) -> bool:
    """Return whether these axes are the fastest ones of an array in C's or Fortran's order."""
    first = ndim - len(axes) if order == "C" else 0
    return bool(axes) and axes == tuple(range(first, first + len(axes)))


_DECLARED = "int (object, Py_ssize_t, object) except -1: _cub_device_segmented_reduce_axis_compatible\n"
__pyx_capi__ = capi.interface([*capi.declarations(__name__, _DECLARED)], globals())
