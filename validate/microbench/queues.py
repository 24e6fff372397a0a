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

from validate.microbench.asm import address, after, clear, ptx, record_warp
from validate.microbench.bench import Case, bench, each, rows_case

_EVERY = 4
"""Instructions between two clocks: with more clocks, the compiler puts some into uniform registers, which is slow."""
_ROUNDS = 3
_SHUFFLE = "shfl.sync.bfly.b32 #, s, ~, 31, 0xffffffff;"
_SHFL, _S2R = (0x389, 0x589, 0x989, 0xF89), 0x919
"""Low bits of shuffles, and of a read of a special register, whose number stands at bit `_SPECIAL`."""
_SPECIAL = 72
_LDC = 0xB82 | 0xFF << 24 | 0x210 << 38 | 0x800 << 64
_KEPT = 0xFFF << 12 | (1 << 21) - 1 << 105
"""Guard, destination and control bits."""
_WORDS = 1 << 17


@dataclass(frozen=True)
class QueuedOp:
    """An operation that is issued back to back.

    name: of its benchmark. line: PTX; `#` is the result, `@` the byte offset of this repetition, a the lane's address,
    s its place in shared memory, w a word, `~` the repetition's number.
    step: bytes between repetitions. opcode: what the machine code has to hold. strides: words between lanes.
    """

    name: str
    line: str
    opcode: str
    strides: tuple[int, ...]
    step: int = 0
    count: int = 40
    warps: tuple[int, ...] = (1, 4, 16)
    rewrite: Callable[[Sequence[int]], Sequence[int]] | None = None


def _reads_of(special: int) -> Callable[[Sequence[int]], Sequence[int]]:
    """Reads of a special register in place of the shuffles; the compiler would read it once."""

    def rewrite(code: Sequence[int]) -> Sequence[int]:
        read = _S2R | special << _SPECIAL
        return [word & _KEPT | read if word & 0xFFF in _SHFL else word for word in code]

    return rewrite


def _constant_loads(code: Sequence[int]) -> Sequence[int]:
    """Loads of one word of the constants that come with the launch in place of the shuffles."""
    return [word & _KEPT | _LDC if word & 0xFFF in _SHFL else word for word in code]


OPS = (
    QueuedOp("lds", "ld.volatile.shared.u32 #, [s];", "LDS", (1, 8, 32)),
    QueuedOp("lds_128", "ld.volatile.shared.v4.u32 {#, #b, #c, #d}, [s];", "LDS.128", (4, 32), count=16),
    QueuedOp("sts", "st.volatile.shared.u32 [s], w;", "STS", (1, 32), count=80),
    QueuedOp("atoms", "red.shared.min.u32 [s], w;", "ATOMS.MIN", (0, 1), count=80),
    QueuedOp("shfl", _SHUFFLE, "SHFL.BFLY", (1,)),
    QueuedOp("ldc", _SHUFFLE, "LDC", (1,), warps=(1, 4, 16, 32), rewrite=_constant_loads),
    QueuedOp("s2r_lane", _SHUFFLE, "S2R", (1,), warps=(1, 4, 16, 32), rewrite=_reads_of(0x00)),
    QueuedOp("s2r_tid", _SHUFFLE, "S2R", (1,), warps=(1, 4, 16, 32), rewrite=_reads_of(0x21)),
    QueuedOp("s2r_block", _SHUFFLE, "S2R", (1,), warps=(1, 4, 16, 32), rewrite=_reads_of(0x25)),
    QueuedOp("s2ur", "mov.u32 #, %globaltimer_lo;", "S2UR", (1,)),
    QueuedOp("ldg_hit", "ld.global.ca.u32 #, [a + @];", "LDG.E.STRONG.SM", (1, 8, 32), 4),
    QueuedOp("ldg_miss", "ld.global.cg.u32 #, [a + @];", "LDG.E.STRONG.GPU", (1, 8, 32), 4096),
    QueuedOp("stg", "st.global.u32 [a + @], w;", "STG.E", (1, 8, 32), 4096, 80),
    QueuedOp("red", "red.global.add.u32 [a + @], w;", "REDG.E.ADD.STRONG.GPU", (0, 1, 32), 4096, 80),
)


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


@bench(
    "queue_{0.name}",
    "When does a warp issue each of many independent {0.opcode}, by words between lanes and warps of the SM?",
    over=OPS,
    slack=2,
)
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
_GUARD, _NEVER = 0xF << 12, 0xF << 12
"""Bits of an instruction's guard, and those of one that no lane passes, !PT."""
# PTX, opcode and its number: `#` is a result of its own, `~` the repetition, a the lane's address, s its place in
# shared memory, w a word.
_GUARDED = {
    "lds": ("ld.volatile.shared.u32 #, [s];", "LDS", 0x984),
    "ldg": ("ld.volatile.global.u32 #, [a];", "LDG.E.STRONG.SYS", 0x981),
    "sts": ("st.volatile.shared.u32 [s], w;", "STS", 0x388),
    "shfl": ("shfl.sync.bfly.b32 #, s, ~, 31, 0xffffffff;", "SHFL.BFLY", 0xF89),
}


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


@bench(
    "guarded_{0}_{1}",
    "What does each of 16 {0} cost that no lane executes, in a row or waiting for the one before, by warps?",
    over=(*((op, "many") for op in _GUARDED), *((op, "wait") for op in ("lds", "ldg", "shfl"))),
    slack=1,
)
def _guarded(op: str, how: str) -> Any:
    line, opcode, number = _GUARDED[op]
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
