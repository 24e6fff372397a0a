"""Execution pipes: how long a result takes, and how many warp instructions an SM issues per cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.microbench.asm import LINES, after, block, clock, eight, record_warp
from validate.microbench.bench import Case, bench, chain_latency, rows_case, span

_FEW, _MORE, _MANY = 16, 48, 64
"""Instructions between clocks of the chain, and in the loop of independent ones: 1 KiB, which every cache holds."""
_ROUNDS = 16


@dataclass(frozen=True)
class PipeOp:
    """An instruction to measure: a row of `lines.toml`, which says what each field is."""

    name: str
    line: str
    kind: str
    opcode: str
    declare: str = ""
    warps: Sequence[int] = (1, 4, 16)


@bench("pipe_{0.name}", over=[PipeOp(name, **row) for name, row in LINES["pipes"].items()])
def _pipe(op: PipeOp) -> Any:
    kind, declare = getattr(types, op.kind), LINES["declare"].get(op.declare, op.declare)
    own = declare.replace("#", "v")
    few = block([op.line.replace("#", "v")] * _FEW, kind, own)
    more = block([op.line.replace("#", "v")] * _MORE, kind, own)
    registers = [f"v{k}" for k in range(8)]
    each = " ".join(dict.fromkeys(declare.replace("#", register) for register in registers))
    many = eight([op.line.replace("#", registers[k % 8]) for k in range(_MANY)], kind, each)

    def kernel(x: Any, rounds: Any, out: Any) -> None:
        """x: start values, one per thread, and one more. out [warp]: three clocks of the chain, two of the loop."""
        t = cuda.threadIdx.x
        v = x[t]
        w = x[t + 1]
        first = middle = last = start = stop = np.uint32(0)
        k = np.int32(0)
        while k < rounds:
            first = clock()
            v = few(v, w)
            middle = clock()
            v = more(v, w)
            last = clock()
            k = after(k)
        a = b = c = d = e = f = g = h = v
        n = np.int32(0)
        while n < 2:
            cuda.syncthreads()
            start = clock()
            k = np.int32(0)
            while k < rounds:
                a, b, c, d, e, f, g, h = many(a, b, c, d, e, f, g, h, w)
                k = after(k)
            stop = clock()
            n = after(n)
        record_warp(out, t, (first, middle, last, start, stop))
        x[t] = a + b + c + d + e + f + g + h

    def case(warps: int) -> Case:
        def reduce(rows: np.ndarray) -> dict[str, float]:
            found = {"per_cycle": warps * _MANY * _ROUNDS / span(rows[:, 3], rows[:, 4])}
            return found | ({"latency": chain_latency(rows[0, :3], _FEW, _MORE)} if warps == 1 else {})

        inputs = (np.arange(32 * warps + 1) % 29 + 3).astype(op.kind), np.int32(_ROUNDS)
        return rows_case(f"warps={warps}", 1, 32 * warps, (warps, 5), inputs, reduce)

    return kernel, map(case, op.warps), {"opcodes": (op.opcode,)}
