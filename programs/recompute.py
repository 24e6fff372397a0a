"""Recomputation: the gradient of three chained sigmoids with stored and with recomputed intermediate results.

Forward, `a = s(x)`, `b = s(a)`, `c = s(b)` with `s(t) = 1 / (1 + exp(-t))`; backward, the derivative of a sigmoid
follows from its result, so `dx = scale * c (1 - c) b (1 - b) a (1 - a)`, where `scale` is what comes back from a mean.

- `forward_stored` reads x and writes a, b and c; `backward_stored` reads a, b and c and writes dx: eight accesses to
  memory for each element.
- `forward_recomputed` reads x and writes c only; `backward_recomputed` reads x and c, computes a and b once more, and
  writes dx: five, for two more sigmoids.

In the report, add up traffic and duration of each pair. As long as memory is the limit, the extra arithmetic is
hidden behind it, and a and b, which grow with the depth of a network, never occupy memory. The functions are the fast
ones (MUFU): with the accurate exponential and quotient, 45 instructions to a sigmoid, issue slots would be the limit.

Tolerance: for |t| <= 2 the error of the fast exponential is at most four units in the last place and that of the fast
quotient two (CUDA programming guide, intrinsic functions), so a sigmoid is good to 13 * 2**-24 with its sum, and what
enters the next one is damped to a quarter. With x in [-2, 2), `1 - a` is at least 0.11, so there the error grows to
13 * 0.89 / 0.11 = 105 times 2**-24, that of `1 - b` to 32 and of `1 - c` to 27; with the errors of a, b and c
themselves, what they hand on, and six products that is below 256 * 2**-24.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ceil_div, ladder, step

BLOCK = 256
RTOL = 256 * 2.0**-24


@cuda.jit(device=True)
def _sigmoid(x):
    return cuda.libdevice.fast_fdividef(np.float32(1), np.float32(1) + cuda.libdevice.fast_expf(-x))


@cuda.jit(device=True)
def _slope(result):
    """Derivative of a sigmoid from its result."""
    return result * (np.float32(1) - result)


def forward_stored(x, a, b, c):
    i = cuda.grid(1)
    if i < x.size:
        first = _sigmoid(x[i])
        second = _sigmoid(first)
        a[i] = first
        b[i] = second
        c[i] = _sigmoid(second)


def backward_stored(a, b, c, scale, dx):
    i = cuda.grid(1)
    if i < dx.size:
        dx[i] = scale * _slope(c[i]) * _slope(b[i]) * _slope(a[i])


def forward_recomputed(x, c):
    i = cuda.grid(1)
    if i < x.size:
        c[i] = _sigmoid(_sigmoid(_sigmoid(x[i])))


def backward_recomputed(x, c, scale, dx):
    i = cuda.grid(1)
    if i < dx.size:
        first = _sigmoid(x[i])
        dx[i] = scale * _slope(c[i]) * _slope(_sigmoid(first)) * _slope(first)


def _chain(x: np.ndarray) -> list[np.ndarray]:
    """The three results, in the precision of x."""
    results = []
    for _ in range(3):
        x = 1 / (1 + np.exp(-x))
        results.append(x)
    return results


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    x = rng.random(n, np.float32) * np.float32(4) - np.float32(2)
    # In the range of the results, and drawn: exponentials differ in their last bit from one NumPy to another.
    a, b, c = (rng.random(n, np.float32) for _ in range(3))
    scale = np.float32(1 / n)
    poison = [np.full(n, np.nan, np.float32) for _ in range(3)]
    args = {
        forward_stored: (x, *poison),
        backward_stored: (a, b, c, scale, poison[0]),
        forward_recomputed: (x, poison[0]),
        backward_recomputed: (x, c, scale, poison[0]),
    }
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, args[kernel])


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    if launch.kernel in (forward_stored, forward_recomputed):
        results = _chain(launch.args[0].astype(np.float64))
        return tuple(each.astype(np.float32) for each in results[-(len(launch.args) - 1) :])
    *inputs, scale, _ = (np.asarray(each, np.float64) for each in launch.args)
    results = inputs if len(inputs) == 3 else [*_chain(inputs[0])[:2], inputs[1]]
    for each in results:
        scale = scale * each * (1 - each)
    return (scale.astype(np.float32),)


VARIANTS = ladder(
    Size("elements", (1 << 18, 1 << 21), default=1 << 18, test=300),
    step(forward_stored, "Forward, storing all three results: four accesses per element.", outputs=(1, 2, 3)),
    step(backward_stored, "Backward from stored results: four more accesses, hardly any arithmetic.", outputs=(4,)),
    step(forward_recomputed, "Forward, storing the last result only: two accesses per element."),
    step(backward_recomputed, "Backward with two sigmoids computed again: three accesses per element.", outputs=(3,)),
    rtol=RTOL,
)
