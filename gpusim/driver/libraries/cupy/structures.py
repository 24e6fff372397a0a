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
    made = _Specification(f"gpusim.{name}".encode(), -(-end // 8) * 8, 0, _BASE_TYPE, ctypes.addressof(slots))
    _kept.append((table, slots, made))

    def initialize(self: Any, *values: int, **named: int) -> None:
        for field, value in (dict(zip(fields, values, strict=False)) | named).items():
            setattr(self, field, value)

    ctypes.pythonapi.PyType_FromSpec.restype = ctypes.py_object
    kind = ctypes.pythonapi.PyType_FromSpec(ctypes.byref(made))
    kind.__init__ = initialize
    return kind


PointerAttributes = _structure("PointerAttributes", device=_INT, devicePointer=_INTPTR, hostPointer=_INTPTR, type=_INT)
"""Memory at an address: its device, addresses on the device and on the host, and its kind (cudaMemoryType)."""
MemPoolProps = _structure("MemPoolProps", allocType=_INT, handleType=_INT, locationType=_INT, devId=_INT)
"""Properties of a new memory pool: cudaMemAllocationType, cudaMemAllocationHandleType, cudaMemLocationType, device."""
