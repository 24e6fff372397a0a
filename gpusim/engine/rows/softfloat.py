"""Fused multiply-add of doubles with a rounding direction, one lane at a time.

The operands are scaled to about one, where no intermediate step can overflow or lose bits; there the rounded result
and what it lost are found without error (Boldo and Muller, "Exact and approximated error of the FMA", IEEE
Transactions on Computers 60(2), 2011). Scaling back may round again, so the exact value is compared with the outcome
and the outcome moved by one unit in the last place if it is on the wrong side.
"""

import math

import numpy as np

from gpusim.engine.rows.float_bits import sum_error
from gpusim.engine.rows.lanes import fma_scalar
from gpusim.engine.state.jit import compiled
from isa import microops as m

_FAR = 110  # beyond this many bits of distance the smaller addend only decides the direction of rounding
_TINY = 2.0**-300


@compiled
def fma_with_error(a, b, c):
    """a * b + c rounded to nearest, and a number with the sign of what the rounding lost (zero if nothing)."""
    result = fma_scalar(a, b, c)
    product = a * b
    product_error = fma_scalar(a, b, -product)
    alpha = c + product_error
    beta = product + alpha
    lost = sum_error(product, alpha, beta), sum_error(c, product_error, alpha)
    return result, ((beta - result) + lost[0]) + lost[1]


@compiled
def move(value, upward, downward, rounding):
    """Correct a value rounded to nearest when the exact one is above (upward) or below (downward) it."""
    toward_zero_up = rounding == m.ROUND_ZERO and value < 0.0
    toward_zero_down = rounding == m.ROUND_ZERO and value > 0.0
    if upward and (rounding == m.ROUND_UP or toward_zero_up):
        return np.nextafter(value, math.inf)
    if downward and (rounding == m.ROUND_DOWN or toward_zero_down):
        return np.nextafter(value, -math.inf)
    return value


@compiled
def zero_sum(x, y, rounding):
    """Sum of two zeros, or of two numbers that cancel: -0 when rounding down unless both are +0."""
    if math.copysign(1.0, x) == math.copysign(1.0, y):
        return math.copysign(0.0, x)
    return -0.0 if rounding == m.ROUND_DOWN else 0.0


@compiled
def fma_directed(a, b, c, rounding):
    """a * b + c with one of the ROUND_* directions."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return fma_scalar(a, b, c)
    if a == 0.0 or b == 0.0:
        return c if c != 0.0 else zero_sum(a * b, c, rounding)
    a, a_exponent = math.frexp(a)
    b, b_exponent = math.frexp(b)
    exponent = a_exponent + b_exponent
    addend, c_exponent = math.frexp(c)
    distance = c_exponent - exponent
    if c != 0.0 and distance > _FAR:
        upper, lower = addend, math.copysign(_TINY, a * b)
        exponent = c_exponent
    elif c == 0.0 or distance < -_FAR:
        upper, lower = fma_with_error(a, b, 0.0)
        if lower == 0.0 and c != 0.0:
            lower = math.copysign(_TINY, c)
    else:
        upper, lower = fma_with_error(a, b, np.ldexp(addend, distance))
    if upper == 0.0:
        return zero_sum(a * b, c, rounding)
    value = np.ldexp(upper, exponent)
    back = np.ldexp(value, -exponent)
    upward = back < upper or (back == upper and lower > 0.0)
    downward = back > upper or (back == upper and lower < 0.0)
    return move(value, upward, downward, rounding)
