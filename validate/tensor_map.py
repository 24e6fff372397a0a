"""Tensor maps as the driver encodes them; `gpusim.launch.tensor_map` is what the simulator encodes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from gpusim.launch import TensorMap

_BYTES, _ALIGNMENT = 128, 64
_TYPES = ("uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16",
          "float32_ftz", "tfloat32", "tfloat32_ftz")  # fmt: skip
_SWIZZLES = ("none", "32B", "64B", "128B")
"""Names of CUtensorMapDataType and CUtensorMapSwizzle in the order of cuda.h."""


def encode(tensor_map: TensorMap, address: int) -> bytes:
    """What cuTensorMapEncodeTiled makes of a map whose array lies at a device address; needs a GPU's driver. Copies
    fill with zeros out of bounds and ask L2 for no more than they take. Raises ValueError where the driver refuses."""
    kind, shape, strides, box, swizzle = tensor_map.fields
    room = ctypes.create_string_buffer(_BYTES + _ALIGNMENT)
    start = -ctypes.addressof(room) % _ALIGNMENT
    rank, plain = len(shape), (0, _SWIZZLES.index(swizzle), 0, 0)  # interleave, swizzle, promotion to L2, fill
    status = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        ctypes.c_void_p(ctypes.addressof(room) + start),
        _TYPES.index(kind),
        rank,
        ctypes.c_void_p(address),
        _words(ctypes.c_uint64, shape),
        _words(ctypes.c_uint64, strides),
        _words(ctypes.c_uint32, box),
        _words(ctypes.c_uint32, [1] * rank),
        *plain,
    )
    if status:
        raise ValueError(f"the driver takes no tensor map of {tensor_map.fields} (status {status})")
    return room.raw[start : start + _BYTES]


def _words(kind: type[ctypes.c_uint32] | type[ctypes.c_uint64], values: Sequence[int]) -> ctypes.Array:
    return (kind * len(values))(*values)
