"""In the place of `cupy.cuda.thrust`: sorting, by kernels of this package (`sort.cu`). All orders are stable.

Arrays are given as addresses, as to the module that this one replaces. Its buffers for keys of rows are not needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np

available = True
_SOURCE = Path(__file__).with_name("sort.cu")
_THREADS, _STEPS, _MOST_ROWS = 128, 8, 65535
_KEYS = {
    "?": "bool", "b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short", "i": "int",
    "I": "unsigned int", "l": "long long", "L": "unsigned long long", "q": "long long", "Q": "unsigned long long",
    "e": "__half", "f": "float", "d": "double", "F": "complex<float>", "D": "complex<double>",
}  # fmt: skip
"""Types in CUDA C++ by NumPy's characters."""


def get_build_version() -> int:
    """Of the library that is not there."""
    return 0


def sort(dtype: Any, data_start: int, keys_start: int, shape: Sequence[int]) -> None:
    """Sort along the last axis, in place. Raises NotImplementedError for other dtypes."""
    kernels = _kernels(_key(dtype, NotImplementedError))
    if not math.prod(shape):
        return
    rows, count = math.prod(shape[:-1]), shape[-1]
    order, unsorted = cupy.empty(tuple(shape), np.int64), cupy.empty(tuple(shape), dtype)
    _sort(kernels, data_start, rows, count, 1, order.data.ptr)
    given = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(data_start, unsorted.nbytes, None), 0)
    unsorted.data.copy_from_device_async(given, unsorted.nbytes)
    elements = unsorted, np.int32(count), np.int64(rows), order, np.uint64(data_start)
    kernels.get_function("gather")(_grid(count, rows), (_THREADS,), elements)


def argsort(dtype: Any, idx_start: int, data_start: int, keys_start: int, shape: Sequence[int]) -> None:
    """Indices of the elements in order, along the last axis. Raises NotImplementedError for other dtypes."""
    kernels = _kernels(_key(dtype, NotImplementedError))
    if math.prod(shape):
        _sort(kernels, data_start, math.prod(shape[:-1]), shape[-1], 1, idx_start)


def lexsort(dtype: Any, idx_start: int, keys_start: int, k: int, n: int) -> None:
    """Indices of n elements with k keys each in order, the last key deciding first. Raises TypeError for other
    dtypes."""
    kernels = _kernels(_key(dtype, TypeError))
    if n:
        _sort(kernels, keys_start, 1, n, k, idx_start)


def _key(dtype: Any, error: type[Exception]) -> str:
    if np.dtype(dtype).char not in _KEYS:
        raise error(f"Sorting arrays with dtype '{dtype}' is not supported")
    return _KEYS[np.dtype(dtype).char]


@cache
def _kernels(key: str) -> Any:
    return cupy.RawModule(code=_SOURCE.read_text(), options=("-std=c++17", f"-DKEY={key}"))


def _sort(kernels: Any, keys: int, rows: int, count: int, levels: int, order: int) -> None:
    """Write the indices of each row's elements in order to an address."""
    given = np.uint64(keys), np.int32(count), np.int32(levels), np.int64(rows)
    tile = min(2 * _THREADS, 1 << max(count - 1, 63).bit_length())
    other = cupy.empty(rows * count if count > tile else 0, np.int64)
    steps = (-(-count // tile) - 1).bit_length()
    # The last step writes where the caller wants the result.
    here, there = (other.data.ptr, order) if steps % 2 else (order, other.data.ptr)
    grid = -(-count // tile), min(rows, _MOST_ROWS)
    kernels.get_function("sort_tiles")(grid, (tile // 2,), (*given, np.uint64(here)), shared_mem=4 * tile)
    for step in range(steps):
        runs = np.int32(tile << step), np.uint64(here), np.uint64(there)
        kernels.get_function("merge_runs")(_grid(-(-count // _STEPS), rows), (_THREADS,), (*given, *runs))
        here, there = there, here


def _grid(threads: int, rows: int) -> tuple[int, int]:
    return -(-threads // _THREADS), min(rows, _MOST_ROWS)
