"""Tensor maps (CUtensorMap): what bulk copies of a tensor's boxes are told about the tensor.

`encode_tiled` stands for the driver's cuTensorMapEncodeTiled, of which a simulated GPU has none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpusim.errors import ArgumentError

_TYPES = {
    "uint8": (0, 1), "uint16": (1, 2), "uint32": (2, 4), "int32": (3, 4), "uint64": (4, 8), "int64": (5, 8),
    "float16": (6, 2), "float32": (7, 4), "float64": (9, 8), "bfloat16": (10, 2),
}  # fmt: skip
_SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
_MOST_DIMENSIONS = 5


def encode_tiled(
    dtype: str,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    element_strides: Sequence[int] | None = None,
    swizzle: str = "none",
    nan_fill: bool = False,
) -> np.void:
    """A tensor map, to be passed as a `const __grid_constant__ CUtensorMap` parameter.

    dtype: name of the element type, such as "float16" or "bfloat16". address: of the tensor's first element, a
    multiple of 16 bytes. shape: elements along each of one to five dimensions, the innermost first. strides: bytes
    between elements along all dimensions but the first, multiples of 16. box: elements of a copy along each dimension.
    element_strides: distance of the elements that a copy takes, 1 to 8; the first is ignored. swizzle: "none", "32B",
    "64B", "128B". nan_fill: elements out of bounds are NaN instead of zero.

    Raises ArgumentError where the driver does. Interleaved layouts and types that flush or round are not modelled.
    """
    rank = len(shape)
    steps = list(element_strides or [1] * rank)
    if dtype not in _TYPES or swizzle not in _SWIZZLES:
        raise ArgumentError(f"a tensor map has no type '{dtype}' with swizzle '{swizzle}'")
    kind, size = _TYPES[dtype]
    if not 1 <= rank <= _MOST_DIMENSIONS or len(strides) != rank - 1 or len(box) != rank or len(steps) != rank:
        raise ArgumentError("a tensor map has one to five dimensions, one stride fewer, and a box of as many")
    wrong = address % 16 or box[0] * size % 16 or any(stride % 16 or not 0 <= stride < 1 << 40 for stride in strides)
    if wrong or not all(1 <= n <= 1 << 32 for n in shape) or not all(1 <= n <= 256 for n in box):
        raise ArgumentError("a tensor map's address, strides and inner box go by 16 bytes, its box to 256 elements")
    if not all(1 <= n <= 8 for n in steps) or (swizzle != "none" and box[0] * size > 16 << _SWIZZLES[swizzle]):
        raise ArgumentError("element strides are 1 to 8, and an inner box must fit the swizzled line")
    words = np.zeros(32, np.uint32)
    words[0], words[1] = address & 0xFFFFFFFF, address >> 32
    words[2] = (rank - 1) << 4 | kind << 7 | _SWIZZLES[swizzle] << 13 | int(nan_fill) << 15
    for d, stride in enumerate(strides):
        words[3 + d] = stride >> 4 & 0xFFFFFFFF
        words[7] |= np.uint32((stride >> 36) << 4 * d)
    words[8 : 8 + rank] = [n - 1 for n in shape]
    words[13] = (box[0] - 1) << 24 | sum((step - 1) << 3 * d for d, step in enumerate(steps))
    words[14] = sum((n - 1) << 8 * d for d, n in enumerate(box[1:]))
    return np.frombuffer(words.tobytes(), [("opaque", np.uint8, 128)])[0]
