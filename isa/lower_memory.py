"""Lowering of loads, stores, atomics, constant loads and cache control."""

from __future__ import annotations

from isa import microops as m
from isa.instruction import Operand
from isa.lower_writer import RowWriter, constants, is_zero

_SIZES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "32": 4, "64": 8, "128": 16, "256": 32}
_HINTS = {"EF": m.HINT_EVICT_FIRST, "EL": m.HINT_EVICT_LAST, "NA": m.HINT_NO_ALLOCATE, "LU": m.HINT_LAST_USE}
_HINTS["EU"] = m.HINT_EVICT_UNCHANGED
SCOPES = constants("SCOPE_", "CTA SM GPU") | {"VC": m.SCOPE_GPU, "SYS": m.SCOPE_SYSTEM}
_SHIFTS = {"X4": 2, "X8": 3, "X16": 4}
ATOMICS = constants("ATOMIC_", "ADD MIN MAX DEC AND OR XOR EXCH CAS")
_NAMED_FIRST = {"CAST": m.ATOMIC_CAST_SPIN, "POPC": m.ATOMIC_POPC_INC, "INC": m.ATOMIC_INC}
_SPACES = dict.fromkeys(("LDG", "STG", "ATOMG", "REDG"), m.SPACE_GLOBAL)
_SPACES |= dict.fromkeys(("LDS", "STS", "ATOMS"), m.SPACE_SHARED)
_SPACES |= dict.fromkeys(("LDL", "STL"), m.SPACE_LOCAL)
_SPACES |= dict.fromkeys(("LD", "ST", "ATOM", "RED"), m.SPACE_GENERIC)


def _size(w: RowWriter) -> int:
    """Bytes per lane, with MEM_SIGNED for a signed small load."""
    return w.choose(_SIZES, 4) | m.MEM_SIGNED * w.has("S8", "S16")


def _rows(size: int) -> int:
    return max(1, (size & 0xFF) // 4)


def _ordering(w: RowWriter) -> int:
    bits = w.choose(_HINTS, m.HINT_NONE) << m.MEM_HINT_BIT
    bits |= w.choose(SCOPES, m.SCOPE_CTA) << m.MEM_SCOPE_BIT
    # Inside a block the SM's own L1 is coherent: an H200 serves such loads from it.
    if w.has("MMIO") or (w.has("STRONG") and not w.has("SM", "CTA")):
        bits |= m.MEM_STRONG
    return bits | m.MEM_CONSTANT * w.has("CONSTANT") | m.MEM_BYPASS * w.has("BYPASS")


def address(w: RowWriter, operand: Operand, column: int = m.COL_A) -> int:
    """Fill `column`, C and the AUX2 offset from a memory operand; returns its AUX3 bits.

    The register is 64 bits wide for the extended (.E) forms unless it says .U32; so is then the uniform base.
    """
    if operand.suffixes:
        raise w.refuse("a suffix of the memory operand")
    extended = w.has("E")
    bits = 0
    base, uniform = operand.base, operand.ubase
    if base is not None:
        unknown = [name for name in base.suffixes if name not in ("64", "U32", *_SHIFTS)]
        if unknown or base.negate:
            raise w.refuse("an address suffix that is not known")
        if (extended and "U32" not in base.suffixes) or "64" in base.suffixes:
            bits |= m.MEM_WIDE_ADDRESS
            if base.index % 2 and not is_zero(base):
                raise w.refuse("an address that is not a register pair")
        for name in base.suffixes:
            bits |= _SHIFTS.get(name, 0) << m.MEM_SHIFT_BIT
        w.columns[column] = w.register_row(base)
    if uniform is not None:
        bits |= m.MEM_UNIFORM_BASE | (m.MEM_UNIFORM_WIDE if extended else 0)
        w.columns[m.COL_C] = w.register_row(uniform)
    w.columns[m.COL_AUX2] = operand.offset
    return bits


def _take_address(w: RowWriter) -> None:
    w.columns[m.COL_AUX3] |= address(w, w.take("mem"))


def _take_plain_address(w: RowWriter) -> None:
    """Take a load's or store's address, whose descriptor may be an L2 policy (`gpusim/engine/memory/policy.py`)."""
    operand = w.peek()
    _take_address(w)
    if operand is not None and operand.desc is not None and not is_zero(operand.desc):
        w.columns[m.COL_AUX5] = w.register_row(operand.desc)


def load(w: RowWriter) -> None:
    size = _size(w)
    w.set(m.OP_LOAD, aux0=_SPACES[w.instruction.opcode], aux1=size, aux3=_ordering(w))
    if size == 32:  # the upper half has registers of its own
        w.columns[m.COL_AUX4] = w.register_row(w.take("reg"), destination=True)
    w.dst(min(_rows(size), 4))
    _take_plain_address(w)


def store(w: RowWriter) -> None:
    size = _size(w)
    w.set(m.OP_STORE, aux0=_SPACES[w.instruction.opcode], aux1=size, aux3=_ordering(w))
    _take_plain_address(w)
    w.columns[m.COL_B] = _data(w, min(_rows(size), 4))
    if size == 32:
        w.columns[m.COL_AUX4] = _data(w, 4)


def _data(w: RowWriter, rows: int) -> int:
    operand = w.take("reg", "ureg")
    if rows > 1 and operand.index % rows and not is_zero(operand):
        raise w.refuse("a wide operand that does not start at a multiple of its size")
    if operand.negate or operand.absolute or operand.invert or operand.suffixes:
        raise w.refuse("a modified data operand")
    w.sources.append((m.COL_B, operand, 1))
    return w.register_row(operand)


TYPES = constants("TYPE_", "S32 U64 S64 F32 F64 F16x2 BF16x2 F32x2 F32x4 F16x4 F16x8 BF16x4 BF16x8")
TYPES |= {"64": m.TYPE_U64, "128": m.TYPE_U128, "F16": m.TYPE_F16X2, "BF16": m.TYPE_BF16X2}


def _atomic_type(w: RowWriter) -> int:
    """TYPE_* of the modifiers; the plain form is U32."""
    kind = w.choose(TYPES, m.TYPE_U32)
    if kind in (m.TYPE_F32X2, m.TYPE_F32X4) and not w.has("FTZ"):
        raise w.refuse("a sum of vectors that keeps denormal numbers")
    return m.TYPE_F32_FTZ if kind == m.TYPE_F32 and w.has("FTZ") else kind


_TYPE_BYTES = {m.TYPE_U64: 8, m.TYPE_S64: 8, m.TYPE_F64: 8, m.TYPE_U128: 16}
_TYPE_BYTES |= dict.fromkeys((m.TYPE_F32X2, m.TYPE_F16X4, m.TYPE_BF16X4), 8)
_TYPE_BYTES |= dict.fromkeys((m.TYPE_F32X4, m.TYPE_F16X8, m.TYPE_BF16X8), 16)
_EXCHANGES = (m.ATOMIC_EXCH, m.ATOMIC_CAS, m.ATOMIC_CAST_SPIN)
_SUMS = (m.ATOMIC_ADD,)
_EXTREMES = (*_SUMS, m.ATOMIC_MIN, m.ATOMIC_MAX)
# Besides exchanges, which look at bits. Types that are not here have every operation (PTX ISA, atom and red).
_OPERATIONS = {
    **dict.fromkeys((m.TYPE_F32, m.TYPE_F32_FTZ, m.TYPE_F64, m.TYPE_F32X2, m.TYPE_F32X4), _SUMS),
    **dict.fromkeys((m.TYPE_F16X2, m.TYPE_F16X4, m.TYPE_F16X8), _EXTREMES),
    **dict.fromkeys((m.TYPE_BF16X2, m.TYPE_BF16X4, m.TYPE_BF16X8), _EXTREMES),
    **dict.fromkeys((m.TYPE_U64, m.TYPE_S64), (*_EXTREMES, m.ATOMIC_AND, m.ATOMIC_OR, m.ATOMIC_XOR)),
    m.TYPE_U128: (),
}


def check_operation(w: RowWriter, operation: int, kind: int) -> None:
    """Refuses an atomic that no GPU has."""
    if operation not in _EXCHANGES and operation not in _OPERATIONS.get(kind, (operation,)):
        raise w.refuse("an operation that atomics of this type do not have")


def atomic(w: RowWriter) -> None:
    """ATOM, ATOMG, ATOMS (with a destination, though it may be RZ) and RED, REDG."""
    opcode = w.instruction.opcode
    reduction = opcode.startswith("RED")
    kind = _atomic_type(w)
    size = _TYPE_BYTES.get(kind, 4)
    if w.has("CAST") and not w.has("SPIN"):
        raise w.refuse("a compare-and-store that does not spin")
    if (operation := next((value for name, value in _NAMED_FIRST.items() if w.has(name)), -1)) < 0:
        operation = w.one_of(ATOMICS, "an atomic without an operation")
    check_operation(w, operation, kind)
    op = m.OP_RED if reduction else m.OP_ATOM
    w.set(op, aux0=_SPACES[opcode], aux1=size, aux3=_ordering(w), aux4=operation << 8 | kind)
    if not reduction:
        w.pd(0)
        if not w.next_is("mem"):  # CAST.SPIN of later GPUs has a predicate only
            w.dst(_rows(size))
    _take_address(w)
    if operation != m.ATOMIC_POPC_INC:
        w.columns[m.COL_B] = _data(w, _rows(size))
    if operation in (m.ATOMIC_CAS, m.ATOMIC_CAST_SPIN):
        w.columns[m.COL_AUX5] = _data(w, _rows(size))


def load_constant(w: RowWriter) -> None:
    """LDC, ULDC: with a fixed address a move from constant rows, else a load of CLS_MEMORY."""
    size = _size(w)
    rows = _rows(size)
    w.dst(rows)
    operand = w.take("const")
    if operand.bank is None or operand.desc is not None:
        raise w.refuse("a bindless constant")
    if operand.base is not None or operand.ubase is not None or rows == 4:
        _indexed_constant(w, operand, size)
    elif size in (4, 8):
        w.set(m.OP_MOV if size == 4 else m.OP_MOV_WIDE)
        w.put(m.COL_A, operand, rows, "raw")
    else:
        _small_constant(w, operand, size)


def _indexed_constant(w: RowWriter, operand: Operand, size: int) -> None:
    bits = m.MEM_UNIFORM_BASE * (operand.ubase is not None)
    for column, register in ((m.COL_A, operand.base), (m.COL_C, operand.ubase)):
        if register is not None:
            w.columns[column] = w.register_row(register)
    w.set(m.OP_LDC, aux0=m.SPACE_CONST, aux1=size, aux2=operand.offset, aux3=bits, aux4=operand.bank or 0)


def _small_constant(w: RowWriter, operand: Operand, size: int) -> None:
    """A byte or half word of a constant word: PRMT picks it, byte 4 (of the zero row) or copied signs fill the rest."""
    nbytes = size & 0xFF
    first = operand.offset % 4
    fill = (first + nbytes - 1) | 8 if size & m.MEM_SIGNED else 4
    selector = sum((first + k if k < nbytes else fill) << 4 * k for k in range(4))
    word = operand.offset - first
    w.set(m.OP_PRMT, aux0=m.PRMT_IDX, const=(operand.bank or 0) << 16 | word)
    w.columns[m.COL_A] = w.constant_code(operand.bank or 0, word)
    w.columns[m.COL_B] = w.immediate_code(selector)


def async_copy(w: RowWriter) -> None:
    """LDGSTS: global to shared without passing a register; a false PS0 of the .ZFILL form writes zeros."""
    size = w.choose(_SIZES, 4)
    w.set(m.OP_LDGSTS, aux0=m.SPACE_SHARED, aux1=size, aux3=_ordering(w), aux4=int(w.has("ZFILL")))
    shared, distant = w.take("mem"), w.take("mem")
    if shared.ubase is not None or (shared.base is not None and shared.base.suffixes):
        raise w.refuse("a shared address with a uniform base")
    if shared.base is not None:
        w.columns[m.COL_A] = w.register_row(shared.base)
    w.columns[m.COL_AUX3] |= address(w, distant, m.COL_B)
    w.columns[m.COL_AUX5] = distant.offset
    w.columns[m.COL_AUX2] = shared.offset
    w.ps(0)


def matrices(w: RowWriter) -> None:
    """LDSM and STSM: 8x8 matrices of 16-bit elements, one row address per lane group; .MT88 transposes. Of bytes: 8x16
    (.M816), 16x16 (.MT1616, two registers) and 16x8 (.MT168), the last two transposed."""
    bits = w.choose({"8": 8, "U6x16P32TO8": 6, "U4x16P64TO8": 4}, 0)
    if not (w.has("M816", "MT1616", "MT168") if bits else w.has("M88", "MT88")):
        raise w.refuse("a matrix shape that is not known")
    loads, count = w.instruction.opcode == "LDSM", w.choose({"2": 2, "4": 4}, 1) << w.has("MT1616")
    across = w.has("MT88", "MT1616", "MT168") << 8
    w.set(m.OP_LDSM if loads else m.OP_STSM, aux0=m.SPACE_SHARED, aux1=4 * count, aux4=bits, aux5=count | across)
    if loads:
        w.dst(count)
    _take_address(w)
    if not loads:
        w.columns[m.COL_B] = _data(w, count)


def cache_control(w: RowWriter) -> None:
    """CCTL: .PF1 and .PF2 fetch lines, .IVALL invalidates L1 (AUX0 = 1), the others are hints (AUX0 = 0)."""
    ahead = w.instruction.opcode == "CCTL" and w.has("PF1", "PF2", "PML2")
    w.set(m.OP_PREFETCH if ahead else m.OP_CCTL, aux0=m.SPACE_GLOBAL if ahead else int(w.has("IVALL")))
    if w.next_is("mem"):
        _take_address(w)


def query_space(w: RowWriter) -> None:
    """QSPC.E.S and its like: does a generic address lie in this space?"""
    # .D is the shared memory of the whole cluster, which lies in the same window.
    spaces = {"S": m.SPACE_SHARED, "D": m.SPACE_SHARED, "L": m.SPACE_LOCAL, "G": m.SPACE_GLOBAL}
    space = w.one_of(spaces, "a space that is not known")
    w.set(m.OP_QSPC, aux0=m.SPACE_GENERIC, aux4=space, aux5=int(w.has("D")))
    w.pd(0)
    if not is_zero(w.take("reg")):  # an H200 writes 1 for a global address; for others nobody knows
        raise w.refuse("a result in a register")
    _take_address(w)


_ARRIVALS = {
    "A1TR": m.SYNCS_ONE | m.SYNCS_OPERAND << 4,
    "A1T0": m.SYNCS_ONE,
    "ART0": m.SYNCS_OPERAND,
    "A0TR": m.SYNCS_OPERAND << 4,
    "A0TX": m.SYNCS_OPERAND_DONE << 4,
    "A0T1": m.SYNCS_ONE << 4,
}


def barrier_object(w: RowWriter) -> None:
    """SYNCS: an mbarrier in shared memory is set (EXCH), asked for its phase, or arrived at.

    The part behind ARRIVE.TRANS64 says how many arrivals (A) and transactions (T) it means: 0, 1, those of the
    operand (R), or as many transactions done (X); without it, one arrival and the operand's transactions.
    """
    if w.has("IVALL"):  # sm_100: what plain stores have made of barriers holds from now on
        w.set(m.OP_NOP)
        return
    w.set(m.OP_SYNCS, aux0=m.SPACE_SHARED, aux1=8)
    if w.has("CCTL"):
        w.columns[m.COL_AUX4] = m.SYNCS_INVALIDATE
    elif w.has("PHASECHK"):
        w.columns[m.COL_AUX4] = m.SYNCS_CHECK
        w.columns[m.COL_AUX5] = int(w.has("TRYWAIT"))
        w.pd(0)
    elif w.has("EXCH"):
        w.columns[m.COL_AUX4] = m.SYNCS_EXCHANGE
        w.dst(2)
    else:
        w.columns[m.COL_AUX4] = m.SYNCS_ARRIVE
        w.columns[m.COL_AUX5] = w.choose(_ARRIVALS, _ARRIVALS["A1TR"]) | m.SYNCS_DROP * w.has("OPTOUT")
        w.columns[m.COL_AUX5] |= m.SYNCS_MASK * w.has("TMASK")
        w.dst(2)
    _take_address(w)
    if not w.has("CCTL"):
        w.columns[m.COL_B] = _data(w, 2 if w.has("EXCH") else 1)


def copies_arrive(w: RowWriter) -> None:
    """ARRIVES.LDGSTSBAR: the asynchronous copies so far are an arrival (.ARVCNT) or a transaction of an mbarrier."""
    w.set(m.OP_ARRIVES, aux0=m.SPACE_SHARED, aux1=8, aux4=int(w.has("TRANSCNT")))
    _take_address(w)
