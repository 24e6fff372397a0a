"""Memory instructions and shuffles whose guard is false in all lanes: what one costs its warp, and many the SM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.microbench.asm import address, after, inline
from validate.microbench.bench import Bench, Case, rows_case, waits

_COUNT = 16
_ROUNDS = 3
_GUARD, _NEVER = 0xF << 12, 0xF << 12
"""Bits of an instruction's guard, and those of one that no lane passes, !PT."""
#: PTX, opcode and its number: `#` is a result of its own, `~` the repetition, a the lane's address, s its place in
#: shared memory, w a word.
_OPS = {
    "lds": ("ld.volatile.shared.u32 #, [s];", "LDS", 0x984),
    "ldg": ("ld.volatile.global.u32 #, [a];", "LDG.E.STRONG.SYS", 0x981),
    "sts": ("st.volatile.shared.u32 [s], w;", "STS", 0x388),
    "shfl": ("shfl.sync.bfly.b32 #, s, ~, 31, 0xffffffff;", "SHFL.BFLY", 0xF89),
}


def _guarded(number: int) -> Callable[[Sequence[int]], Sequence[int]]:
    """No lane executes instructions of this number; the compiler would branch around what a guard leaves out."""

    def rewrite(code: Sequence[int]) -> Sequence[int]:
        return [word & ~_GUARD | _NEVER if word & 0xFFF == number else word for word in code]

    return rewrite


def _probe(line: str, chain: bool) -> Callable[..., Any]:
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
    return inline(" ".join(parts), types.uint32, (types.uint64, types.uint32, types.uint32))


def _kernel(name: str, line: str, chain: bool) -> Callable[..., None]:
    probe = _probe(line, chain)

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
        if t & 31 == 0:
            out[2 * (t >> 5)] = zero
            out[2 * (t >> 5) + 1] = took

    kernel.__name__ = kernel.__qualname__ = name
    return kernel


def _case(warps: int) -> Case:
    def inputs() -> tuple[Any, ...]:
        return np.zeros(1024, np.uint32), np.uint32(0)

    def reduce(rows: np.ndarray) -> dict[str, float]:
        return {"each": float(waits(rows).mean()) / _COUNT}

    return rows_case(f"warps={warps}", 1, 32 * warps, (warps, 2), inputs, reduce)


def _bench(op: str, chain: bool) -> Bench:
    line, opcode, number = _OPS[op]
    name = f"guarded_{op}_{'wait' if chain else 'many'}"
    said = "one after the other" if chain else "in a row"
    asks = f"What does each of {_COUNT} {opcode} {said} cost, none of which any lane executes, by warps?"
    kernel = _kernel(name, line, chain)
    return Bench(
        name,
        asks,
        "cycles",
        kernel,
        tuple(map(_case, (1, 4, 16, 32))),
        opcodes=(opcode,),
        slack=1,
        rewrite=_guarded(number),
    )


BENCHES = (*(_bench(op, False) for op in _OPS), *(_bench(op, True) for op in ("lds", "ldg", "shfl")))
