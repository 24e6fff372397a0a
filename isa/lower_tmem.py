"""Lowering of what works on tensor memory: LDTM, STTM, UTCCP, UTCSHIFT, UTC?MMA, UTCBAR, UTCATOMSWS (PTX: tcgen05)."""

from __future__ import annotations

from isa import microops as m
from isa.lower_writer import RowWriter

_SHAPES = {"16dp64bit": m.TMEM_16X64, "16dp128bit": m.TMEM_16X128, "16dp256bit": m.TMEM_16X256,
           "16dp32bit_t0_t15": m.TMEM_16X32_LOW, "16dp32bit_t16_t31": m.TMEM_16X32_HIGH}  # fmt: skip
_WORDS = {m.TMEM_16X128: 2, m.TMEM_16X256: 4}
_NUMBERS = {f"x{1 << k}": 1 << k for k in range(8)}
_COPIES = {"4dp256bit": m.COPY_4X256, "128dp128bit": m.COPY_128X128, "4x32dp128bit": m.COPY_32X128,
           "2x64dp128bit_lw02_lw13": m.COPY_64X128_02, "2x64dp128bit_lw01_lw23": m.COPY_64X128_01}  # fmt: skip
_FORMATS = {"U6x16P32": 6, "U4x16P64": 4}
_COLLECTOR = {"A_KEEP", "A_REUSE", "B_KEEP", "B_REUSE", "BUFFER1", "BUFFER2", "BUFFER3"}
_EXTREMES = {"MIN": m.REDUX_MIN_U, "MAX": m.REDUX_MAX_U, "MINABS": m.REDUX_MIN_U, "MAXABS": m.REDUX_MAX_U}


def _descriptor(w: RowWriter, *names: str) -> tuple[str, int, int]:
    """(name, row, offset) of an operand such as tmem[UR4+0x10]; hints for collector buffers change no value."""
    operand = w.take("other")
    name = str(operand.value)
    if name not in names or operand.ubase is None or operand.base is not None or {*operand.suffixes} - _COLLECTOR:
        raise w.refuse("an operand of tensor memory of another kind")
    if operand.offset and (name != "tmem" or w.instruction.opcode.endswith("MMA")):
        raise w.refuse("an address of tensor memory with an offset")
    return name, w.register_row(operand.ubase), operand.offset


def move(w: RowWriter) -> None:
    """LDTM[.STAT][.shape][.xN][.PACK16BIT][.reduction] [extreme,] d, tmem[]; STTM tmem[], data."""
    load, shape = w.instruction.opcode == "LDTM", w.choose(_SHAPES, m.TMEM_32X32)
    count = w.choose(_NUMBERS, 1) * _WORDS.get(shape, 1)
    packed = int(w.has("PACK16BIT", "EXPAND16BIT"))
    w.set(m.OP_TMEM_LOAD if load else m.OP_TMEM_STORE, aux0=shape, aux1=count, aux3=packed, aux5=-1)
    if w.has("STAT"):
        kind = w.one_of(_EXTREMES, "a reduction without an operation")
        kind += m.REDUX_MIN_F - m.REDUX_MIN_U if w.has("F32") else m.REDUX_MIN_S - m.REDUX_MIN_U if w.has("S32") else 0
        flags = m.FLAG_NAN * w.has("NAN") | m.FLAG_ABS * w.has("MINABS", "MAXABS")
        w.columns[m.COL_AUX4], w.columns[m.COL_AUX5] = kind | flags << 8, w.register_row(w.take("reg"))
    if load:
        w.dst(count)
    _, w.columns[m.COL_A], w.columns[m.COL_AUX2] = _descriptor(w, "tmem")
    if not load:
        w.columns[m.COL_B] = w.register_row(w.take("reg"))


def copy(w: RowWriter) -> None:
    """UTCCP.T.S[.2CTA][.shape][.format] tmem[], gdesc[]."""
    w.set(m.OP_TMEM_COPY, aux0=w.choose(_COPIES, m.COPY_128X256), aux1=w.choose(_FORMATS, 8), aux2=int(w.has("2CTA")))
    _, w.columns[m.COL_A], w.columns[m.COL_AUX4] = _descriptor(w, "tmem")
    _, w.columns[m.COL_B], _ = _descriptor(w, "gdesc")


def shift(w: RowWriter) -> None:
    """UTCSHIFT[.2CTA].DOWN tmem[]."""
    w.set(m.OP_TMEM_SHIFT, aux2=int(w.has("2CTA")))
    _, w.columns[m.COL_A], w.columns[m.COL_AUX4] = _descriptor(w, "tmem")


def product(w: RowWriter) -> None:
    """UTC?MMA[.2CTA][.WS][.ASHIFT][.4X] A, gdesc[B], tmem[D], tmem[metadata], idesc[], [tmem[scales],] [lanes or zero
    columns,] enable D[, its scale]. Metadata and instruction descriptor are neighbours, scales of A and B too."""
    kind = {"UTCHMMA": m.PRODUCT_HALF, "UTCQMMA": m.PRODUCT_BYTE, "UTCIMMA": m.PRODUCT_INTEGER}
    flags = m.PRODUCT_PAIR * w.has("2CTA") | m.PRODUCT_WS * w.has("WS") | m.PRODUCT_ASHIFT * w.has("ASHIFT")
    w.set(m.OP_TMEM_PRODUCT, aux0=kind.get(w.instruction.opcode, m.PRODUCT_NIBBLE), aux3=-1, aux5=-1)
    name, w.columns[m.COL_A], _ = _descriptor(w, "gdesc", "tmem")
    _, w.columns[m.COL_B], _ = _descriptor(w, "gdesc")
    _, w.columns[m.COL_C], _ = _descriptor(w, "tmem")
    _, w.columns[m.COL_AUX2], _ = _descriptor(w, "tmem")
    if _descriptor(w, "idesc")[1] != w.columns[m.COL_AUX2] + 1:
        raise w.refuse("an instruction descriptor that is not behind the metadata")
    if w.next_is("other"):
        _, w.columns[m.COL_AUX5], _ = _descriptor(w, "tmem")
    if w.next_is("ureg"):
        w.columns[m.COL_AUX3] = w.register_row(w.take())
    w.ps(0)
    w.columns[m.COL_AUX4] = w.number() if w.peek() is not None else 0
    w.columns[m.COL_AUX1] = flags | m.PRODUCT_A_TMEM * (name == "tmem") | m.PRODUCT_16 * w.has("4X", "BLOCK16")


def commit(w: RowWriter) -> None:
    """UTCBAR[.2CTA][.MULTICAST] [mbarrier], URZ[, blocks]."""
    w.set(m.OP_TMEM_COMMIT, aux2=int(w.has("2CTA")), aux3=int(w.has("MULTICAST")))
    operand = w.take("mem")
    if operand.ubase is None or operand.base is not None or operand.offset or w.number():
        raise w.refuse("an mbarrier that is not in a uniform register alone")
    w.columns[m.COL_A] = w.register_row(operand.ubase)
    if w.has("MULTICAST"):
        w.columns[m.COL_B] = w.register_row(w.take("ureg"))


def columns(w: RowWriter) -> None:
    """UTCATOMSWS[.2CTA].FIND_AND_SET.ALIGN found, first, units; UTCATOMSWS.AND URZ, those that stay."""
    if w.has("AND") == w.has("FIND_AND_SET"):
        raise w.refuse("an operation on the map of tensor memory that is not known")
    w.set(m.OP_TMEM_FREE if w.has("AND") else m.OP_TMEM_TAKE, aux2=int(w.has("2CTA")))
    w.operands("d A" if w.has("AND") else "pd0 d A", numeric="raw")


def leave(w: RowWriter) -> None:
    """UVIRTCOUNT.DEALLOC.SMPOOL 0x80: the block gives up its right to allocate."""
    w.set(m.OP_TMEM_LEAVE)
    w.number()


def fence(w: RowWriter) -> None:
    """FENCE.VIEW.ASYNC.T: what the warp has stored in tensor memory is there; .S and .G mean nothing here."""
    w.set(m.OP_TMEM_WAIT if w.has("T") else m.OP_ERRBAR)
