"""Between which values the approximate functions of MUFU may lie, one operand at a time, from exact mathematics.

The bounds are the PTX ISA's for rcp, rsqrt, sqrt, ex2, lg2, sin, cos and tanh .approx; what comes out of zeros,
infinities and NaN is from there too. MUFU itself takes sines and cosines of revolutions and flushes denormal operands
(recorded on an H200), TANH and halves excepted.
"""

from decimal import Decimal, localcontext
from fractions import Fraction
from math import floor

from tests.oracle import floats
from tests.oracle.floats import BF16, F16, F32, Format

UPPER_OF_DOUBLE = Format(32, 20, 0x7FFFFFFF)
"""The upper word of a double is a format of its own: 11 bits of exponent, 20 of fraction."""
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
_DIGITS = 45
Interval = tuple[Fraction, Fraction]


def _decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def sine(turns: Fraction) -> Fraction:
    """sin(2 pi turns) by its series, which converges fast enough from at most half a turn."""
    angle = 2 * _PI * _decimal(turns - floor(turns + Fraction(1, 2)))
    total = term = angle
    for k in range(1, 30):
        term = -term * angle * angle / ((2 * k) * (2 * k + 1))
        total += term
    return Fraction(total)


def value(name: str, x: Fraction) -> Fraction:
    """The function's value to some 40 digits; x lies within its domain."""
    with localcontext() as context:
        context.prec = _DIGITS
        if name == "SIN":
            return sine(x)
        if name == "COS":
            return sine(x + Fraction(1, 4))
        if name == "RCP":
            return 1 / x
        d = _decimal(x)
        if name == "SQRT":
            return Fraction(d.sqrt())
        if name == "RSQ":
            return Fraction(1 / d.sqrt())
        if name == "EX2":
            return Fraction(Decimal(2) ** d)
        if name == "LG2":
            return Fraction(d.ln() / Decimal(2).ln())
        if abs(d) > 60:
            return Fraction(1 if d > 0 else -1)
        # With few digits left where the argument is small, its series' first terms are better.
        return x - x**3 / 3 if abs(x) < Fraction(1, 1 << 40) else Fraction(1 - 2 / ((2 * d).exp() + 1))


def special(name: str, form: Format, x: int) -> int | None:
    """Bits that the manual names exactly: of NaN, zeros, infinities and negative numbers."""
    if floats.is_nan(form, x):
        return form.nan
    minus, sign = floats.negative(form, x), x & form.sign
    zero, infinite = x == sign, floats.is_infinite(form, x)
    if name in ("RSQ", "SQRT", "LG2") and minus and not zero:
        return form.nan
    if name in ("SIN", "COS") and infinite:
        return form.nan
    outcomes = {
        "RCP": (form.infinity | sign, sign), "RSQ": (form.infinity | sign, 0), "SQRT": (sign, form.infinity),
        "EX2": (None, 0 if minus else form.infinity), "LG2": (form.infinity | form.sign, form.infinity),
        "TANH": (sign, floats.one(form) | sign), "SIN": (sign, None), "COS": (floats.one(form), None),
    }[name]  # fmt: skip
    return outcomes[0] if zero else outcomes[1] if infinite else None


def tolerance(name: str, form: Format, exact: Fraction) -> Fraction:
    """How far a result may be from the exact one; one that is denormal may be flushed."""
    size = abs(exact)
    least = Fraction(2) ** (1 - form.bias)
    if form is UPPER_OF_DOUBLE:  # the manual's rcp.approx.ftz.f64: a start for iterations, 20 bits
        return max(size * Fraction(1, 1 << 19), least)
    if form in (F16, BF16):
        bits = {("EX2", F16): 9.9, ("EX2", BF16): 7, ("TANH", F16): 9.9, ("TANH", BF16): 7}[name, form]
        return size * Fraction(2.0**-bits) + Fraction(2) ** (1 - form.bias - form.fraction)
    if name in ("SIN", "COS"):
        return Fraction(2.0**-20.5)
    if name == "LG2":
        return Fraction(1, 1 << 22) + size * Fraction(1, 1 << 22)
    relative = {"RCP": 2.0**-23, "SQRT": 2.0**-23, "RSQ": 2.0**-22.9, "EX2": 2.0**-22, "TANH": 2.0**-11}[name]
    flushed = size if size < least and name != "TANH" else Fraction(0)
    return max(size * Fraction(relative), flushed)


def permitted(name: str, form: Format, x: int) -> int | Interval:
    """The bits that MUFU must give, or the interval in which its value must lie.

    Args:
        name: the function; RCP64H is RCP of `UPPER_OF_DOUBLE`.
        x: bits of the operand.
    """
    if form in (F32, UPPER_OF_DOUBLE) and name != "TANH":
        x = floats.flush(form, x)
    bits = special(name, form, x)
    if bits is not None:
        return bits
    argument = floats.value(form, x)
    if name == "EX2":  # beyond every format's range already
        argument = min(max(argument, Fraction(-300)), Fraction(300))
    exact = value(name, argument)
    around = tolerance(name, form, exact)
    return exact - around, exact + around


def is_permitted(name: str, form: Format, x: int, result: int) -> bool:
    allowed = permitted(name, form, x)
    if isinstance(allowed, int):
        return result == allowed
    if floats.is_nan(form, result):
        return False
    if floats.is_infinite(form, result):
        largest = floats.value(form, form.infinity - 1)
        return allowed[0] < -largest if floats.negative(form, result) else allowed[1] > largest
    return allowed[0] <= floats.value(form, result) <= allowed[1]


# --- FCHK ------------------------------------------------------------------------------------------------------------
def quotient(a: int, b: int, reciprocal: int) -> int:
    """What a compiler's division computes where FCHK says no: one Newton step, one correction."""

    def minus(x: int) -> int:
        return x ^ F32.sign

    error = floats.fma(F32, minus(b), reciprocal, floats.one(F32))
    better = floats.fma(F32, reciprocal, error, reciprocal)
    first = floats.fma(F32, a, better, 0)
    rest = floats.fma(F32, minus(b), first, a)
    return floats.fma(F32, better, rest, first)


def short_way_is_right(a: int, b: int) -> bool:
    """Whether the compiler's division is rounded right with every approximation of 1 / b that MUFU.RCP may give."""
    if any(floats.is_nan(F32, x) or floats.is_infinite(F32, x) for x in (a, b)) or b & F32.infinity == 0:
        return False
    minus = floats.negative(F32, a) != floats.negative(F32, b)
    right = floats.encode(F32, floats.value(F32, a) / floats.value(F32, b), zero_sign=minus)
    nearest = floats.encode(F32, 1 / floats.value(F32, b))
    candidates = [x for x in (nearest - 1, nearest, nearest + 1) if is_permitted("RCP", F32, b, x)]
    return all(quotient(a, b, x) == right for x in candidates)
