"""Lowering of bulk copies: UBLKCP, UBLKRED, UBLKPF, and UTMALDG, UTMASTG, UTMAREDG, UTMAPF, which copy boxes of
tensors; of STAS and REDAS, which store in other blocks, and of UGETNEXTWORKID."""

from __future__ import annotations

from isa import microops as m
from isa.lower_memory import ATOMICS, TYPES, check_operation
from isa.lower_writer import RowWriter

_DIRECTIONS = {"SG": m.BULK_LOAD, "GS": m.BULK_STORE, "SS": m.BULK_SHARED}
_REDUCTIONS = {m.BULK_STORE: m.BULK_REDUCE, m.BULK_SHARED: m.BULK_SHARED_REDUCE}
_TENSOR_KINDS = {"UTMALDG": m.BULK_LOAD, "UTMASTG": m.BULK_STORE, "UTMAREDG": m.BULK_REDUCE, "UTMAPF": m.BULK_PREFETCH}


def _address(w: RowWriter, column: int) -> None:
    """The first of the uniform registers in brackets."""
    operand = w.take("mem")
    if operand.ubase is None or operand.base is not None or operand.offset or operand.suffixes:
        raise w.refuse("an address of a bulk copy that is not in uniform registers alone")
    w.columns[column] = w.register_row(operand.ubase)


def _cache_hint(w: RowWriter) -> None:
    """desc[UR4]: a hint for L2, which changes no value."""
    if w.peek() is not None:
        w.take("other", "mem")


def _direction(w: RowWriter) -> int:
    ends = "".join(name for name in w.modifiers if name in ("S", "G"))
    if ends not in _DIRECTIONS:
        raise w.refuse("a bulk copy from global to global memory")
    return _DIRECTIONS[ends]


def plain_copy(w: RowWriter) -> None:
    """UBLKCP.S.G and .S.S [shared, mbarrier], [source], size | blocks; UBLKCP.G.S [global], [shared], size; UBLKPF.L2
    [global], size."""
    ahead = w.instruction.opcode == "UBLKPF"
    kind = m.BULK_PREFETCH if ahead else _direction(w) | m.BULK_MULTICAST * w.has("MULTICAST")
    w.set(m.OP_BULK_COPY, aux0=m.SPACE_SHARED, aux4=kind)
    _addresses_and_size(w, *(m.COL_A, m.COL_B)[ahead:])


def _addresses_and_size(w: RowWriter, *columns: int) -> None:
    for column in columns:
        _address(w, column)
    w.columns[m.COL_C] = w.register_row(w.take("ureg"))
    _cache_hint(w)


def _operation(w: RowWriter) -> int:
    return m.ATOMIC_INC if w.has("INC") else w.one_of(ATOMICS, "a reduction without an operation")


def plain_reduction(w: RowWriter) -> None:
    """UBLKRED.G.S.operation.type [global], [shared], size; UBLKRED.S.S as UBLKCP."""
    kind, operation = w.choose(TYPES, m.TYPE_U32), _operation(w)
    check_operation(w, operation, kind)
    if (direction := _direction(w)) not in _REDUCTIONS:
        raise w.refuse("a reduction out of global memory")
    w.set(m.OP_BULK_COPY, aux0=m.SPACE_SHARED, aux2=operation, aux3=kind, aux4=_REDUCTIONS[direction])
    _addresses_and_size(w, m.COL_A, m.COL_B)


def tensor_copy(w: RowWriter) -> None:
    """UTMALDG.nD [shared, mbarrier, coordinates], [tensor map] and, with .IM2COL or .MULTICAST, a register with the
    distances of pixels and the blocks; UTMASTG.nD, UTMAREDG.nD.operation without mbarrier, UTMAPF.L2.nD."""
    kind = _TENSOR_KINDS[w.instruction.opcode]
    dimensions = w.choose({f"{n}D": n for n in range(1, 6)}, 0)
    flags = m.BULK_IM2COL * w.has("IM2COL") | m.BULK_PAIR * w.has("2CTA") | m.BULK_ROWS4 * w.has("GATHER4", "SCATTER4")
    flags |= m.BULK_TENSOR | m.BULK_MULTICAST * w.has("MULTICAST")
    w.set(m.OP_BULK_COPY, aux0=m.SPACE_SHARED, aux1=dimensions, aux4=kind | flags)
    if kind == m.BULK_REDUCE:
        w.columns[m.COL_AUX2] = _operation(w)
    _address(w, m.COL_A)
    _address(w, m.COL_B)
    if w.next_is("ureg"):
        w.columns[m.COL_C] = w.register_row(w.take())
    _cache_hint(w)


def remote_store(w: RowWriter) -> None:
    """STAS [pair], data: the pair holds the address and that of the mbarrier. REDAS.operation.type likewise."""
    size, operation = w.choose({"64": 8, "128": 16}, 4), m.ATOMIC_EXCH
    kind = {4: m.TYPE_U32, 8: m.TYPE_U64, 16: m.TYPE_U128}[size]
    if w.instruction.opcode == "REDAS":
        operation, kind = _operation(w), w.choose(TYPES, m.TYPE_U32)
        check_operation(w, operation, kind)
    w.set(m.OP_STAS, aux0=m.SPACE_SHARED, aux1=size, aux4=operation << 8 | kind)
    operand = w.take("mem")
    if operand.base is None or operand.ubase is not None or operand.offset or operand.base.suffixes != ("64",):
        raise w.refuse("an address that is not a pair of registers")
    w.columns[m.COL_A] = w.register_row(operand.base)
    w.src(m.COL_B, size // 4, "raw")


def next_block(w: RowWriter) -> None:
    """UGETNEXTWORKID [shared], [mbarrier]: asks for a block that has not begun. Nobody has to be given one. .BROADCAST:
    all blocks of the cluster are told."""
    op = m.OP_BULK_COPY if w.has("BROADCAST") else m.OP_NEXT_BLOCK
    w.set(op, aux0=m.SPACE_SHARED, aux4=(m.BULK_SHARED | m.BULK_ANSWER) * w.has("BROADCAST"))
    _address(w, m.COL_A)
    _address(w, m.COL_B)
