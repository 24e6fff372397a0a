"""MUFU, the special-function unit: approximate in hardware, computed here in double precision and rounded once.

NVIDIA documents the largest errors of the hardware (PTX manual: rcp, sqrt and rsqrt.approx about 1 unit in the last
place, ex2 and lg2.approx 2 units or 2**-22, sin and cos.approx 2**-20.5 absolute in [-pi, pi], tanh.approx 2**-11
relative). The values here lie within those bounds of it and are not bit identical to it. Special values are: zeros,
infinities, NaN (0x7fffffff), and denormal sources and results count as zeros, TANH excepted (measured on an H200).
"""

import math

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.float_bits import CANONICAL_NAN, SIGN, canonical, flushed
from gpusim.engine.state.jit import compiled
from isa import microops as m

SIGN64 = 1 << 63

# Taylor coefficients, highest power first: sine and cosine of y for |y| <= pi / 4, 2**y for |y| <= 1/2, and
# (atanh s) / s in powers of s**2 for |s| < 0.172. Every series ends below 2**-45 relative, far under float32.
_SIN = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(7, -1, -1))
_COS = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(7, -1, -1))
_EXP2 = tuple(math.log(2.0) ** k / math.factorial(k) for k in range(13, -1, -1))
_ATANH = tuple(1.0 / (2 * k + 1) for k in range(9, -1, -1))


@compiled
def polynomial(x, coefficients):
    """Horner's rule on an f64 row, highest power first."""
    total = V.splat_f64(coefficients[0])
    for k in range(1, len(coefficients)):
        total = V.fma(total, x, V.splat_f64(coefficients[k]))
    return total


@compiled
def power_of_two(x):
    """2**x, x limited to where float32 overflows or vanishes."""
    x = V.select(V.less_f64(x, V.splat_f64(-300.0)), V.splat_f64(-300.0), x)
    x = V.select(V.less_f64(V.splat_f64(300.0), x), V.splat_f64(300.0), x)
    whole = V.nearest(x)
    number = V.select(V.unordered_f64(x, x), V.splat_f64(0.0), whole)
    scale = V.as_f64((V.f64_to_s64(number) + V.splat64(1023)) << V.splat64(52))
    return polynomial(x - whole, _EXP2) * scale


@compiled
def binary_logarithm(x):
    """log2(x) = exponent + log2(mantissa), with atanh((m - 1) / (m + 1)) for a mantissa m around 1."""
    bits = V.as_u64(x)
    # Adding the distance of sqrt(1/2) from 1 moves the cut between exponents to mantissas of sqrt(2).
    shifted = bits + V.splat64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
    exponent = (shifted >> V.splat64(52)) - V.splat64(1023)
    mantissa = V.as_f64((shifted & V.splat64(0x000FFFFFFFFFFFFF)) + V.splat64(0x3FE6A09E667F3BCD))
    s = (mantissa - V.splat_f64(1.0)) / (mantissa + V.splat_f64(1.0))
    logarithm = s * polynomial(s * s, _ATANH) * V.splat_f64(2.0 / math.log(2.0))
    result = V.s64_to_f64(exponent) + logarithm
    zero = V.splat_f64(0.0)
    result = V.select(V.equal_f64(x, V.splat_f64(math.inf)), x, result)
    result = V.select(V.equal_f64(x, zero), V.splat_f64(-math.inf), result)
    return V.select(V.less_f64(x, zero) | V.unordered_f64(x, x), V.splat_f64(math.nan), result)


@compiled
def sine_of_turns(x, quarters):
    """sin(2 pi x) of x >= 0, or cos with quarters = 1: MUFU takes turns, after an FMUL by 1 / (2 pi)."""
    quarter_turns = x * V.splat_f64(4.0)
    nearest = V.nearest(quarter_turns)
    y = (quarter_turns - nearest) * V.splat_f64(math.pi / 2.0)
    turns = V.floor(nearest * V.splat_f64(0.25))
    quadrant = nearest - turns * V.splat_f64(4.0) + V.splat_f64(float(quarters))
    square = y * y
    sine = y * polynomial(square, _SIN)
    cosine = polynomial(square, _COS)
    upper = V.less_f64(quadrant, V.splat_f64(2.0)) | V.equal_f64(quadrant, V.splat_f64(4.0))
    odd = V.equal_f64(quadrant, V.splat_f64(1.0)) | V.equal_f64(quadrant, V.splat_f64(3.0))
    # A product keeps the sign of a zero: half a turn gives -0.
    return V.select(odd, cosine, sine) * V.select(upper, V.splat_f64(1.0), V.splat_f64(-1.0))


@compiled
def flushed_high(word):
    """The high word of a double with denormal numbers replaced by zeros."""
    return V.select(V.equal(word & V.splat(0x7FF00000), V.splat(0)), word & V.splat(SIGN), word)


@compiled
def function(op, x):
    """One of the functions of an f64 row."""
    if op == m.OP_MUFU_RCP:
        return V.splat_f64(1.0) / x
    if op == m.OP_MUFU_RSQ:
        return V.splat_f64(1.0) / V.sqrt(x)  # a zero gives an infinity of its sign, which sqrt keeps
    if op == m.OP_MUFU_SQRT:
        return V.sqrt(x)
    if op == m.OP_MUFU_EX2:
        return power_of_two(x)
    if op == m.OP_MUFU_LG2:
        return binary_logarithm(x)
    if op == m.OP_MUFU_TANH:  # 1 - 2 / (exp(2x) + 1); near zero, where that cancels, x - x**3 / 3
        exponential = power_of_two(x * V.splat_f64(2.0 / math.log(2.0)))
        tangent = V.splat_f64(1.0) - V.splat_f64(2.0) / (exponential + V.splat_f64(1.0))
        near = x * (V.splat_f64(1.0) - x * x * V.splat_f64(1.0 / 3.0))
        return V.select(V.less_f64(x * x, V.splat_f64(1e-6)), near, tangent)
    size, sign = V.as_u64(x) & V.splat64(SIGN64 - 1), V.as_u64(x) & V.splat64(SIGN64)
    result = sine_of_turns(V.as_f64(size), 0 if op == m.OP_MUFU_SIN else 1)
    # Sine is odd: the sign of a zero result follows that of x too.
    return V.as_f64(V.as_u64(result) ^ sign) if op == m.OP_MUFU_SIN else result


@compiled
def mufu(op, a):
    """Bits of the function of a row of f32 bits."""
    if op == m.OP_MUFU_RCP64H or op == m.OP_MUFU_RSQ64H:  # high words of functions of a double whose low word is 0
        x = V.as_f64(V.join(V.splat(0), flushed_high(a)))
        value = V.splat_f64(1.0) / (x if op == m.OP_MUFU_RCP64H else V.sqrt(x))
        return V.select(V.unordered_f64(value, value), V.splat(CANONICAL_NAN), flushed_high(V.high(V.as_u64(value))))
    if op == m.OP_MUFU_TANH:
        return canonical(V.to_f32(function(op, V.to_f64(V.as_f32(a)))))
    return flushed(canonical(V.to_f32(function(op, V.to_f64(V.as_f32(flushed(a)))))))
