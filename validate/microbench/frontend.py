"""Instruction caches: sizes, and rates by the length of straight code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.microbench.asm import LINES, after, clock, eight, record
from validate.microbench.bench import Case, bench, rows_case, span

LINE_INSTRUCTIONS = 8
"""Instructions of 16 bytes in a line of 128."""
_PIECE = 128
"""Instructions of the shortest straight line: 2 KiB."""


_2K, _4K, _8K, _16K, _32K, _64K, _128K = (
    eight([f"fma.rn.f32 v{k % 8}, v{k % 8}, v{k % 8}, w;" for k in range(_PIECE << size)], types.float32)
    for size in range(7)
)


def code(x: Any, size: Any, rounds: Any, out: Any) -> None:
    """Runs the first `size` KiB (2 to 256, doubling) of 256 KiB of code in a row, `rounds` times after a first time.

    out [warp]: clocks before the first time, after it, and at the end.
    """
    t = cuda.threadIdx.x
    a = b = c = d = e = f = g = h = x[t]
    w = x[t + 1]
    cuda.syncthreads()
    start = clock()
    first = start
    k = np.int32(0)
    while k < rounds:
        a, b, c, d, e, f, g, h = _2K(a, b, c, d, e, f, g, h, w)
        if size > 2:
            a, b, c, d, e, f, g, h = _2K(a, b, c, d, e, f, g, h, w)
        if size > 4:
            a, b, c, d, e, f, g, h = _4K(a, b, c, d, e, f, g, h, w)
        if size > 8:
            a, b, c, d, e, f, g, h = _8K(a, b, c, d, e, f, g, h, w)
        if size > 16:
            a, b, c, d, e, f, g, h = _16K(a, b, c, d, e, f, g, h, w)
        if size > 32:
            a, b, c, d, e, f, g, h = _32K(a, b, c, d, e, f, g, h, w)
        if size > 64:
            a, b, c, d, e, f, g, h = _64K(a, b, c, d, e, f, g, h, w)
        if size > 128:
            a, b, c, d, e, f, g, h = _128K(a, b, c, d, e, f, g, h, w)
        if k == 0:
            first = clock()
        k = after(k)
    last = clock()
    if t & 31 == 0:
        record(out, np.int64(3) * (np.int64(cuda.grid(1)) >> 5), (start, first, last))
    x[t] = a + b + c + d + e + f + g + h


def _code_case(size: int, warps: int, grid: int, before: str, rounds: int) -> Case:
    inputs = np.ones(32 * warps + 1, np.float32), np.int32(size), np.int32(rounds)

    def reduce(rows: np.ndarray) -> dict[str, float]:
        rows = rows.reshape(grid, warps, 3)
        instructions = size * 1024 / 16
        found = {}
        if before != "same":
            spans = [span(each[:, 0], each[:, 1]) for each in rows]
            found["first time, a line"] = float(np.median(spans)) / instructions * LINE_INSTRUCTIONS
        if rounds > 1:
            spans = [span(each[:, 1], each[:, 2]) for each in rows]
            found["again, an instruction"] = float(np.median(spans)) / instructions / (rounds - 1) / max(warps / 4, 1)
        return found

    key, slow = f"KiB={size} warps={warps} sms={grid} {before}", before == "evicted" or grid > 1
    return rows_case(key, grid, 32 * warps, (grid * warps, 3), inputs, reduce, before=before, slow=slow)


@bench("code_size")
def _sizes() -> Any:
    return code, (_code_case(*row) for row in LINES["code"]["sizes"])
