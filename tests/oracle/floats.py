"""IEEE 754 arithmetic on bit patterns with exact fractions: slow, obvious, and independent of the host's FPU."""

from dataclasses import dataclass
from fractions import Fraction

from isa import microops as m


@dataclass(frozen=True)
class Format:
    """A binary format: total bits, bits of the fraction field, and the canonical NaN."""

    bits: int
    fraction: int
    nan: int

    @property
    def exponent_ones(self) -> int:
        return (1 << (self.bits - 1 - self.fraction)) - 1

    @property
    def bias(self) -> int:
        return self.exponent_ones >> 1

    @property
    def infinity(self) -> int:
        return self.exponent_ones << self.fraction

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)


F16 = Format(16, 10, 0x7FFF)
BF16 = Format(16, 7, 0x7FFF)
F32 = Format(32, 23, 0x7FFFFFFF)
F64 = Format(64, 52, 0xFFF8000000000000)


def is_nan(form: Format, bits: int) -> bool:
    return bits & ~form.sign > form.infinity


def is_infinite(form: Format, bits: int) -> bool:
    return bits & ~form.sign == form.infinity


def negative(form: Format, bits: int) -> bool:
    return bool(bits & form.sign)


def value(form: Format, bits: int) -> Fraction:
    """Exact value of a finite number."""
    exponent = bits >> form.fraction & form.exponent_ones
    fraction = bits & ((1 << form.fraction) - 1)
    if exponent:
        fraction |= 1 << form.fraction
    if negative(form, bits):
        fraction = -fraction
    scale = max(exponent, 1) - form.bias - form.fraction
    return Fraction(fraction << scale) if scale >= 0 else Fraction(fraction, 1 << -scale)


def encode(form: Format, exact: Fraction, rounding: int = m.ROUND_NEAREST, zero_sign: bool = False) -> int:
    """Bits of the rounded value; an exact zero takes the given sign."""
    if exact == 0:
        return form.sign if zero_sign else 0
    minus = exact < 0
    above, below = abs(exact.numerator), exact.denominator
    exponent = above.bit_length() - below.bit_length()
    exponent -= above << max(-exponent, 0) < below << max(exponent, 0)
    exponent = max(exponent, 1 - form.bias)
    unit = exponent - form.fraction  # a step is 2**unit
    unit_size = below << max(unit, 0)
    steps, rest = divmod(above << max(-unit, 0), unit_size)
    up = {
        m.ROUND_NEAREST: rest * 2 > unit_size or (rest * 2 == unit_size and steps % 2 == 1),
        m.ROUND_ZERO: False,
        m.ROUND_UP: rest > 0 and not minus,
        m.ROUND_DOWN: rest > 0 and minus,
    }[rounding]
    steps += up
    # A number of steps below 2**fraction is a denormal one; carries run into the exponent field by themselves.
    field = max(exponent + form.bias - 1, 0)
    bits = steps + (field << form.fraction)
    if bits >= form.infinity:
        toward = m.ROUND_DOWN if not minus else m.ROUND_UP
        bits = form.infinity - 1 if rounding in (m.ROUND_ZERO, toward) else form.infinity
    return bits | (form.sign if minus else 0)


def fma(form: Format, a: int, b: int, c: int, rounding: int = m.ROUND_NEAREST) -> int:
    """a * b + c, rounded once."""
    if any(is_nan(form, x) for x in (a, b, c)):
        return form.nan
    minus = negative(form, a) != negative(form, b)
    if is_infinite(form, a) or is_infinite(form, b):
        if a & ~form.sign == 0 or b & ~form.sign == 0:
            return form.nan
        if is_infinite(form, c) and negative(form, c) != minus:
            return form.nan
        return form.infinity | (form.sign if minus else 0)
    if is_infinite(form, c):
        return c
    exact = value(form, a) * value(form, b) + value(form, c)
    both = minus == negative(form, c)
    zero_sign = minus if both else rounding == m.ROUND_DOWN
    return encode(form, exact, rounding, zero_sign)


def one(form: Format) -> int:
    return form.bias << form.fraction


def add(form: Format, a: int, b: int, rounding: int = m.ROUND_NEAREST) -> int:
    return fma(form, a, one(form), b, rounding)


def multiply(form: Format, a: int, b: int, rounding: int = m.ROUND_NEAREST) -> int:
    minus = negative(form, a) != negative(form, b)
    return fma(form, a, b, form.sign if minus else 0, rounding)


def flush(form: Format, bits: int) -> int:
    return bits & form.sign if bits & form.infinity == 0 else bits


def compare(form: Format, a: int, b: int) -> int:
    """The one COMPARE_* bit that holds."""
    if is_nan(form, a) or is_nan(form, b):
        return m.COMPARE_UNORDERED
    x, y = order_key(form, a), order_key(form, b)
    return m.COMPARE_LT if x < y else m.COMPARE_GT if x > y else m.COMPARE_EQ


def order_key(form: Format, bits: int) -> int:
    size = bits & ~form.sign
    return -size if negative(form, bits) else size
