"""Arithmetic of the generated language on one value: integers that wrap, IEEE floats, one obvious line each.

Written from the PTX ISA's definitions, apart from Numba and from the simulator. Integers are Python ints within their
type's range, floats are NumPy scalars.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

FLOATS = {"f32": np.float32, "f64": np.float64}
_BITS = {"i32": 32, "u32": 32, "i64": 64, "u64": 64}


def wrap(t: str, value: Any) -> Any:
    """A value brought into the range of a type; floats are rounded to it."""
    if t in FLOATS:
        return FLOATS[t](value)
    bits = _BITS[t]
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if t[0] == "i" and value >> (bits - 1) else value


def cast(t: str, source: str, value: Any) -> Any:
    """Conversion between types; of floats to integers towards zero, and 0 for what is not below a million."""
    if t in FLOATS:
        wide = value if source in FLOATS else {"i": np.int64, "u": np.uint64}[source[0]](value)
        return FLOATS[t](wide)  # one rounding, from 64 bits
    if source in FLOATS:
        return wrap(t, int(value)) if abs(value) < 1e6 else 0
    return wrap(t, value)


def binary(t: str, op: str, a: Any, b: Any) -> Any:
    """The operators of the language. Divisors and shifts are brought into range first, as the source does."""
    if t in FLOATS:
        if op == "min":
            return a if a < b else b
        if op == "max":
            return a if a > b else b
        if op == "/":
            b = abs(b) + FLOATS[t](1)
        return {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op](a, b)
    if op in ("//", "%"):
        b = (b & 31) + 1
        return wrap(t, a // b if op == "//" else a % b)
    if op in ("<<", ">>"):
        b &= _BITS[t] - 1
        return wrap(t, a << b if op == "<<" else a >> b)
    return wrap(t, _INTEGER[op](a, b))


_INTEGER: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "min": min,
    "max": max,
}


def unary(t: str, op: str, a: Any) -> Any:
    """Negation, inversion, magnitude; of floats also the square root of the magnitude and the floor."""
    if op == "sqrt":
        return np.sqrt(np.abs(a))
    if op == "floor":
        return np.floor(a)
    return wrap(t, {"neg": lambda: -a, "inv": lambda: ~a, "abs": lambda: abs(a)}[op]())


def bits(op: str, a: int) -> int:
    """Bit functions of a 32-bit unsigned word, as i32."""
    return wrap(
        "i32",
        {
            "popc": lambda: a.bit_count(),
            "clz": lambda: 32 - a.bit_length(),
            "ffs": lambda: (a & -a).bit_length(),
            "brev": lambda: int(f"{a:032b}"[::-1], 2),
        }[op](),
    )


def fma(t: str, a: Any, b: Any, c: Any) -> Any:
    """a * b + c with one rounding."""
    kind = FLOATS[t]
    if not (np.isfinite(a) and np.isfinite(b)):
        return kind(a * b + c)
    if not np.isfinite(c):
        return c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:  # the sign of a zero sum: that of its terms if both are alike, else plus
        product = math.copysign(1.0, a) * math.copysign(1.0, b)
        both = a * b == 0 and product == math.copysign(1.0, c)
        return kind(math.copysign(0.0, product) if both else 0.0)
    return rounded(t, exact)


def rounded(t: str, exact: Fraction) -> Any:
    """The nearest float of a number that is not zero, ties to even."""
    digits, least = (24, -149) if t == "f32" else (53, -1074)
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    unit = max(exponent - digits + 1, least)
    scaled = round(size / Fraction(2) ** unit)  # Python rounds ties to even
    try:
        value = math.ldexp(scaled, unit)
    except OverflowError:
        value = math.inf
    with np.errstate(over="ignore"):
        return FLOATS[t](math.copysign(value, exact))


COMPARE: dict[str, Any] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
