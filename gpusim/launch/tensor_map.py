"""Tensor maps (CUtensorMap): what bulk copies of a tensor's boxes are told about the tensor.

`encode_tiled` and `encode_im2col` write them as the driver's cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col do, bit
for bit. What the words mean is said in `gpusim.engine.sm.tensor_map`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpusim.errors import ArgumentError

TYPES = {  # number in the map and bytes, in the order of CUtensorMapDataType
    "uint8": (0, 1), "uint16": (1, 2), "uint32": (2, 4), "int32": (3, 4), "uint64": (4, 8), "int64": (5, 8),
    "float16": (6, 2), "float32": (7, 4), "float64": (9, 8), "bfloat16": (10, 2),
    "float32_ftz": (8, 4), "tfloat32": (7, 4), "tfloat32_ftz": (8, 4),
    "uint4_align8": (11, 0.5), "uint4_align16": (12, 1), "uint6_align16": (13, 1),
}  # fmt: skip
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3, "128B_atom_32B": 3 | 1 << 6}
_PERIODS = 16, 256, 512, 1024
SLOTS = {"none": 0, "16B": 1, "32B": 2}
MOST_DIMENSIONS = 5
_PIXEL_BITS = {3: 16, 4: 8, 5: 5}
_MOST_PIXELS = 1024
_MOST_BOX_BYTES = 232448  # what a block can have of shared memory; an H200's driver takes 128 KiB, and refuses 256


def encode_tiled(
    dtype: str,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    element_strides: Sequence[int] | None = None,
    swizzle: str = "none",
    nan_fill: bool = False,
    interleave: str = "none",
    promotion: int = 0,
) -> np.void:
    """A tensor map, to be passed as a `const __grid_constant__ CUtensorMap` parameter.

    dtype: name of the element type, such as "float16" or "bfloat16"; "tfloat32" rounds what is loaded, "float32_ftz"
    flushes sums of reductions; 16 elements of "uint4_align16" and "uint6_align16" have 16 bytes of shared memory, those
    of "uint4_align8" lie there as in memory. address: of the tensor's first element, a multiple of 16 bytes. shape:
    elements along each of one to five dimensions, the innermost first. strides: bytes between elements along all
    dimensions but the first, multiples of 16. box: elements of a copy along each dimension. element_strides: distance
    of the elements that a copy takes, 1 to 8; the first is ignored unless the tensor is interleaved. swizzle: "none",
    "32B", "64B", "128B", or "128B_atom_32B" by pieces of 32 bytes. nan_fill: elements out of bounds are NaN instead of
    zero. interleave: "none", "16B", "32B": the first dimension goes by slots of so many bytes, the last but one by as
    many channels as fill one. promotion: bytes that L2 fetches, 1 for 64, 2 for 128, 3 for 256; without effect.

    Raises ArgumentError where the driver does.
    """
    words = _words(dtype, address, shape, strides, element_strides, swizzle, nan_fill, interleave, promotion)
    size = TYPES[dtype][1]
    wrong = box[0] * size % 16 or (dtype.endswith("align16") and box[0] != 128)
    if len(box) != len(shape) or not all(1 <= n <= 256 for n in box) or wrong:
        raise ArgumentError("a tensor map's box has 1 to 256 elements along each dimension, its rows whole 16 bytes")
    words[13] |= np.uint32((box[0] - 1) << 24)
    words[14] = sum((n - 1) << 8 * d for d, n in enumerate(box[1:]))
    count = math.prod(-(-n // step) for n, step in zip(box, element_strides or (1,) * len(box), strict=True))
    return _map(words, box[0] * size, count * size)


# many parameters: those of the driver's function
def encode_im2col(
    dtype: str,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    lower: Sequence[int],
    upper: Sequence[int],
    channels: int,
    pixels: int,
    element_strides: Sequence[int] | None = None,
    **manner: Any,
) -> np.void:
    """A tensor map for copies of `pixels` pixels with `channels` channels each; the rest is as for `encode_tiled`.

    lower, upper: corners of the box that pixels are taken from, one number for each dimension but channels and images;
    those of `upper` count from the far end of the tensor.
    """
    words = _words(dtype, address, shape, strides, element_strides, **manner)
    bits = _PIXEL_BITS.get(len(shape), 0)
    if bits == 0 or len(lower) != len(shape) - 2 or len(upper) != len(shape) - 2:
        raise ArgumentError("a map for im2col has three to five dimensions, and corners of two fewer")
    if not all(-(1 << bits - 1) <= n < 1 << bits - 1 for n in (*lower, *upper)):
        raise ArgumentError(f"a corner of {len(shape) - 2} dimensions has {bits} bits")
    row = channels * TYPES[dtype][1]
    if not 1 <= channels <= 256 or not 1 <= pixels <= _MOST_PIXELS or row % 16:
        raise ArgumentError("a column has up to 1,024 pixels of up to 256 channels that are whole 16 bytes")
    first = int(manner.get("interleave", "none") == "none")
    if any(low > shape[first + s] - 1 + high for s, (low, high) in enumerate(zip(lower, upper, strict=True))):
        raise ArgumentError("the box of pixels is empty")
    words[2] |= 1
    words[13] |= np.uint32((channels - 1) << 24)
    for half, corner in enumerate((lower, upper)):
        for s, n in enumerate(corner):
            words[14] |= np.uint32((n & (1 << bits) - 1) << 16 * half + bits * s)
    words[15] = pixels - 1
    return _map(words, row, row * pixels)


# many parameters: those that the driver's two functions share
def _words(
    dtype: str,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    element_strides: Sequence[int] | None,
    swizzle: str = "none",
    nan_fill: bool = False,
    interleave: str = "none",
    promotion: int = 0,
) -> np.ndarray:
    """Shape of the tensor of a map, and the distances of elements."""
    rank, steps = len(shape), list(element_strides or [1] * len(shape))
    if nan_fill and dtype.startswith(("int", "uint")):
        raise ArgumentError(f"elements of type '{dtype}' cannot be NaN")
    if dtype not in TYPES or swizzle not in SWIZZLES or interleave not in SLOTS:
        raise ArgumentError(f"a tensor map has no type '{dtype}' with swizzle '{swizzle}', interleave '{interleave}'")
    least, padded = 1 if interleave == "none" else 3, dtype.endswith("align16")
    if not least <= rank <= MOST_DIMENSIONS or len(strides) != rank - 1 or len(steps) != rank:
        raise ArgumentError("a tensor map has one to five dimensions, interleaved three, and one stride fewer")
    wrong = shape[0] % (128 if padded else 2 if dtype == "uint4_align8" else 1) or (padded and interleave != "none")
    unit = 32 if interleave == "32B" or padded else 16
    if wrong or address % unit or any(stride % unit or not 0 <= stride < 1 << 40 for stride in strides):
        raise ArgumentError(f"a tensor map's address and strides go by {unit} bytes, padded rows by 128 elements")
    if not all(1 <= n <= 1 << 32 for n in shape) or not all(1 <= n <= 8 for n in steps):
        raise ArgumentError("a tensor has up to 2**32 elements along a dimension, element strides are 1 to 8")
    words = np.zeros(32, np.uint32)
    words[0], words[1] = address & 0xFFFFFFFF, address >> 32
    words[2] = (rank - 1) << 4 | TYPES[dtype][0] << 7 | SLOTS[interleave] << 11 | SWIZZLES[swizzle] << 13
    words[2] |= np.uint32(int(nan_fill) << 15 | int(dtype.startswith("tfloat32")) << 16 | promotion << 17)
    for d, stride in enumerate(strides):
        words[3 + d] = stride >> 4 & 0xFFFFFFFF
        words[7] |= np.uint32((stride >> 36) << 4 * d)
    words[8 : 8 + rank] = [n - 1 for n in shape]
    words[13] = sum((step - 1) << 3 * d for d, step in enumerate(steps))
    return words


def _map(words: np.ndarray, row_bytes: float, box_bytes: float) -> np.void:
    """The map, with what its driver notes and the hardware has no need of: bytes of a copy, and after how many of them
    the swizzle begins anew."""
    manner = int(words[2])
    if manner >> 11 & 3 == 0 != manner >> 13 & 3 and row_bytes > 16 << (manner >> 13 & 3):
        raise ArgumentError("an inner box must fit the swizzled line")
    if box_bytes > _MOST_BOX_BYTES:
        raise ArgumentError(f"a box of {box_bytes:,.0f} bytes does not fit shared memory")
    words[16] = box_bytes
    words[18] = _PERIODS[manner >> 13 & 3]
    return np.frombuffer(words.tobytes(), [("opaque", np.uint8, 128)])[0]
