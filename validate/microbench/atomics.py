"""Atomics on device memory: latency, and rates by how many addresses, lines and SMs take part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.microbench.asm import address, after, clock, inline, smid
from validate.microbench.bench import SMS, Bench, Case, rows_case, spans_by_sm, waits

_CHAIN = inline(
    "{ .reg .u64 a; .reg .u32 v; mov.b64 a, $1; mov.b32 v, $2; "
    + "atom.global.add.u32 v, [a], v; " * 8
    + "mov.b32 $0, v; }",
    types.uint32,
    (types.uint64, types.uint32),
)
_LOADS = 8


def atomic_latency(data: Any, offset: Any, rounds: Any, zero: Any, out: Any) -> None:
    """One lane adds zero to one word again and again, each time what the time before gave. out: clocks."""
    if cuda.threadIdx.x != 0:
        return
    place = address(data, np.int64(offset))
    value = zero
    start = np.uint32(0)
    k = np.int32(0)
    while k < rounds:
        start = clock()
        value = _CHAIN(place, value)
        k = after(k)
    data[offset] = value
    end = clock()
    out[0] = start
    out[1] = end


def _latency_case(offset: int) -> Case:
    return rows_case(
        f"word={offset}", 1, 32, (1, 2),
        lambda: (np.zeros(4096, np.uint32), np.int32(offset), np.int32(3), np.uint32(0)),
        lambda rows: {"each": float(waits(rows)[0]) / _LOADS},
    )  # fmt: skip


_RED_INT = inline("red.global.add.u32 [$1], $2; mov.b32 $0, $2;", types.uint32, (types.uint64, types.uint32))
_RED_FLOAT = inline(
    "{ .reg .f32 f; mov.b32 f, $2; red.global.add.f32 [$1], f; mov.b32 $0, $2; }",
    types.uint32,
    (types.uint64, types.uint32),
)
_ATOM = inline("atom.global.add.u32 $0, [$1], $2;", types.uint32, (types.uint64, types.uint32))


def _rate_kernel(name: str, add: Callable[..., Any]) -> Callable[..., None]:
    def kernel(data: Any, lane_step: Any, warp_step: Any, rounds: Any, one: Any, out: Any) -> None:
        """Lanes add to words `lane_step` apart, warps of the grid `warp_step` apart. out [warp, 3]: clocks and SM."""
        t = np.int64(cuda.grid(1))
        warp = t >> 5
        place = address(data, ((t & 31) * lane_step + warp * warp_step) % data.size)
        value = one
        cuda.syncthreads()
        start = clock()
        k = np.int32(0)
        while k < rounds:
            value = add(place, value)
            k = after(k)
        cuda.threadfence()
        end = clock()
        if t & 31 == 0:
            out[3 * warp] = start
            out[3 * warp + 1] = end
            out[3 * warp + 2] = smid()
        if value == np.uint32(0xFFFFFFF0):
            data[0] = value

    kernel.__name__ = kernel.__qualname__ = name
    return kernel


def _rate_case(key: str, lane_step: int, warp_step: int, *, sms: int = SMS, warps: int = 8, rounds: int = 8) -> Case:
    steps = np.int64(lane_step), np.int64(warp_step)
    return rows_case(
        f"{key} sms={sms} warps={warps}", sms, 32 * warps, (sms * warps, 3),
        lambda: (np.zeros(1 << 18, np.uint32), *steps, np.int32(rounds), np.uint32(1)),
        lambda rows: {"cycles per warp instruction": max(spans_by_sm(rows)) / (rounds * sms * warps)},
        slow=sms > 1 and lane_step > 1,
    )  # fmt: skip


_LINES = 1 << 16


def _spread_kernel(name: str, add: Callable[..., Any]) -> Callable[..., None]:
    def kernel(data: Any, group: Any, step: Any, rounds: Any, one: Any, out: Any) -> None:
        """So many neighbouring lanes add to words `step` apart of a line, others to lines that a generator chooses,
        four times a round, all twice. out [warp]: cycles of the second time."""
        lane = np.int64(cuda.threadIdx.x & 31)
        word = lane % group * step
        x = np.uint32(cuda.grid(1) // group) * np.uint32(2654435761)
        x = (x ^ (x >> 15)) * np.uint32(2246822519)
        x ^= x >> 13
        took = np.uint32(0)
        total = np.uint32(0)
        turn = np.int32(0)
        while turn < 2:
            cuda.syncthreads()
            start = clock()
            k = np.int32(0)
            while k < rounds:
                for _ in range(4):
                    x = x * np.uint32(1664525) + np.uint32(1013904223)
                    total += add(address(data, np.int64((x >> 12) % np.uint32(_LINES)) * 32 + word), one)
                k = after(k)
            took = clock() - start + (total & np.uint32(0))
            turn = after(turn)
        if lane == 0:
            out[np.int64(cuda.grid(1) >> 5)] = took
        if total == np.uint32(0xFFFFFFF0):
            out[0] = total

    kernel.__name__ = kernel.__qualname__ = name
    return kernel


def _spread_case(lines: int, words: int, apart: int, sms: int, warps: int = 16, rounds: int = 8) -> Case:
    sharing = np.int64(32 // lines), np.int64(apart)
    return rows_case(
        f"lines={lines} words={words} apart={apart} sms={sms} warps={warps}", sms, 32 * warps, (sms * warps, 1),
        lambda: (np.zeros(_LINES * 32, np.uint32), *sharing, np.int32(rounds), np.uint32(1)),
        lambda rows: {"a line": float(rows.mean()) / (4 * rounds * lines * warps)},
        slow=sms > 1,
    )  # fmt: skip


_PATTERNS = (("one word", 0, 0), ("one line", 1, 0), ("a line per warp", 1, 32), ("lines per lane", 32, 1024))
BENCHES = (
    Bench(
        "atomic_latency",
        "How long does an atomic addition take whose result the next one needs?",
        "cycles",
        atomic_latency,
        tuple(map(_latency_case, (0, 1000, 3333))),
        opcodes=(),
    ),
    *(
        Bench(
            f"atomic_{name}",
            f"How many cycles of the GPU does a warp's {what} take, by what the lanes and warps share?",
            "cycles",
            _rate_kernel(f"atomic_{name}", add),
            (
                *(_rate_case(key, lane, warp) for key, lane, warp in _PATTERNS),
                *(_rate_case(key, lane, warp, sms=1) for key, lane, warp in _PATTERNS),
            ),
            tolerance=0.15,
            slack=0.2,
        )
        for name, what, add in (
            ("red_int", "red.add.u32", _RED_INT),
            ("red_float", "red.add.f32", _RED_FLOAT),
            ("add_int", "atom.add.u32", _ATOM),
        )
    ),
    *(
        Bench(
            f"atomic_spread_{name}",
            f"How many cycles of an SM does a line of {what} take, by how many words and sectors of it are meant?",
            "cycles",
            _spread_kernel(f"atomic_spread_{name}", add),
            tuple(
                _spread_case(lines, 32 // lines, apart, sms)
                for sms in (1, SMS)
                for lines, apart in ((32, 1), (16, 8), (8, 8), (16, 1), (8, 1), (4, 4), (1, 1))
            ),
            tolerance=0.15,
        )
        for name, what, add in (("red", "red.add.u32", _RED_INT), ("add", "atom.add.u32", _ATOM))
    ),
)
