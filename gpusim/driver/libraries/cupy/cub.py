"""In the place of `cupy.cuda.cub`: histograms, by a kernel of this package (`histogram.cu`). It says that it is not
available, and CuPy reduces and scans by kernels of its own then."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cupy._core._scalar import get_typename

from gpusim.driver.libraries.cupy import calling, capi

available = False
_THREADS, _MOST_BLOCKS, _MOST_IN_SHARED = 384, 528, 2048
cupy_cub_op: Any = IntEnum("cupy_cub_op", calling.constants("cub"))
globals().update(cupy_cub_op.__members__)


def get_build_version() -> str:
    """Of the library that is not there."""
    return "<unknown>"


def cub_reduction(*_request: object) -> None:
    """None: CuPy is to do it otherwise."""


cub_scan = cub_reduction


@cache
def _histogram(sample: str, edge: str) -> Any:
    code = Path(__file__).with_name("histogram.cu").read_text()
    return cupy.RawKernel(code, "histogram", ("-std=c++17", f"-DSAMPLE={sample}", f"-DEDGE={edge}"))


def cub_histogram(x: Any, y: Any, bins: Any) -> Any:
    """Count into y, of 64 bits, what lies between each two edges. bins: the edges, or for whole numbers how many there
    are, from 0 on, as an int."""
    if x.dtype.char == "e":
        x, bins = x.astype(np.float32), bins.astype(np.float32)
    y.fill(0)
    edges, edge = (np.uint64(0), "int") if isinstance(bins, int) else (bins, get_typename(bins.dtype))
    if x.size:
        shared_mem = 8 * y.size if y.size <= _MOST_IN_SHARED else 0
        given = cupy.ascontiguousarray(x), np.uint32(x.size), edges, np.int32(y.size), shared_mem > 0, y
        blocks = min(-(-x.size // (_THREADS * (8 if x.itemsize > 4 else 16))), _MOST_BLOCKS)
        _histogram(get_typename(x.dtype), edge)((blocks,), (_THREADS,), given, shared_mem=shared_mem)
    return y


def _cub_device_segmented_reduce_axis_compatible(axes: tuple[int, ...], ndim: int, order: str) -> bool:
    """Return whether these axes are the fastest ones of an array in C's or Fortran's order."""
    first = ndim - len(axes) if order == "C" else 0
    return bool(axes) and axes == tuple(range(first, first + len(axes)))


_DECLARED = "int (object, Py_ssize_t, object) except -1: _cub_device_segmented_reduce_axis_compatible\n"
__pyx_capi__ = capi.interface([*capi.declarations(__name__, _DECLARED)], globals())
