"""Queues between issue and the units for memory, shuffles and the like: how many instructions a warp may issue before
it is held back, and at which rate the queue drains after that; and what those cost whose guard is false in all lanes.

A warp issues the same instruction 16 to 80 times, independent of each other, with a clock after every fourth. As issue
is in order, the clocks show when each instruction left for its queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import LINES, address, after, clear, ptx, record_warp
from validate.microbench.bench import Case, bench, each, rows_case

_EVERY = 4
"""Instructions between two clocks: with more clocks, the compiler puts some into uniform registers, which is slow."""
_ROUNDS = 3
_SHFL, _S2R = (0x389, 0x589, 0x989, 0xF89), 0x919
"""Low bits of shuffles, and of a read of a special register, whose number stands at bit `_SPECIAL`."""
_SPECIAL = 72
_LDC = 0xB82 | 0xFF << 24 | 0x210 << 38 | 0x800 << 64
_KEPT = 0xFFF << 12 | (1 << 21) - 1 << 105
"""Guard, destination and control bits."""
_WORDS = 1 << 17


@dataclass(frozen=True)
class QueuedOp:
    """An operation that is issued back to back: a row of `lines.toml`, which says what each field is."""

    name: str
    line: str
    opcode: str
    strides: Sequence[int]
    step: int = 0
    count: int = 40
    warps: Sequence[int] = (1, 4, 16)
    special: int | None = None
    constant: bool = False

    @property
    def rewrite(self) -> Callable[[Sequence[int]], Sequence[int]] | None:
        """What stands in place of the shuffles in the machine code: loads of one word of the constants that come with
        the launch, or reads of a special register, which the compiler would read once."""
        if not self.constant and self.special is None:
            return None
        read = _LDC if self.special is None else _S2R | self.special << _SPECIAL
        return lambda code: [word & _KEPT | read if word & 0xFFF in _SHFL else word for word in code]


def _probe(op: QueuedOp) -> Callable[..., Any]:
    """A function (address, place in shared memory, word, address of the clocks) that runs the sequence once."""
    parts = [f"{{ .reg .u64 a, o; .reg .u32 s, w, t<{op.count // _EVERY + 1}>; .reg .u32 v;"]
    parts.append("mov.b64 a, $1; mov.b32 s, $2; mov.b32 w, $3; mov.b64 o, $4;")
    parts.append("mov.u32 t0, %clock;")
    for k in range(op.count):
        if "#" in op.line:
            parts.append(f".reg .u32 r{k}, r{k}b, r{k}c, r{k}d;")
        parts.append(op.line.replace("#", f"r{k}").replace("@", str(k * op.step)).replace("~", str(k + 1)))
        if k % _EVERY == _EVERY - 1:
            parts.append(f"mov.u32 t{k // _EVERY + 1}, %clock;")
    parts.append("mov.b32 v, w;")
    results = ("", "b", "c", "d") if "#b" in op.line else ("",) if "#" in op.line else ()
    parts += [f"add.u32 v, v, r{k}{x};" for k in range(op.count) for x in results]
    parts += [f"st.global.u32 [o + {4 * k}], t{k};" for k in range(op.count // _EVERY + 1)]
    parts.append("mov.b32 $0, v; }")
    return ptx(" ".join(parts), "lrrl")


@bench("queue_{0.name}", over=[QueuedOp(name, **row) for name, row in LINES["queues"].items()])
def _queue(op: QueuedOp) -> Any:
    probe, columns = _probe(op), op.count // _EVERY + 1

    def kernel(data: Any, stride: Any, rounds: Any, out: Any) -> None:
        """data: words that lanes reach, `stride` apart. out [warp, count / 4 + 1]: clocks before, between and after."""
        tile = cuda.shared.array(6144, np.uint32)
        t = np.int32(cuda.threadIdx.x)
        clear(tile, 6144)
        place = np.int64((t & np.int32(31)) * stride)
        near = np.uint32(address(tile, place) & np.uint64(0xFFFFFF))
        to = address(out, np.int64(t >> 5) * np.int64(columns))
        value = np.uint32(0)
        k = np.int32(0)
        while k < rounds:
            cuda.threadfence()  # nothing of the round before is left in the queue
            cuda.syncthreads()
            value = probe(address(data, place), near, value, to)
            k = after(k)
        if value == np.uint32(12345):
            data[0] = value

    def case(stride: int, warps: int) -> Case:
        def reduce(rows: np.ndarray) -> dict[str, float]:
            """Mean cycles from a warp's fourth to its middle and last, and of each in the last half."""
            times = (rows - rows[:, 1:2]) % 2**32
            half = op.count // 2
            found = {f"issue of {k}": float(times[:, k // _EVERY].mean()) for k in (half, op.count)}
            return found | {"each": float((times[:, -1] - times[:, half // _EVERY]).mean()) / (op.count - half)}

        inputs = np.zeros(_WORDS, np.uint32), np.int32(stride), np.int32(_ROUNDS)
        return rows_case(f"stride={stride} warps={warps}", 1, 32 * warps, (warps, columns), inputs, reduce)

    cases = (case(stride, warps) for stride in op.strides for warps in op.warps)
    return kernel, cases, {"opcodes": (op.opcode,), "rewrite": op.rewrite}


# --- guarded ----------------------------------------------------------------------------------------------------------

_COUNT = 16
_GUARDED = LINES["guarded"]
_GUARD, _NEVER = 0xF << 12, 0xF << 12
"""Bits of an instruction's guard, and those of one that no lane passes, !PT."""


def _guarded_probe(line: str, chain: bool) -> Callable[..., Any]:
    """A function (address, place in shared memory, word that is zero) that runs the instruction `_COUNT` times, each
    with what comes out of the one before if `chain`; result: cycles."""
    parts = ["{ .reg .u64 a; .reg .u32 s, w, t, e; mov.b64 a, $1; mov.b32 s, $2; mov.b32 w, $3; mov.u32 t, %clock;"]
    for k in range(_COUNT):
        parts.append(f".reg .u32 r{k}, x{k};")
        parts.append(line.replace("#", f"r{k}").replace("~", str(k + 1)))
        if "#" in line:
            parts.append(f"mov.b32 x{k}, r{k};")
        if chain:
            parts.append(f"and.b32 x{k}, x{k}, $3; add.u32 s, s, x{k}; add.u32 w, w, x{k};")
            parts.append(f"cvt.u64.u32 a, x{k}; add.u64 a, a, $1;")
    if not chain and "#" in line:
        parts += [f"and.b32 x{k}, x{k}, $3; add.u32 s, s, x{k};" for k in range(_COUNT)]
    parts.append("add.u32 w, w, s; sub.u32 w, w, $2; mov.u32 e, %clock; sub.u32 e, e, t; and.b32 w, w, $3;")
    parts.append("add.u32 $0, e, w; }")
    return ptx(" ".join(parts), "lrr")


@bench("guarded_{0}_{1}", over=(*((op, "many") for op in _GUARDED), *((op, "wait") for op in ("lds", "ldg", "shfl"))))
def _guarded(op: str, how: str) -> Any:
    line, opcode, number = (_GUARDED[op][each] for each in ("line", "opcode", "number"))
    probe = _guarded_probe(line, how == "wait")

    def rewrite(code: Sequence[int]) -> Sequence[int]:
        """No lane executes the instruction; the compiler would branch around what a guard leaves out."""
        return [word & ~_GUARD | _NEVER if word & 0xFFF == number else word for word in code]

    def kernel(data: Any, zero: Any, out: Any) -> None:
        """data: words that lanes could reach; zero: what no guard passes. out [warp, 2]: zero, and cycles."""
        tile = cuda.shared.array(1024, np.uint32)
        t = np.int32(cuda.threadIdx.x)
        tile[t] = zero
        near = np.uint32(address(tile, np.int64(t)) & np.uint64(0xFFFFFF))
        took = np.uint32(0)
        k = np.int32(0)
        while k < _ROUNDS:
            cuda.syncthreads()
            took = probe(address(data, np.int64(t)), near, zero)
            k = after(k)
        record_warp(out, t, (zero, took))

    def case(warps: int) -> Case:
        inputs = np.zeros(1024, np.uint32), np.uint32(0)
        return rows_case(f"warps={warps}", 1, 32 * warps, (warps, 2), inputs, lambda rows: each(rows, _COUNT))

    return kernel, map(case, (1, 4, 16, 32)), {"opcodes": (opcode,), "rewrite": rewrite}
