"""Issue: how many instructions a cycle an SM starts, by warps, by the length of the loop and by what is mixed; which of
several warps goes first; and what the banks of the registers cost.

The compiler chooses registers so that no three operands lie in one bank, and no instruction asks for another warp. So
machine code is changed where that is asked: the registers that the 64 FFMA of a loop read are replaced by chosen ones
(their results do not matter), or their yield hint is set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.instructions.learn import field
from validate.microbench.asm import LINES, after, clock, eight, ptx, record_warp
from validate.microbench.bench import Case, bench, rows_case, span

_INSTRUCTIONS = 2048
"""Of the measured kind that every warp runs through."""
_FFMA_BITS = 0x223
"""Low bits of an FFMA that reads three registers."""


def _loop_kernel(many: Callable[..., Any]) -> Callable[..., None]:
    """A kernel that times `rounds` turns of `many`, a function of `asm.eight`, on every warp."""

    def kernel(x: Any, rounds: Any, out: Any) -> None:
        """out [warp, 2]: clocks around the loop, the second time that it runs."""
        t = cuda.threadIdx.x
        a = b = c = d = e = f = g = h = x[0]
        w = x[1]
        start = np.uint32(0)
        turn = np.int32(0)
        while turn < 2:
            cuda.syncthreads()
            start = clock()
            k = np.int32(0)
            while k < rounds:
                a, b, c, d, e, f, g, h = many(a, b, c, d, e, f, g, h, w)
                k = after(k)
            turn = after(turn)
        end = clock()
        record_warp(out, t, (start, end))
        if a + b + c + d + e + f + g + h == np.float32(1.5):
            x[0] = a

    return kernel


def _loop_case(warps: int, rounds: int, reduce: Callable[[np.ndarray], dict[str, float]]) -> Case:
    inputs = np.ones(2, np.float32), np.int32(rounds)
    return rows_case(f"warps={warps}", 1, 32 * warps, (warps, 2), inputs, reduce)


def _chains(count: int) -> tuple[str, ...]:
    """FFMA of so many dependent chains in turn."""
    return tuple(f"fma.rn.f32 v{k}, v{k}, v{k}, w;" for k in range(count))


_KEEP = tuple(f"mov.b32 v{k}, i{k};" for k in range(4))


@bench("issue_{0}", over=[(name, *row) for name, row in LINES["issue"].items()])
def _issue(name: str, lines: Sequence[str], length: int, declare: str = "") -> Any:
    text = [lines[k % len(lines)].replace("#", f"v{4 + k % 4 if declare else k % 8}") for k in range(length)]
    many = eight([*text, *(_KEEP if declare else ())], types.float32, declare)

    def case(warps: int) -> Case:
        count = warps * _INSTRUCTIONS
        return _loop_case(
            warps, _INSTRUCTIONS // length, lambda rows: {"per_cycle": count / span(rows[:, 0], rows[:, 1])}
        )

    return _loop_kernel(many), map(case, (4, 8, 16, 32)), {"opcodes": ("FFMA",) if "ffma" in name else ()}


_YIELD = 109
"""The bit that is 0 in an instruction that asks for another warp."""
_START = 4096
_SPIN = ptx(
    "{ .reg .u32 a, b; .reg .pred p; mov.u32 a, %clock; and.b32 a, a, -2048; add.u32 a, a, $1; L: mov.u32 b, %clock;"
    "sub.u32 b, a, b; setp.gt.s32 p, b, 0; @p bra L; mov.u32 $0, b; }",
    "r",
)


def _yielding(code: Sequence[int]) -> Sequence[int]:
    """Every FFMA asks for another warp."""
    return [field(word, _YIELD, 1, 0) if word & 0xFFF == _FFMA_BITS else word for word in code]


@bench(
    "turns_{0}",
    over=(
        ("stay", _chains(8) * 8),
        ("yield", _chains(8) * 8, _yielding),
        ("chains_2", _chains(2) * 32),
        ("busy", tuple(f"ex2.approx.ftz.f32 v{k % 8}, v{k % 8};" for k in range(32))),
    ),
)
def _turns(name: str, lines: Sequence[str], rewrite: Any = None) -> Any:
    many = eight(lines, types.float32)

    def kernel(x: Any, rounds: Any, out: Any) -> None:
        """All warps begin at a chosen clock, not behind a barrier, which arithmetic runs ahead of (`ahead`), and none
        waits for another. out [warp, 2]: clocks around the loop."""
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
        record_warp(out, t, (start, end))
        if a + b + c + d + e + f + g + h == np.float32(1.5):
            x[0] = a

    def reduce(rows: np.ndarray) -> dict[str, float]:
        """Ends of the first and second warp of a sub-partition, as shares of the time until the last one's."""
        ends = np.sort((rows[:, 1] - rows[:, 0].min()).reshape(-1, 4), axis=0).mean(axis=1)
        return {"first": float(ends[0] / ends[-1]), "second": float(ends[1] / ends[-1])}

    opcode = "MUFU.EX2" if name == "busy" else "FFMA"
    cases = (_loop_case(warps, 24, reduce) for warps in (8, 16, 32))
    return kernel, cases, {"opcodes": (opcode,), "rewrite": rewrite}


_MANY, _ROUNDS = 64, 16
_SOURCES = (24, 32, 64)
"""First bits of an instruction's source registers, of 8 bits each."""
_REUSE = 122
"""First of the flags that keep an operand for the next instruction."""
_LOOP = eight([f"fma.rn.f32 v{k % 8}, v{k % 8}, v{(k + 1) % 8}, w;" for k in range(_MANY)], types.float32)


@bench("registers_{0}", over=[(name, *row) for name, row in LINES["registers"].items()])
def _registers(name: str, sets: Sequence[Sequence[int]], reuse: int = 0) -> Any:
    """The FFMAs read these sources in turn, with these reuse flags, the first source's lowest."""

    def rewrite(code: Sequence[int]) -> Sequence[int]:
        changed, count = [], 0
        for word in code:
            if word & 0xFFF == _FFMA_BITS:
                for at, register in zip(_SOURCES, sets[count % len(sets)], strict=True):
                    word = field(word, at, 8, register)
                word = field(word, _REUSE, 4, reuse)
                count += 1
            changed.append(word)
        if count < _MANY:
            raise ValueError(f"{count} FFMA of three registers, {_MANY} expected")
        return changed

    def case(warps: int) -> Case:
        each = warps * _MANY * _ROUNDS / 4
        return _loop_case(
            warps, _ROUNDS, lambda rows: {"each, of a sub-partition": span(rows[:, 0], rows[:, 1]) / each}
        )

    return _loop_kernel(_LOOP), map(case, (4, 16)), {"rewrite": rewrite}
