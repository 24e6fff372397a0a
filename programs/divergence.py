"""Control divergence: the lanes of each warp take 1, 2, 4, 8, 16 or 32 different ways through one program.

A tree of branches leads to 32 loops of equal length, each with a constant of its own. All variants are the
same machine code; `ways` alone decides how many of the loops the lanes of a warp spread over. An instruction
is issued only for lanes that stand at the same address, so the warp runs the loops one after the other, each
with the other lanes switched off: in the report, executed instructions and cycles grow with the ways, while
thread instructions stay nearly the same and the threads per instruction fall from 32 to 1.

A loop halves its input, exactly, until it is below one, and adds its constant, a small integer, exactly as
well; only the final sum rounds. So results are bit-exact. Inputs lie in [2**15, 2**16): every thread does the
same 16 rounds.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Kernel, Size, ceil_div, ladder, step

BLOCK = 128
WARP = 32
ROUNDS = 16


# Each level chooses by one bit of `path`. Inlined with a constant `leaf`, the levels become 32 separate
# loops; how long they run depends on data, so the compiler can neither predicate nor unroll nor merge them.
# Numba itself does the inlining, since without a GPU to compile for it compiles no separate device functions.
@cuda.jit(device=True, inline="always")
def _ways2(x, path, leaf):
    total = np.float32(0)
    if path & 1:
        while x >= np.float32(1):
            x *= np.float32(0.5)
            total += np.float32(leaf + 1)
    else:
        while x >= np.float32(1):
            x *= np.float32(0.5)
            total += np.float32(leaf)
    return x + total


@cuda.jit(device=True, inline="always")
def _ways4(x, path, leaf):
    if path & 2:
        return _ways2(x, path, leaf + 2)
    return _ways2(x, path, leaf)


@cuda.jit(device=True, inline="always")
def _ways8(x, path, leaf):
    if path & 4:
        return _ways4(x, path, leaf + 4)
    return _ways4(x, path, leaf)


@cuda.jit(device=True, inline="always")
def _ways16(x, path, leaf):
    if path & 8:
        return _ways8(x, path, leaf + 8)
    return _ways8(x, path, leaf)


def divergence(x, out, ways):
    i = cuda.grid(1)
    if i < out.size:
        path = cuda.laneid & (ways - 1)
        value = x[i]
        out[i] = _ways16(value, path, 17) if path & 16 else _ways16(value, path, 1)


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    x, _, ways = launch.args
    # Blocks are whole warps, so an element's lane is its index modulo 32. Leaf constants count from 1.
    leaf = np.arange(x.size) % WARP % ways + 1
    return (x * np.float32(2.0**-ROUNDS) + (ROUNDS * leaf).astype(np.float32),)


def make(kernel: Kernel, n: int, rng: np.random.Generator, ways: int) -> Launch:
    # In [2**(ROUNDS - 1), 2**ROUNDS): it takes ROUNDS halvings to bring any of them below one.
    x = rng.random(n, np.float32) + np.float32(1)
    x *= np.float32(2.0 ** (ROUNDS - 1))
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, (x, np.full(n, np.nan, np.float32), np.int32(ways)))


def _teaches(ways: int) -> str:
    paths = "one way: no divergence, the baseline" if ways == 1 else f"{ways} ways, one after the other"
    return f"The lanes of each warp go {paths}."


VARIANTS = ladder(
    Size("elements", (1000, 1 << 15), default=4096, test=200),
    *(step(divergence, _teaches(ways), ways, name=str(ways)) for ways in (1, 2, 4, 8, 16, 32)),
)
