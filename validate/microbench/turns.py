"""Which of several warps of a sub-partition issues, when more than one could: how far each comes in the same time.

All begin at a chosen clock, not behind a barrier, which arithmetic runs ahead of (`ahead`), and none waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.instructions.encode import field
from validate.microbench.asm import after, clock, eight, inline
from validate.microbench.bench import Bench, Case, rows_case

_ROUNDS = 24
_FFMA = 0x223
"""Low bits of an FFMA that reads three registers."""
_YIELD = 109
"""The bit that is 0 in an instruction that asks for another warp."""
_START = 4096
_SPIN = inline(
    "{ .reg .u32 a, b; .reg .pred p; mov.u32 a, %clock; and.b32 a, a, -2048; add.u32 a, a, $1; L: mov.u32 b, %clock;"
    "sub.u32 b, a, b; setp.gt.s32 p, b, 0; @p bra L; mov.u32 $0, b; }",
    types.uint32,
    (types.uint32,),
)


def _yielding(code: Sequence[int]) -> Sequence[int]:
    """Every FFMA asks for another warp."""
    return [field(word, _YIELD, 1, 0) if word & 0xFFF == _FFMA else word for word in code]


def _kernel(name: str, lines: Sequence[str]) -> Callable[..., None]:
    many = eight(lines, types.float32)

    def kernel(x: Any, rounds: Any, out: Any) -> None:
        """out [warp, 2]: clocks around the loop."""
        t = cuda.threadIdx.x
        a = b = c = d = e = f = g = h = x[0]
        w = x[1]
        start = _SPIN(np.uint32(_START))
        start = clock()
        k = np.int32(0)
        while k < rounds:
            a, b, c, d, e, f, g, h = many(a, b, c, d, e, f, g, h, w)
            k = after(k)
        end = clock()
        if t & 31 == 0:
            out[2 * (t >> 5)] = start
            out[2 * (t >> 5) + 1] = end
        if a + b + c + d + e + f + g + h == np.float32(1.5):
            x[0] = a

    kernel.__name__ = kernel.__qualname__ = f"turns_{name}"
    return kernel


def _case(warps: int) -> Case:
    def reduce(rows: np.ndarray) -> dict[str, float]:
        """When the first and the second warp of a sub-partition end, as parts of the time that all take."""
        ends = np.sort((rows[:, 1] - rows[:, 0].min()).reshape(-1, 4), axis=0).mean(axis=1)
        return {"first": float(ends[0] / ends[-1]), "second": float(ends[1] / ends[-1])}

    def inputs() -> tuple[Any, ...]:
        return np.ones(2, np.float32), np.int32(_ROUNDS)

    return rows_case(f"warps={warps}", 1, 32 * warps, (warps, 2), inputs, reduce)


def _chains(count: int) -> list[str]:
    return [f"fma.rn.f32 v{k % count}, v{k % count}, v{k % count}, w;" for k in range(64)]


_LINES = {
    "stay": (_chains(8), None),
    "yield": (_chains(8), _yielding),
    "chains_2": (_chains(2), None),
    "busy": ([f"ex2.approx.ftz.f32 v{k % 8}, v{k % 8};" for k in range(32)], None),
}
BENCHES = tuple(
    Bench(
        f"turns_{name}",
        "When does the first of several warps of a sub-partition end that do the same? 1: with the last",
        "part of the time of all",
        _kernel(name, lines),
        tuple(map(_case, (8, 16, 32))),
        opcodes=("MUFU.EX2",) if name == "busy" else ("FFMA",),
        rewrite=rewrite,
        slack=0.05,
    )
    for name, (lines, rewrite) in _LINES.items()
)
