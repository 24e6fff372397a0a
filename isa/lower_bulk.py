"""Lowering of bulk copies: UBLKCP, UBLKRED, and UTMALDG, UTMASTG, UTMAREDG, which copy boxes of tensors."""

from __future__ import annotations

from isa import microops as m
from isa.lower_memory import ATOMICS, check_operation
from isa.lower_writer import RowWriter

_SCALARS = {"S32": (m.TYPE_S32, 4), "U64": (m.TYPE_U64, 8), "64": (m.TYPE_U64, 8), "S64": (m.TYPE_S64, 8)}


def _addresses(w: RowWriter) -> None:
    """A and B: the first of the uniform registers in brackets, for each of two."""
    for column in (m.COL_A, m.COL_B):
        operand = w.take("mem")
        if operand.ubase is None or operand.base is not None or operand.offset or operand.suffixes:
            raise w.refuse("an address of a bulk copy that is not in uniform registers alone")
        w.columns[column] = w.register_row(operand.ubase)


def _cache_hint(w: RowWriter) -> None:
    """desc[UR4]: a hint for L2, which changes no value."""
    if w.peek() is not None:
        w.take("other", "mem")


def plain_copy(w: RowWriter) -> None:
    """UBLKCP.S.G [shared, mbarrier], [global], size; UBLKCP.G.S [global], [shared], size."""
    direction = "".join(name for name in w.modifiers if name in ("S", "G"))
    if direction not in ("SG", "GS"):
        raise w.refuse("a bulk copy to another block's shared memory")
    w.set(m.OP_BULK_COPY, aux0=m.SPACE_SHARED, aux4=m.BULK_LOAD if direction == "SG" else m.BULK_STORE)
    _addresses(w)
    w.columns[m.COL_C] = w.register_row(w.take("ureg"))
    _cache_hint(w)


def _operation(w: RowWriter) -> int:
    operation = m.ATOMIC_INC if w.has("INC") else w.choose(ATOMICS, -1)
    if operation < 0:
        raise w.refuse("a reduction without an operation")
    return operation


def plain_reduction(w: RowWriter) -> None:
    """UBLKRED.G.S.operation.type [global], [shared], size."""
    kind, size = (m.TYPE_F32, 4) if w.has("F32") else (m.TYPE_U32, 4)
    for name in w.modifiers:
        kind, size = _SCALARS.get(name, (kind, size))
    operation = _operation(w)
    check_operation(w, operation, kind)
    w.set(m.OP_BULK_COPY, aux0=m.SPACE_SHARED, aux1=size, aux2=operation, aux3=kind, aux4=m.BULK_REDUCE)
    _addresses(w)
    w.columns[m.COL_C] = w.register_row(w.take("ureg"))
    _cache_hint(w)


def _dimensions(w: RowWriter) -> int:
    return w.choose({f"{n}D": n for n in range(1, 6)}, 0)


def tensor_load(w: RowWriter) -> None:
    """UTMALDG.nD [shared, mbarrier, coordinates], [tensor map]."""
    w.set(m.OP_BULK_COPY, aux0=m.SPACE_SHARED, aux1=_dimensions(w), aux4=m.BULK_TENSOR_LOAD)
    _addresses(w)
    _cache_hint(w)


def tensor_store(w: RowWriter) -> None:
    """UTMASTG.nD and UTMAREDG.nD.operation [shared, coordinates], [tensor map]."""
    reduces = w.instruction.opcode == "UTMAREDG"
    kind = m.BULK_TENSOR_REDUCE if reduces else m.BULK_TENSOR_STORE
    w.set(m.OP_BULK_COPY, aux0=m.SPACE_SHARED, aux1=_dimensions(w), aux4=kind)
    if reduces:
        w.columns[m.COL_AUX2] = _operation(w)
    _addresses(w)
    _cache_hint(w)
