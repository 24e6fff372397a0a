"""The calling conventions of kernels, Numba's and C's, for launching a cubin through CuPy.

The same flattening as `gpusim.launch.arguments`, written apart from it because a recording machine has none of the
simulator's dependencies; a test holds the two to the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpusim.launch import TensorMap

Word = np.generic | np.ndarray


def flatten(
    args: Sequence[Any],
    addresses: Sequence[int | None],
    convention: str = "numba",
    encode: Callable[[TensorMap, int], bytes] | None = None,
) -> list[Word]:
    """Parameters that `args` become, in order: an array becomes two zero pointers (meminfo, parent), item
    count, item size, data pointer, extents and strides, all 64-bit, and in C the data pointer; a tensor map, in C
    alone, an array of one item of 128 bytes, which CuPy passes by value; a scalar stays as it is.

    addresses: device address of each array argument and array of a tensor map, None for scalars. encode: makes a
        tensor map of an array at an address.
    Raises TypeError for an argument of another kind.
    """
    words: list[Word] = []
    for value, address in zip(args, addresses, strict=True):
        if isinstance(value, TensorMap) and address is not None and encode is not None and convention == "c":
            words.append(np.frombuffer(encode(value, address), "V128").copy())
        elif isinstance(value, np.ndarray):
            if address is None or not value.flags.c_contiguous:
                raise TypeError("an array argument must be dense in C order and have a device address")
            if convention == "c":
                words.append(np.uint64(address))
                continue
            header = (0, 0, value.size, value.itemsize, address)
            words += [np.uint64(word) for word in header]
            words += [np.int64(word) for word in (*value.shape, *value.strides)]
        elif isinstance(value, np.generic) and value.dtype.kind in "biuf":
            words.append(value)
        elif isinstance(value, (bool, int, float)):
            words.append({bool: np.bool_, int: np.int64, float: np.float64}[type(value)](value))
        else:
            raise TypeError(f"cannot pass {type(value).__name__} to a kernel through CuPy")
    return words


def check(words: Sequence[Word], parameters: Sequence[tuple[int, int, int]]) -> None:
    """Raise ValueError unless the words fit a kernel's parameters, (position, offset, size) each."""
    sizes = [size for _, _, size in sorted(parameters)]
    found = [word.nbytes for word in words]
    if sizes != found:
        raise ValueError(f"the arguments flatten to sizes {found}, the kernel takes {sizes}")
