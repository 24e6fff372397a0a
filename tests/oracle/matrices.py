"""What the instructions on matrices mean that a warp holds together: the PTX ISA's ldmatrix, stmatrix, movmatrix, mma.

Lane 4g + t of a warp has row g of a fragment and the elements from t on; sums are exact rationals, rounded as the
tensor cores of an H200 do it, which the literature has for others (Fasi, Higham, Mikaitis and Pranesh, "Numerical
behavior of NVIDIA tensor cores", 2021) and the recording for this one.
"""

import re
from collections.abc import Callable
from fractions import Fraction

from isa import microops as m
from isa.instruction import Operand
from tests.oracle import floats
from tests.oracle.floats import BF16, F16, F32, F64, Format
from tests.oracle.lane import WORD, Undefined, View, signed
from tests.oracle.memory import place

Matrix = dict[tuple[int, int], int]
"""Bits of an element by row and column; B by column and row."""
TF32 = Format(32, 23, 0x7FFFFFFF)
_PLACES = 25
"""Binary places below the largest exponent that are added up."""


# --- 8 by 8 matrices of halves ----------------------------------------------------------------------------
def _count(v: View) -> int:
    return next((int(name) for name in v.instruction.modifiers if name in ("2", "4")), 1)


def _element(v: View, lane: int, half: int) -> tuple[int, int]:
    """Row and column of the lower or upper half of a lane's word; .MT88 exchanges them."""
    row, column = lane // 4, 2 * (lane % 4) + half
    return (column, row) if v.has("MT88") else (row, column)


def load_matrix(views: list[View]) -> None:
    """LDSM: lane 8k + r has the address of row r of matrix k, which goes to register k."""
    addresses = {v.lane.number: place(v, v.sources[0])[1] for v in views}
    for v in views:
        words = 0
        for k in range(_count(v)):
            for half in (0, 1):
                row, column = _element(v, v.lane.number, half)
                address = addresses[8 * k + row] + 2 * column
                words |= v.lane.memory.read("shared", address, 2) << 32 * k + 16 * half
        v.put(words, _count(v))


def store_matrix(views: list[View]) -> None:
    """STSM: the same the other way round."""
    addresses = {v.lane.number: place(v, v.sources[0])[1] for v in views}
    for v in views:
        words = v.raw(1, _count(v))
        for k in range(_count(v)):
            for half in (0, 1):
                row, column = _element(v, v.lane.number, half)
                address = addresses[8 * k + row] + 2 * column
                v.lane.memory.write("shared", address, 2, words >> 32 * k + 16 * half & 0xFFFF)


def transpose(views: list[View]) -> None:
    """MOVM.16.MT88: lane 4g + t gets column g."""
    matrix = {}
    for v in views:
        g, t = divmod(v.lane.number, 4)
        matrix[g, 2 * t], matrix[g, 2 * t + 1] = v.raw(0) & 0xFFFF, v.raw(0) >> 16
    for v in views:
        g, t = divmod(v.lane.number, 4)
        v.put(matrix[2 * t, g] | matrix[2 * t + 1, g] << 16)


# --- fragments ---------------------------------------------------------------------------------------------
def _words(v: View, operand: Operand, count: int) -> int:
    if operand.index == 255:
        return 0
    return sum(v.lane.registers[operand.index + k] << 32 * k for k in range(count))


def _factor(views: list[View], k: int, rows: int, depth: int, bits: int) -> Matrix:
    """A of 8 or 16 rows, or B with its columns as rows: each word holds neighbours along the depth."""
    matrix = {}
    per = max(32 // bits, 1)
    count = rows * depth * bits // 1024
    for v in views:
        g, t = divmod(v.lane.number, 4)
        whole = _words(v, v.sources[k], max(count, 1))
        for word in range(rows * depth // per // 32):
            row, block = (g + 8 * (word % 2), word // 2) if rows == 16 else (g, word)
            for n in range(per):
                element = whole >> (word * per + n) * bits & (1 << bits) - 1
                matrix[row, 4 * per * block + per * t + n] = element
    return matrix


def _places_of_results(lane: int, rows: int) -> list[tuple[int, int]]:
    g, t = divmod(lane, 4)
    return [(g + 8 * half, 2 * t + n) for half in range(rows // 8) for n in (0, 1)]


Cell = Callable[[list[tuple[int, int]], int], int]
"""One element of the result from pairs of factors and an addend, as bits."""


def _metadata(views: list[View], row: int, bits: int, of_bytes: bool) -> int:
    """The bits that say which elements of a row of a structured sparse A are there, those of the first lowest.

    A quad of lanes holds those of rows g and g + 8; the selector, the last operand, names the first lane with a word.
    Sixteen bits a row are half a word, the upper half of row g + 8. More bits of a row are in as many halves of
    neighbouring words, or of bytes in whole words of every second lane.
    """
    count = bits // 16
    first = 4 * (row % 8) + count * int(views[0].sources[4].value or 0)
    words = [views[first + k].raw(3) for k in range(count)]
    upper = row // 8
    if of_bytes:
        return sum(word << 32 * k for k, word in enumerate(words[upper::2]))
    return sum((word >> 16 * upper & 0xFFFF) << 16 * k for k, word in enumerate(words))


def _multiply(views: list[View], shape: tuple[int, int], bits: int, result_bits: int, cell: Cell) -> None:
    """D = A B + C; `shape` is A's rows and depth, `bits` and `result_bits` are those of an element.

    Of a sparse A only half of the elements are there, two of four, or of 32-bit ones one of two.
    """
    rows, depth = shape
    sparse = views[0].has("SP")
    a = _factor(views, 0, rows, depth // 2 if sparse else depth, bits)
    b = _factor(views, 1, 8, depth, bits)
    chosen = {}
    for row in range(rows):
        chosen[row] = [(k, k) for k in range(depth)]
        if sparse:
            meta = _metadata(views, row, 2 * depth if bits == 32 else depth, bits == 8)
            if bits == 32:  # the same as of halves, whose pairs are taken together
                chosen[row] = [(j, 2 * j + (meta >> 4 * j + 1 & 1)) for j in range(depth // 2)]
            else:
                chosen[row] = [(j, j // 2 * 4 + (meta >> 2 * j & 3)) for j in range(depth // 2)]
    words = rows * result_bits // 128
    for v in views:
        addends = _words(v, v.sources[2], words)
        result = 0
        for n, (row, column) in enumerate(_places_of_results(v.lane.number, rows)):
            pairs = [(a[row, j], b[column, k]) for j, k in chosen[row]]
            c = addends >> result_bits * n & (1 << result_bits) - 1
            result |= cell(pairs, c) << result_bits * n
        v.put(result, words)


# --- sums --------------------------------------------------------------------------------------------------
def _exponent(form: Format, bits: int) -> int:
    return max(bits >> form.fraction & form.exponent_ones, 1) - form.bias


def aligned_sum(kind: Format, target: Format, pairs: list[tuple[int, int]], c: int) -> int:
    """Products and addend, cut at a fixed place below the largest exponent, added, and rounded once.

    A product's exponent is the sum of its factors'. Single precision is cut, but infinite where its range ends; half
    precision is rounded to nearest.
    """
    special = _special(kind, target, pairs, c)
    if special is not None:
        return special
    terms = [(floats.value(kind, x) * floats.value(kind, y), _exponent(kind, x) + _exponent(kind, y)) for x, y in pairs]
    terms.append((floats.value(target, c), _exponent(target, c)))
    terms = [(value, exponent) for value, exponent in terms if value]
    if not terms:
        return 0
    unit = Fraction(2) ** (max(exponent for _, exponent in terms) - _PLACES)
    total = sum(int(value / unit) for value, _ in terms) * unit
    if abs(total) >= Fraction(2) ** (target.bias + 1):
        return target.infinity | (target.sign if total < 0 else 0)
    return floats.encode(target, total, m.ROUND_ZERO if target is F32 else m.ROUND_NEAREST)


def _special(kind: Format, target: Format, pairs: list[tuple[int, int]], c: int) -> int | None:
    """NaN or infinity, if any operand is one."""
    signs = set()
    for x, y in pairs:
        if any(floats.is_nan(kind, z) for z in (x, y)):
            return target.nan
        if any(floats.is_infinite(kind, z) for z in (x, y)):
            if x & ~kind.sign == 0 or y & ~kind.sign == 0:
                return target.nan
            signs.add(floats.negative(kind, x) != floats.negative(kind, y))
    if floats.is_nan(target, c):
        return target.nan
    if floats.is_infinite(target, c):
        signs.add(floats.negative(target, c))
    if not signs:
        return None
    return target.nan if len(signs) == 2 else target.infinity | (target.sign if signs == {True} else 0)


_SHAPES = {
    "1684": (16, 4), "1688": (16, 8), "16816": (16, 16), "16832": (16, 32), "16864": (16, 64), "8816": (8, 16),
    "88128": (8, 128), "168128": (16, 128), "168256": (16, 256),
}  # fmt: skip


def shape_of(v: View) -> tuple[int, int]:
    """Rows and depth."""
    return next(_SHAPES[name] for name in v.instruction.modifiers if name in _SHAPES)


def half_matrix(views: list[View]) -> None:
    first = views[0]
    rows, depth = shape_of(first)
    target = F32 if first.has("F32") else F16
    if first.has("TF32"):
        # The lower 13 bits are not looked at.
        def cell(pairs: list[tuple[int, int]], c: int) -> int:
            return aligned_sum(TF32, target, [(x & ~0x1FFF, y & ~0x1FFF) for x, y in pairs], c)

        _multiply(views, (rows, depth), 32, 32, cell)
        return
    kind = BF16 if first.has("BF16") else F16
    _multiply(views, (rows, depth), 16, target.bits, lambda pairs, c: aligned_sum(kind, target, pairs, c))


def integer_matrix(views: list[View]) -> None:
    """IMMA: the sum wraps, or with .SAT is limited once at the end."""
    first = views[0]
    rows, depth = shape_of(first)
    kinds = [name for name in first.instruction.modifiers if re.fullmatch("[SU][48]", name)]
    bits = int(kinds[0][1])

    def cell(pairs: list[tuple[int, int]], c: int) -> int:
        total = signed(c)
        for pair in pairs:
            x, y = (signed(z, bits) if kind[0] == "S" else z for z, kind in zip(pair, kinds, strict=True))
            total += x * y
        if first.has("SAT"):
            total = min(max(total, -(1 << 31)), (1 << 31) - 1)
        return total & WORD

    _multiply(views, (rows, depth), bits, 32, cell)


def bit_matrix(views: list[View]) -> None:
    first = views[0]
    rows, depth = shape_of(first)

    def cell(pairs: list[tuple[int, int]], c: int) -> int:
        return c + sum(x ^ y if first.has("XOR") else x & y for x, y in pairs) & WORD

    _multiply(views, (rows, depth), 1, 32, cell)


def double_matrix(views: list[View]) -> None:
    """DMMA: one fused multiplication and addition after the other, along the depth."""
    rows, depth = (int(n) for n in re.findall(r"(\d+)x8x(\d+)", views[0].instruction.modifiers[0])[0])

    def cell(pairs: list[tuple[int, int]], c: int) -> int:
        for x, y in pairs:
            if any(floats.is_nan(F64, z) for z in (x, y, c)):
                raise Undefined("which NaN a sum of doubles is")
            c = floats.fma(F64, x, y, c)
        return c

    _multiply(views, (rows, depth), 64, 64, cell)


MEANINGS = {"LDSM": load_matrix, "STSM": store_matrix, "MOVM": transpose}
MEANINGS |= {"HMMA": half_matrix, "IMMA": integer_matrix, "BMMA": bit_matrix, "DMMA": double_matrix}
NO_RESULT = {"STSM"}
