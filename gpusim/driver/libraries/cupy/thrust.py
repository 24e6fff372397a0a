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
_THREADS, _DIGITS, _COUNTED, _SHORT, _MOST = 384, 256, 4 * 384, 128, (1 << 30) - 1


def get_build_version() -> int:
    """Of the library that is not there."""
    return 0


def sort(dtype: Any, data_start: int, keys_start: int, shape: Sequence[int]) -> None:
    """Sort along the last axis, in place. Raises NotImplementedError for other dtypes."""
    _sort(dtype, data_start, math.prod(shape[:-1]), shape[-1], 1, 0)


def argsort(dtype: Any, idx_start: int, data_start: int, keys_start: int, shape: Sequence[int]) -> None:
    """Indices of the elements in order, along the last axis. Raises NotImplementedError for other dtypes."""
    _sort(dtype, data_start, math.prod(shape[:-1]), shape[-1], 1, idx_start)


def lexsort(dtype: Any, idx_start: int, keys_start: int, k: int, n: int) -> None:
    """Indices of n elements with k keys each in order, the last key deciding first. Raises TypeError for other
    dtypes."""
    _sort(dtype, keys_start, 1, n, k, idx_start, TypeError)


@cache
def _kernels(kind: str, part_bytes: int, ordered: bool) -> Any:
    options = "-std=c++17", f"-DKIND='{kind}'", f"-DPART_BYTES={part_bytes}", f"-DORDERED={ordered:d}"
    return cupy.RawModule(code=_SOURCE.read_text(), options=options)


def _sort(
    dtype: Any, keys: int, rows: int, count: int, levels: int, result: int, error: type[Exception] = NotImplementedError
) -> None:
    """Write the indices of each row's elements in order to an address, or sort the rows in place if it is 0."""
    dtype = np.dtype(dtype)
    if dtype.char not in "?bBhHiIlLqQefdFD" or count > _MOST:
        raise error(f"Sorting {count} elements with dtype '{dtype}' is not supported")
    if not rows * count:
        return
    parts = 2 if dtype.kind == "c" else 1
    kernel = _kernels(dtype.kind, dtype.itemsize // parts, result != 0).get_function
    most, most_bytes = (14, 96) if result else (18, 120)
    tile, number = _THREADS * min(most, most_bytes // dtype.itemsize), np.int32(count)
    if count <= tile:
        short = rows > 1 and count <= _SHORT
        name, threads = ("sort_short_rows", -(-count // 32) * 32) if short else ("sort_rows", _THREADS)
        kernel(name)((rows,), (threads,), (keys, keys, result, number, np.int32(levels)))
        return
    passes, tiles, row_bytes = dtype.itemsize + parts - 1, rows * -(-count // tile), count * dtype.itemsize
    counted, steps, blocks = levels * rows * passes, levels * passes, min(-(-count // _COUNTED), 512)
    # Numbers of elements by digit, what tiles tell each other, and tiles that have been started, of each step.
    words = cupy.zeros((counted + steps * tiles) * _DIGITS + steps, np.uint32)
    told, started = words[counted * _DIGITS :], words[(counted + steps * tiles) * _DIGITS :]
    kernel("count_digits")((levels * rows * blocks,), (_THREADS,), (keys, number, np.int32(blocks), words))
    kernel("sum_counts")((counted,), (_DIGITS,), (words,))
    spare, orders = cupy.empty((2, rows * row_bytes), np.uint8), cupy.empty((2, rows * count), np.int32)
    source, order = keys, np.uint64(0)
    if passes == 1 and not result:  # it cannot be sorted where it is
        source = spare[1].data.ptr
        cupy.cuda.runtime.memcpyAsync(source, keys, rows * row_bytes, 3, cupy.cuda.get_current_stream().ptr)
    for step in range(steps):
        level, digit = divmod(step, passes)
        last, gathers = step == steps - 1, level > 0 and digit == 0
        source = keys + level * row_bytes if gathers else source
        target = 0 if result and digit == passes - 1 else keys if last else spare[step % 2].data.ptr
        moved = source, target, order, orders[step % 2], result if last else 0
        numbers = gathers, number, np.int32(tiles // rows), np.int32(digit)
        places = started[step:], words[level * passes * _DIGITS :], told[step * tiles * _DIGITS :]
        kernel("sort_by_digit")((tiles,), (_THREADS,), (*moved, *numbers, *places))
        source, order = target, orders[step % 2]
