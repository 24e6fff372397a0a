"""Black-Scholes: the price of a call and a put option, logarithm, exponential, root and normal distribution.

`accurate` calls single-precision functions that are right to about an ulp: dozens of multiply-adds each, with
branches for rare arguments. `fast` uses the approximations of the special function unit (MUFU) and a polynomial for
the distribution (formula 26.2.17 of M. Abramowitz and I. Stegun, "Handbook of Mathematical Functions", 1964). In the
report, compare executed instructions; memory traffic is the same, so the question is whether arithmetic or DRAM is
the limit.

Tolerance: prices are S N(d1) - X exp(-rT) N(d2) with S and X up to 100, and the put likewise. Errors of d multiply
with the density, at most 0.4, and |d| times the density is at most 0.25: the few roundings of d (12 * 2**-24 relative)
give 3 * 2**-24; log(S / X) is within 2**-21 absolute (the fast one within 2**-22 near one, CUDA C++ Programming Guide
section 13.2, and 2**-22 for the quotient), divided by v * sqrt(T) >= 0.15, so 3.4 * 2**-21 * 0.4 * 2 < 2**-19. The
polynomial of N is within 7.5e-8 and its own roundings within 2**-21; exp within 2**-21. The sum is below 2**-18, times
100 and two terms: 7.7e-4. A typical error is below 1e-5.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ceil_div, ladder, step

BLOCK = 128
RATE = np.float32(0.02)
VOLATILITY = np.float32(0.3)
DRIFT = np.float32(0.02 + 0.5 * 0.3 * 0.3)
"""Rate plus half the variance."""
ROOT_HALF = np.float32(math.sqrt(0.5))
HALF = np.float32(0.5)
ONE = np.float32(1)
ATOL = 200 * 2.0**-18

SCALE = np.float32(0.2316419)
DENSITY = np.float32(1 / math.sqrt(2 * math.pi))
A1 = np.float32(0.319381530)
A2 = np.float32(-0.356563782)
A3 = np.float32(1.781477937)
A4 = np.float32(-1.821255978)
A5 = np.float32(1.330274429)


def accurate(price, strike, years, call, put):
    i = cuda.grid(1)
    if i < price.size:
        s = price[i]
        x = strike[i]
        t = years[i]
        spread = VOLATILITY * math.sqrt(t)
        d1 = (math.log(s / x) + DRIFT * t) / spread
        d2 = d1 - spread
        n1 = HALF + HALF * math.erf(d1 * ROOT_HALF)
        n2 = HALF + HALF * math.erf(d2 * ROOT_HALF)
        later = x * math.exp(-RATE * t)
        call[i] = s * n1 - later * n2
        put[i] = later * (ONE - n2) - s * (ONE - n1)


@cuda.jit(device=True, inline="always")
def _normal(d):
    """Probability that a normal variable is below `d`."""
    k = cuda.libdevice.fast_fdividef(ONE, ONE + SCALE * abs(d))
    tail = DENSITY * cuda.libdevice.fast_expf(-HALF * d * d)
    tail *= k * (A1 + k * (A2 + k * (A3 + k * (A4 + k * A5))))
    return ONE - tail if d > np.float32(0) else tail


def fast(price, strike, years, call, put):
    i = cuda.grid(1)
    if i < price.size:
        s = price[i]
        x = strike[i]
        t = years[i]
        spread = VOLATILITY * math.sqrt(t)
        ratio = cuda.libdevice.fast_fdividef(s, x)
        d1 = cuda.libdevice.fast_fdividef(cuda.libdevice.fast_logf(ratio) + DRIFT * t, spread)
        n1 = _normal(d1)
        n2 = _normal(d1 - spread)
        later = x * cuda.libdevice.fast_expf(-RATE * t)
        call[i] = s * n1 - later * n2
        put[i] = later * (ONE - n2) - s * (ONE - n1)


def _cumulative(d: np.ndarray) -> np.ndarray:
    """The normal distribution; NumPy has no error function."""
    return 0.5 * np.fromiter(map(math.erfc, d * -math.sqrt(0.5)), float, d.size)


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    s, x, t = (each.astype(np.float64) for each in launch.args[:3])
    spread = float(VOLATILITY) * np.sqrt(t)
    d1 = (np.log(s / x) + float(DRIFT) * t) / spread
    n1, n2 = _cumulative(d1), _cumulative(d1 - spread)
    later = x * np.exp(-float(RATE) * t)
    call = s * n1 - later * n2
    put = later * (1 - n2) - s * (1 - n1)
    return call.astype(np.float32), put.astype(np.float32)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    price, strike, years = rng.random((3, n), np.float32)
    price = np.float32(5) + np.float32(25) * price
    strike = np.float32(1) + np.float32(99) * strike
    years = np.float32(0.25) + np.float32(9.75) * years
    call, put = (np.full(n, np.nan, np.float32) for _ in "cp")
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, (price, strike, years, call, put))


VARIANTS = ladder(
    Size("options", (1 << 16, 1 << 19), default=1 << 16, test=150, maximum=1 << 24),
    step(accurate, "Functions right to an ulp are dozens of instructions each."),
    step(fast, "The special function unit approximates what else takes dozens of instructions."),
    outputs=(3, 4),
    atol=ATOL,
)
