"""Shared memory: latency and rate of loads, stores and atomics at every degree of bank conflict, and width; and which
sub-partitions share what: the rate when chosen ones of the four use it, one warp on each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import LINES, after, clock, ptx, record_warp, shared_address, timed
from validate.microbench.bench import Case, bench, chain_latency, rows_case, span

_PAIR_COUNT, _PAIR_ROUNDS, _PAIR_WORDS = 16, 16, 1024


@bench("pairs_{0}", over=[(name, *row) for name, row in LINES["pairs"].items()])
def _pairs(_: str, line: str, strides: Sequence[int]) -> Any:
    parts = ["{ .reg .u32 s, v, w; mov.b32 s, $1; mov.b32 w, $2; mov.b32 v, $2;"]
    for k in range(_PAIR_COUNT):
        parts.append(f".reg .b32 r{k}; {line.replace('#', f'r{k}')}")
    parts += [f"xor.b32 v, v, r{k};" for k in range(_PAIR_COUNT)]
    many = ptx(" ".join([*parts, "mov.b32 $0, v; }"]), "rr")

    def kernel(stride: Any, chosen: Any, rounds: Any, out: Any) -> None:
        """Lanes name words of shared memory `stride` apart. chosen: bit k for warp k. out [warp, 2]: clocks."""
        tile = cuda.shared.array(_PAIR_WORDS, np.uint32)
        t = np.int32(cuda.threadIdx.x)
        k = t
        while k < _PAIR_WORDS:
            tile[k] = np.uint32(k)
            k += np.int32(cuda.blockDim.x)
        place = shared_address(tile) + np.uint32(4) * np.uint32((t & np.int32(31)) * stride)
        value = np.uint32(t)
        start = end = np.uint32(0)
        turn = np.int32(0)
        while turn < 2:
            cuda.syncthreads()
            if (chosen >> (t >> np.int32(5))) & np.int32(1):
                start = clock()
                k = np.int32(0)
                while k < rounds:
                    value ^= many(place, value)
                    k = after(k)
                end = clock()
            turn = after(turn)
        record_warp(out, t, (start, end))
        if value == np.uint32(12345):
            out[0] = value

    def case(stride: int, chosen: tuple[int, ...]) -> Case:
        mask, mine = sum(1 << warp for warp in chosen), list(chosen)
        return rows_case(
            f"stride={stride} warps={','.join(map(str, chosen))}", 1, 128, (4, 2),
            (np.int32(stride), np.int32(mask), np.int32(_PAIR_ROUNDS)),
            lambda rows: {"each": span(rows[mine, 0], rows[mine, 1]) / (_PAIR_COUNT * _PAIR_ROUNDS * len(chosen))},
        )  # fmt: skip

    choices = ((0,), (0, 1), (0, 2), (0, 3), (1, 2), (0, 1, 2, 3))
    return kernel, (case(stride, chosen) for stride in strides for chosen in choices)


_FEW, _MORE, _MANY = 8, 24, 32
_ROUNDS = 8
_WORDS = 4352


@dataclass(frozen=True)
class SharedAccess:
    """One kind of access: a row of `lines.toml`, which says what each field is."""

    name: str
    line: str
    opcode: str
    strides: Sequence[int]
    dependent: bool = True
    warps: Sequence[int] = (1, 4, 16)


def _chain(access: SharedAccess, count: int) -> Callable[..., Any]:
    step = access.line.replace("#", "s") + " "
    text = "{ .reg .u32 s, w, x, y, z; mov.b32 s, $1; mov.b32 w, $2; "
    return ptx(f"{text} {step * count} mov.b32 $0, s; }}", "rr")


def _many(access: SharedAccess) -> Callable[..., Any]:
    parts = ["{ .reg .u32 s, v, w, x, y, z; mov.b32 s, $1; mov.b32 w, $2; mov.b32 v, $2;"]
    for k in range(_MANY):
        parts.append(f".reg .u32 r{k}; {access.line.replace('#', f'r{k}')}")
        if access.dependent and k >= 8:
            parts.append(f"add.u32 v, v, r{k - 8};")
    if access.dependent:
        parts += [f"add.u32 v, v, r{k};" for k in range(_MANY - 8, _MANY)]
    return ptx(" ".join([*parts, "mov.b32 $0, v; }"]), "rr")


@bench("shared_{0.name}", over=[SharedAccess(name, **row) for name, row in LINES["shared"].items()])
def _shared(access: SharedAccess) -> Any:
    few, more, many = _chain(access, _FEW), _chain(access, _MORE), _many(access)
    turns = timed(lambda value, given: value ^ many(*given), both=True)

    def kernel(stride: Any, zero: Any, rounds: Any, out: Any) -> None:
        """Lanes access words `stride` apart. out [warp, 5]: clocks of a chain, and of the loop."""
        tile = cuda.shared.array(_WORDS, np.uint32)
        t = np.int32(cuda.threadIdx.x)
        k = t
        while k < _WORDS:
            tile[k] = shared_address(tile) + np.uint32(4 * k)
            k += np.int32(cuda.blockDim.x)
        place = shared_address(tile) + np.uint32(4) * np.uint32((t & np.int32(31)) * stride)
        value = place
        first = middle = last = np.uint32(0)
        cuda.syncthreads()
        k = np.int32(0)
        while k < 2:
            first = clock()
            value = few(value, zero)
            middle = clock()
            value = more(value, zero)
            last = clock()
            k = after(k)
        value, start, stop = turns(value, (place, zero), rounds)
        record_warp(out, t, (first, middle, last, start, stop))
        if value == np.uint32(1):
            out[0] = value

    def case(stride: int, warps: int) -> Case:
        def reduce(rows: np.ndarray) -> dict[str, float]:
            """Cycles of one access of one warp in a chain, and of the SM for each access of any warp."""
            found = {"an access": span(rows[:, 3], rows[:, 4]) / (_MANY * _ROUNDS * warps)}
            if warps == 1 and access.dependent:
                found["latency"] = chain_latency(rows[0, :3], _FEW, _MORE)
            return found

        inputs = (np.int32(stride), np.uint32(0), np.int32(_ROUNDS))
        return rows_case(f"stride={stride} warps={warps}", 1, 32 * warps, (warps, 5), inputs, reduce)

    cases = (case(stride, warps) for stride in access.strides for warps in access.warps)
    return kernel, cases, {"opcodes": (access.opcode,)}
