"""Lowering of the tensor-core instructions that work on registers (HMMA, IMMA, BMMA, DMMA) and of MOVM."""

from __future__ import annotations

import re

from isa import microops as m
from isa.instruction import Operand
from isa.lower_writer import RowWriter, is_zero

_SHAPE = re.compile(r"(16|8)x?(8)x?(\d+)$")  # 16816 or 16x8x16


def _shape(w: RowWriter, form: re.Pattern[str] = _SHAPE) -> tuple[int, ...]:
    """Rows, columns and depth."""
    for name in w.modifiers:
        if shape := form.match(name):
            return tuple(map(int, shape.groups()))
    raise w.refuse("a matrix shape that is not known")


def _words(rows: int, columns: int, bits: int) -> int:
    """Registers of a matrix that is spread over a warp."""
    return rows * columns * bits // 1024


def _product(w: RowWriter, op: int, bits: int, result: int, **columns: int) -> None:
    """The product of a warp's matrices, of so many bits an element: the operation, the result and three sources, each
    the first of several registers. Of the sparse forms (.SP), A has half of the elements, and the last two operands are
    a register and which of its threads hold the metadata."""
    (rows, across, depth), sparse = _shape(w), w.has("SP")
    w.set(op, aux0=rows << 16 | across << 8 | depth, **columns)
    words = _words(rows, across, result)
    w.dst(words)
    sources = _words(rows, depth // (1 + sparse), bits), _words(across, depth, bits), words
    for column, count in zip((m.COL_A, m.COL_B, m.COL_C), sources, strict=True):
        operand = w.take("reg")
        unknown = [name for name in operand.suffixes if name not in ("ROW", "COL")]
        if unknown or operand.negate or operand.absolute or operand.invert:
            raise w.refuse("a modified matrix operand")
        if operand.index % min(count, 2) and operand.index != 255:
            raise w.refuse("a matrix operand that is not aligned")
        w.columns[column] = w.register_row(operand)
        w.sources.append((column, operand, count))
    if sparse and op != m.OP_QMMA:
        w.columns[m.COL_AUX5] = w.register_row(w.take("reg"))
        w.columns[m.COL_AUX3] = 1 + w.number()


def half_matrix(w: RowWriter) -> None:
    """HMMA[.SP].shape.result[.source]: sources F16 unless BF16 or TF32; AUX1 TENSOR_*, AUX2 bits of the result."""
    _, columns, depth = _shape(w)
    source = m.TENSOR_BF16 if w.has("BF16") else m.TENSOR_TF32 if w.has("TF32") else m.TENSOR_F16
    result = 32 if w.has("F32") else 16
    bits = 32 if source == m.TENSOR_TF32 else 16
    if columns * depth * bits // 1024 > (4 if w.has("SP") else 2):
        raise w.refuse("a matrix shape that this type does not have")
    _product(w, m.OP_HMMA, bits, result, aux1=source, aux2=result)


def integer_matrix(w: RowWriter) -> None:
    """IMMA[.SP].shape.{S8,U8,S4,U4}.{...}[.SAT]: AUX1 bit 0 A signed, bit 1 B signed, from bit 4 on the size."""
    _, columns, depth = _shape(w)
    kinds = [name for name in w.modifiers if name in ("S8", "U8", "S4", "U4")]
    if len(kinds) != 2 or kinds[0][1] != kinds[1][1]:
        raise w.refuse("an integer matrix without two source types of one size")
    bits = int(kinds[0][1])
    if w.has("SP") and bits != 8:
        raise w.refuse("a sparse matrix of four-bit numbers")
    signs = (kinds[0][0] == "S") | (kinds[1][0] == "S") << 1
    words = _words(columns, depth, bits) // (1 + w.has("SP"))
    _product(w, m.OP_IMMA, bits, 32, aux1=signs | bits << 4, aux2=int(w.has("SAT")), aux4=words)


def bit_matrix(w: RowWriter) -> None:
    """BMMA.shape.{AND,XOR}.POPC: counts of bits, as a product of integers of one bit."""
    _, columns, depth = _shape(w)
    if w.has("AND") == w.has("XOR"):
        raise w.refuse("a product of bits that is not known")
    kind = m.INTEGER_AND if w.has("AND") else m.INTEGER_XOR
    _product(w, m.OP_IMMA, 1, 32, aux1=kind << 4, aux4=_words(columns, depth, 1))


def narrow_matrix(w: RowWriter) -> None:
    """QMMA, OMMA[.SF][.SP].shape.result.A.B[.scale[.4X]] d, A, B, C [, metadata] [, scales of A, of B, selector] [, 0].
    Metadata and scales of A are neighbours."""
    kinds, packed = [name for name in w.modifiers if name in m.NARROW_FORMS], w.instruction.opcode == "OMMA"
    forms = m.NARROW_FORMS.index(kinds[0]) | m.NARROW_FORMS.index(kinds[-1]) << 4
    scales = m.SCALES_PACKED * packed | m.SCALES_SPARSE * w.has("SP") | m.SCALES_GIVEN * w.has("SF")
    scales |= m.SCALES_16 * w.has("4X") | m.SCALES_UE4M3 * w.has("UE4M3")
    result = 32 if w.has("F32") else 16
    _product(w, m.OP_QMMA, 4 if packed else 8, result, aux1=forms | scales << 8, aux2=result)
    if w.has("SP", "SF"):
        w.columns[m.COL_AUX5] = w.register_row(w.take("reg"))
        w.columns[m.COL_AUX3] = w.columns[m.COL_AUX5] + w.has("SP")
    if w.has("SF"):
        w.columns[m.COL_AUX4] = w.register_row(w.take("reg"))
        w.columns[m.COL_AUX2] |= w.register_row(w.take("ureg")) << 8
    if w.has("SP") and w.number():
        raise w.refuse("metadata of threads that are not all")


def double_matrix(w: RowWriter) -> None:
    _product(w, m.OP_DMMA, 64, 64)


_GROUP_SHAPE = re.compile(r"(64)x(\d+)x(\d+)$")
_EIGHT_BIT = {"E4M3": m.TENSOR_E4M3, "E5M2": m.TENSOR_E5M2}
_DESCRIPTOR_FLAGS = {
    "negA": m.GMMA_NEGATE_A,
    "negB": m.GMMA_NEGATE_B,
    "tnspA": m.GMMA_TRANSPOSE_A,
    "tnspB": m.GMMA_TRANSPOSE_B,
}


def _group_types(w: RowWriter) -> tuple[int, int, int]:
    """(AUX1, bits of the result, AUX3) of a product of four warps."""
    opcode, result = w.instruction.opcode, 16 if w.has("F16") and not w.has("F32") else 32
    if opcode == "HGMMA":
        kind = m.TENSOR_BF16 if w.has("BF16") else m.TENSOR_TF32 if w.has("TF32") else m.TENSOR_F16
        return kind | kind << 8, result, 0
    if opcode == "QGMMA":
        kinds = [_EIGHT_BIT[name] for name in w.modifiers if name in _EIGHT_BIT]
        if len(kinds) != 2:
            raise w.refuse("a matrix without two source types")
        return kinds[0] | kinds[1] << 8, result, 0
    if opcode == "BGMMA":
        return m.TENSOR_INTEGER, 32, m.INTEGER_AND << 4
    kinds = [int(name == "S8") for name in w.modifiers if name in ("S8", "U8")]
    if len(kinds) != 2:
        raise w.refuse("an integer matrix without two source types")
    return m.TENSOR_INTEGER, 32, kinds[0] | kinds[1] << 1 | 8 << 4


def group_matrix(w: RowWriter) -> None:
    """HGMMA, QGMMA, IGMMA, BGMMA: D, [A,] gdesc[descriptors], C [, predicate] [, metadata, selector] [, gsb0].

    The uniform registers of gdesc hold the descriptor of A (unless A is in registers) and then that of B.
    """
    _, columns, _ = _shape(w, _GROUP_SHAPE)
    kinds, result, integer = _group_types(w)
    w.set(m.OP_GMMA, aux0=columns, aux1=kinds, aux2=result, aux3=integer)
    w.dst(columns * result // 64)
    flags = m.GMMA_SATURATE * w.has("SAT")
    if w.next_is("reg"):
        operand = w.take()
        flags |= m.GMMA_REGISTERS | m.GMMA_NEGATE_A * operand.negate
        w.columns[m.COL_A] = w.register_row(operand)
    flags |= _descriptors(w, w.take("other"))
    addend = w.take("reg")
    w.columns[m.COL_C] = w.register_row(addend)
    w.ps(0)
    if is_zero(addend):
        w.columns[m.COL_C] = w.columns[m.COL_DST]
        w.ps_false(0)
    if w.has("SP"):
        w.columns[m.COL_AUX0] |= w.register_row(w.take("reg")) << 16
        selector = w.number() if w.next_is("imm") else 0
        flags |= m.GMMA_SPARSE | selector << m.GMMA_SELECTOR_BIT
    if w.next_is("other"):
        w.take()
        flags |= m.GMMA_COMMITS
    w.columns[m.COL_AUX4] = flags


def _descriptors(w: RowWriter, operand: Operand) -> int:
    """Rows of the two descriptors; returns the flags printed behind them."""
    if operand.value != "gdesc" or operand.ubase is None or operand.offset:
        raise w.refuse("a matrix descriptor of another kind")
    unknown = [name for name in operand.suffixes if name not in _DESCRIPTOR_FLAGS]
    if unknown:
        raise w.refuse(f"descriptor flag .{unknown[0]}")
    w.columns[m.COL_B] = w.register_row(operand.ubase)
    w.columns[m.COL_AUX5] = w.columns[m.COL_B] + 2
    return sum(_DESCRIPTOR_FLAGS[name] for name in operand.suffixes)


def group_order(w: RowWriter) -> None:
    """WARPGROUP.ARRIVE waits for all four warps, WARPGROUP.DEPBAR.LE gsb0, n for all but n groups of products."""
    w.set(m.OP_GROUP_ARRIVE if w.has("ARRIVE") else m.OP_GROUP_WAIT)
    w.operands("" if w.has("ARRIVE") else "other number")
