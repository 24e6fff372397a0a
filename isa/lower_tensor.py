"""Lowering of the tensor-core instructions that work on registers (HMMA, IMMA, DMMA) and of MOVM."""

from __future__ import annotations

from isa import microops as m
from isa.lower_writer import RowWriter

# Rows of A, B and C (C as 32-bit words of one result register type) by shape.
_SHAPES = {
    "16816": (16, 8, 16),
    "1688": (16, 8, 8),
    "1684": (16, 8, 4),
    "16832": (16, 8, 32),
    "8816": (8, 8, 16),
}


def _shape(w: RowWriter) -> tuple[int, int, int]:
    for name, shape in _SHAPES.items():
        if w.has(name):
            return shape
    raise w.refuse("a matrix shape that is not known")


def _sources(w: RowWriter, dst_rows: int, rows: tuple[int, int, int]) -> None:
    """Destination and three sources, each the first of several consecutive registers."""
    w.dst(dst_rows)
    for column, count in zip((m.COL_A, m.COL_B, m.COL_C), rows, strict=True):
        operand = w.take("reg")
        unknown = [name for name in operand.suffixes if name not in ("ROW", "COL")]
        if unknown or operand.negate or operand.absolute or operand.invert:
            raise w.refuse("a modified matrix operand")
        if operand.index % min(count, 2) and operand.index != 255:
            raise w.refuse("a matrix operand that is not aligned")
        w.columns[column] = w.register_row(operand)
        w.sources.append((column, operand))


def half_matrix(w: RowWriter) -> None:
    """HMMA.shape.result[.source]: sources F16 unless BF16 or TF32; AUX1 TENSOR_*, AUX2 bits of the result."""
    rows, columns, depth = _shape(w)
    source = m.TENSOR_BF16 if w.has("BF16") else m.TENSOR_TF32 if w.has("TF32") else m.TENSOR_F16
    result = 32 if w.has("F32") else 16
    bits = 32 if source == m.TENSOR_TF32 else 16
    w.set(m.OP_HMMA, aux0=rows << 16 | columns << 8 | depth, aux1=source, aux2=result)
    words = rows * columns * result // 1024
    _sources(w, words, (rows * depth * bits // 1024, columns * depth * bits // 1024, words))


def integer_matrix(w: RowWriter) -> None:
    """IMMA.shape.{S8,U8}.{S8,U8}: AUX1 bit 0 A signed, bit 1 B signed."""
    rows, columns, depth = _shape(w)
    kinds = [name for name in w.modifiers if name in ("S8", "U8")]
    if len(kinds) != 2:
        raise w.refuse("an integer matrix without two source types")
    signs = (kinds[0] == "S8") | (kinds[1] == "S8") << 1
    w.set(m.OP_IMMA, aux0=rows << 16 | columns << 8 | depth, aux1=signs)
    words = rows * columns // 32
    _sources(w, words, (rows * depth // 128, columns * depth // 128, words))


def double_matrix(w: RowWriter) -> None:
    w.set(m.OP_DMMA, aux0=8 << 16 | 8 << 8 | 4)
    _sources(w, 4, (2, 2, 4))


def transpose(w: RowWriter) -> None:
    """MOVM.16.MT88: transpose an 8x8 matrix of 16-bit elements that is spread over the warp."""
    w.set(m.OP_MOVM)
    w.dst()
    w.src(m.COL_A, numeric="raw")
