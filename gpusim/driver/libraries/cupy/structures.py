"""Classes of CuPy's runtime module whose instances its compiled modules read as C structures."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_ssize_t, c_void_p
from typing import Any

_INT, _INTPTR = 1, 19  # T_INT and T_PYSSIZET of Python's structmember.h
_SIZES = {_INT: 4, _INTPTR: 8}
_SLOT_MEMBERS, _BASE_TYPE = 72, 1 << 10  # Py_tp_members, Py_TPFLAGS_BASETYPE
_kept: list[Any] = []


class _Member(ctypes.Structure):
    """PyMemberDef."""

    _fields_ = (("name", c_char_p), ("kind", c_int), ("offset", c_ssize_t), ("flags", c_int), ("doc", c_char_p))


class _Slot(ctypes.Structure):
    """PyType_Slot."""

    _fields_ = (("number", c_int), ("function", c_void_p))


class _Specification(ctypes.Structure):
    """PyType_Spec."""

    _fields_ = (("name", c_char_p), ("basicsize", c_int), ("itemsize", c_int), ("flags", c_int), ("slots", c_void_p))


def _structure(name: str, **fields: int) -> Any:
    """A class whose instances hold these fields behind Python's own head of an object, aligned as in C."""
    members, end = [], object.__basicsize__
    for field, kind in fields.items():
        start = -(-end // _SIZES[kind]) * _SIZES[kind]
        members.append(_Member(field.encode(), kind, start, 0, None))
        end = start + _SIZES[kind]
    table = (_Member * (len(members) + 1))(*members)
    slots = (_Slot * 2)(_Slot(_SLOT_MEMBERS, ctypes.addressof(table)))
    made = _Specification(name.encode(), -(-end // 8) * 8, 0, _BASE_TYPE, ctypes.addressof(slots))
    _kept.append((table, slots, made))
    ctypes.pythonapi.PyType_FromSpec.restype = ctypes.py_object
    return ctypes.pythonapi.PyType_FromSpec(ctypes.byref(made))


_PointerAttributes: Any = _structure(
    "gpusim._PointerAttributes", device=_INT, devicePointer=_INTPTR, hostPointer=_INTPTR, type=_INT
)
_MemPoolProps: Any = _structure("gpusim._MemPoolProps", allocType=_INT, handleType=_INT, locationType=_INT, devId=_INT)


class PointerAttributes(_PointerAttributes):
    """Memory at an address: its kind (cudaMemoryType), device, addresses on the device and on the host."""

    __slots__ = tuple[str, ...]()  # the base has them

    def __init__(self, device: int, devicePointer: int, hostPointer: int, type: int = -1):
        self.device, self.devicePointer, self.hostPointer, self.type = device, devicePointer, hostPointer, type


class MemPoolProps(_MemPoolProps):
    """Properties of a new memory pool: cudaMemAllocationType, cudaMemAllocationHandleType, cudaMemLocationType,
    device."""

    __slots__ = tuple[str, ...]()  # the base has them

    def __init__(self, allocType: int, handleType: int, locationType: int, devId: int):
        self.allocType, self.handleType, self.locationType, self.devId = allocType, handleType, locationType, devId
