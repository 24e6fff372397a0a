"""Issue: how many instructions a cycle an SM starts, by warps, by the length of the loop, and by what is mixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.microbench.asm import after, clock, eight
from validate.microbench.bench import Bench, Case, rows_case, span

_INSTRUCTIONS = 2048
"""Of the measured kind that every warp runs through."""


def loop_kernel(name: str, many: Callable[..., Any]) -> Callable[..., None]:
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
        if t & 31 == 0:
            out[2 * (t >> 5)] = start
            out[2 * (t >> 5) + 1] = end
        if a + b + c + d + e + f + g + h == np.float32(1.5):
            x[0] = a

    kernel.__name__ = kernel.__qualname__ = name
    return kernel


def _kernel(name: str, lines: tuple[str, ...], length: int, declare: str = "") -> Callable[..., None]:
    text = [lines[k % len(lines)].replace("#", f"v{4 + k % 4 if declare else k % 8}") for k in range(length)]
    if declare:
        text += _KEEP
    return loop_kernel(f"issue_{name}", eight(text, types.float32, declare))


def _case(length: int, warps: int) -> Case:
    return rows_case(
        f"warps={warps}", 1, 32 * warps, (warps, 2),
        lambda: (np.ones(2, np.float32), np.int32(_INSTRUCTIONS // length)),
        lambda rows: {"per_cycle": warps * _INSTRUCTIONS / span(rows[:, 0], rows[:, 1])},
    )  # fmt: skip


_KEEP = tuple(f"mov.b32 v{k}, i{k};" for k in range(4))
_FFMA, _FADD, _FMUL = "fma.rn.f32 #, #, #, w;", "add.rn.f32 #, #, w;", "mul.rn.f32 #, #, w;"
_INT = ".reg .b32 i<4>, j; mov.b32 j, w; " + " ".join(f"mov.b32 i{k}, v{k};" for k in range(4))
_LOP = tuple(f"lop3.b32 i{k}, i{k}, j, i{k}, 0x6a;" for k in range(4))
_IMAD = tuple(f"mad.lo.u32 i{k}, i{k}, i{k}, j;" for k in range(4))


def _chains(count: int) -> tuple[str, ...]:
    """FFMA of so many dependent chains in turn."""
    return tuple(f"fma.rn.f32 v{k}, v{k}, v{k}, w;" for k in range(count))


def _mixed(others: tuple[str, ...]) -> tuple[str, ...]:
    """FFMA on four registers and something else, on four others, in turn."""
    return tuple(line for k in range(4) for line in (_FFMA, others[k]))


_VARIANTS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "ffma_16": ((_FFMA,), 16, ""),
    "ffma_32": ((_FFMA,), 32, ""),
    "ffma_128": ((_FFMA,), 128, ""),
    "ffma_512": ((_FFMA,), 512, ""),
    "ffma_chain": (_chains(1), 64, ""),
    "ffma_chains_2": (_chains(2), 64, ""),
    "ffma_chains_4": (_chains(4), 64, ""),
    "fadd_32": ((_FADD,), 32, ""),
    "fmul_32": ((_FMUL,), 32, ""),
    "ffma_lop3": (_mixed(_LOP), 64, _INT),
    "ffma_imad": (_mixed(_IMAD), 64, _INT),
}
BENCHES = tuple(
    Bench(
        f"issue_{name}",
        f"How many instructions per cycle does an SM issue in a loop of {length} of {' / '.join(lines[:2])} by warps?",
        "warp instructions per cycle",
        _kernel(name, lines, length, declare),
        tuple(_case(length, warps) for warps in (4, 8, 16, 32)),
        opcodes=("FFMA",) if "ffma" in name else (),
        slack=0.05,
    )
    for name, (lines, length, declare) in _VARIANTS.items()
)
