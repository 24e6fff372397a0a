"""The primitives of `gpusim.engine.rows.lanes` in Python: what they mean with compilation off (NUMBA_DISABLE_JIT=1).

A row is a NumPy array of 32 elements then, so arithmetic between rows needs nothing here; a mask is a numpy.uint32.
`tests/gpusim/test_interpreted.py` compares every function below with the compiled primitive of the same name.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

LANES = 32
_WORD = 0xFFFFFFFF
_QUIET_HALF = np.uint16(0x0200)


def _lanes(mask: Any) -> np.ndarray:
    """The mask as 32 booleans, lane 0 first."""
    return np.unpackbits(np.array([int(mask) & _WORD], "<u4").view(np.uint8), bitorder="little").astype(bool)


def _mask(lanes: np.ndarray) -> np.uint32:
    return np.packbits(lanes, bitorder="little").view("<u4")[0]


# --- memory ---------------------------------------------------------------------------------------------------------
def load(regs: np.ndarray, offset: int) -> np.ndarray:
    return regs[offset : offset + LANES].copy()


def store(regs: np.ndarray, offset: int, row: np.ndarray, mask: Any) -> None:
    np.copyto(regs[offset : offset + LANES], row, where=_lanes(mask))


def gather(regs: np.ndarray, offset: int, lanes: np.ndarray) -> np.ndarray:
    return regs[offset + lanes.astype(np.int64)]


def _get(row: np.ndarray, lane: int) -> Any:
    return row[lane]


def _put(row: np.ndarray, lane: int, value: Any) -> np.ndarray:
    changed = row.copy()
    changed[lane] = value
    return changed


get_u32 = get_f32 = get_f64 = _get
put_u32 = put_f32 = put_f64 = _put


# --- making rows ----------------------------------------------------------------------------------------------------
def splat(value: Any) -> np.ndarray:
    return np.full(LANES, int(value) & _WORD, np.uint32)


def splat64(value: Any) -> np.ndarray:
    return np.full(LANES, int(value) & 0xFFFFFFFFFFFFFFFF, np.uint64)


def splat_f32(value: Any) -> np.ndarray:
    return np.full(LANES, value, np.float32)


def splat_f64(value: Any) -> np.ndarray:
    return np.full(LANES, value, np.float64)


def lane_numbers() -> np.ndarray:
    return np.arange(LANES, dtype=np.uint32)


def mask_bits(mask: Any) -> np.ndarray:
    return _lanes(mask).astype(np.uint32)


def select(mask: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(_lanes(mask), x, y)


# --- reinterpretation and width -------------------------------------------------------------------------------------
def _seen_as(kind: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda row: row.view(kind)


def _turned_into(kind: Any, first: Any = None, last: Any = None) -> Callable[[np.ndarray], np.ndarray]:
    """Converts elements to `kind`, seen as `first` before and as `last` afterwards."""
    return lambda row: row.view(first or row.dtype).astype(kind).view(last or kind)


as_f32, as_u32 = _seen_as(np.float32), _seen_as(np.uint32)
as_f64, as_u64 = _seen_as(np.float64), _seen_as(np.uint64)
zero_extend = _turned_into(np.uint64)
sign_extend = _turned_into(np.int64, first=np.int32, last=np.uint64)
low = _turned_into(np.uint32)


def high(row: np.ndarray) -> np.ndarray:
    return (row >> np.uint64(32)).astype(np.uint32)


def join(low_words: np.ndarray, high_words: np.ndarray) -> np.ndarray:
    return high_words.astype(np.uint64) << np.uint64(32) | low_words


# --- comparisons, result: mask --------------------------------------------------------------------------------------
def _compared(compare: Any, kind: Any = None) -> Callable[[np.ndarray, np.ndarray], np.uint32]:
    return lambda x, y: _mask(compare(x.view(kind or x.dtype), y.view(kind or y.dtype)))


def _unordered(x: np.ndarray, y: np.ndarray) -> np.uint32:
    return _mask(np.isnan(x) | np.isnan(y))


equal = equal64 = equal_f32 = equal_f64 = _compared(np.equal)
less_u = less_u64 = less_f32 = less_f64 = _compared(np.less)
less_s, less_s64 = _compared(np.less, np.int32), _compared(np.less, np.int64)
unordered_f32 = unordered_f64 = _unordered


# --- integer functions ----------------------------------------------------------------------------------------------
def _shifted(shift: Any, width: int, signed: bool = False) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A shift by any count: from the width on, zeros (or copies of the sign) are left."""
    unsigned = np.dtype(f"u{width // 8}")
    kind = np.dtype(f"i{width // 8}") if signed else unsigned

    def shifted(row: np.ndarray, count: np.ndarray) -> np.ndarray:
        result = shift(row.view(kind), np.minimum(count, width - 1).astype(kind)).view(unsigned)
        return result if signed else np.where(count < width, result, unsigned.type(0))

    return shifted


shl, shl64 = _shifted(np.left_shift, 32), _shifted(np.left_shift, 64)
shr, shr64 = _shifted(np.right_shift, 32), _shifted(np.right_shift, 64)
sar, sar64 = _shifted(np.right_shift, 32, signed=True), _shifted(np.right_shift, 64, signed=True)


def min_u(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.minimum(x, y)


def max_u(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(x, y)


def min_s(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.minimum(x.view(np.int32), y.view(np.int32)).view(np.uint32)


def max_s(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(x.view(np.int32), y.view(np.int32)).view(np.uint32)


def count_ones(row: np.ndarray) -> np.ndarray:
    return np.bitwise_count(row).astype(np.uint32)


def leading_zeros(row: np.ndarray) -> np.ndarray:
    bit_length = np.frexp(row.astype(np.float64))[1]  # exact in a double; 0 for 0
    return (LANES - bit_length).astype(np.uint32)


def reverse_bits(row: np.ndarray) -> np.ndarray:
    bits = np.unpackbits(row.astype("<u4").view(np.uint8), bitorder="little").reshape(LANES, 32)
    return np.packbits(bits[:, ::-1], bitorder="little").view("<u4").astype(np.uint32)


# --- floating-point functions ---------------------------------------------------------------------------------------
def fma_scalar(x: float, y: float, z: float) -> np.float64:
    """x * y + z rounded once, from exact fractions."""
    product = np.float64(x) * np.float64(y)
    if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
        # Infinities and NaN need no precision, but a finite product must not become one.
        return (np.sign(product) if np.isfinite(x) and np.isfinite(y) else product) + np.float64(z)
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    if exact == 0:
        # Zeros add up by their signs, numbers that cancel to +0.
        return product + np.float64(z) if x == 0 or y == 0 else np.float64(0.0)
    try:
        rounded = np.float64(exact.numerator / exact.denominator)
    except OverflowError:
        rounded = np.float64(np.inf)
    return np.copysign(rounded, 1.0 if exact > 0 else -1.0)


def fma64(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.array([fma_scalar(*lane) for lane in zip(x, y, z, strict=True)], np.float64)


def fma32(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The product is exact in double precision; the sum is, once its last bit says whether anything was lost
    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008)."""
    product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = product + addend
    part = total - product
    lost = (product - (total - part)) + (addend - part)
    inexact = np.isfinite(total) & (lost != 0)
    even = total.view(np.int64) & 1 == 0
    # The two neighbours of an inexact sum: the odd one is the sum itself, or lies toward what was lost.
    odd = np.where(inexact & even, np.nextafter(total, np.where(lost > 0, np.inf, -np.inf)), total)
    return odd.astype(np.float32)


sqrt32 = sqrt64 = np.sqrt
nearest32 = nearest64 = np.rint  # ties to even
floor32 = floor64 = np.floor
ceil32 = ceil64 = np.ceil
truncate32 = truncate64 = np.trunc
to_f64, to_f32 = _turned_into(np.float64), _turned_into(np.float32)
f64_to_s64, f64_to_u64 = _turned_into(np.int64, last=np.uint64), _turned_into(np.uint64)
s64_to_f64, u64_to_f64 = _turned_into(np.float64, first=np.int64), _turned_into(np.float64)
s64_to_f32, u64_to_f32 = _turned_into(np.float32, first=np.int64), _turned_into(np.float32)


# A conversion keeps the sign and the upper bits of a NaN's payload and makes it quiet; NumPy's makes other NaN.
def half_to_f32(row: np.ndarray) -> np.ndarray:
    bits = row.astype(np.uint16)
    quiet = np.where(np.isnan(bits.view(np.float16)), bits | _QUIET_HALF, bits)
    return quiet.view(np.float16).astype(np.float32)


def f32_to_half(row: np.ndarray) -> np.ndarray:
    bits = row.view(np.uint32)
    of_nan = bits >> np.uint32(16) & np.uint32(0x8000) | np.uint32(0x7E00) | bits >> np.uint32(13) & np.uint32(0x1FF)
    return np.where(np.isnan(row), of_nan, row.astype(np.float16).view(np.uint16))
