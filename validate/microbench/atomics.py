"""Atomics on device memory: latency, and rates by how many addresses, lines and SMs take part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import address, after, clock, ptx, record, smid
from validate.microbench.bench import SMS, Case, bench, each, rows_case, spans_by_sm

_LOADS = 8
_CHAIN = ptx(
    "{ .reg .u64 a; .reg .u32 v; mov.b64 a, $1; mov.b32 v, $2; "
    + "atom.global.add.u32 v, [a], v; " * _LOADS
    + "mov.b32 $0, v; }",
    "lr",
)
_RED = ptx("red.global.add.u32 [$1], $2; mov.b32 $0, $2;", "lr")
_RED_FLOAT = ptx("{ .reg .f32 f; mov.b32 f, $2; red.global.add.f32 [$1], f; mov.b32 $0, $2; }", "lr")
_ATOM = ptx("atom.global.add.u32 $0, [$1], $2;", "lr")


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
    record(out, 0, (start, end))


@bench("atomic_latency")
def _latency() -> Any:
    def case(offset: int) -> Case:
        return rows_case(
            f"word={offset}", 1, 32, (1, 2),
            (np.zeros(4096, np.uint32), np.int32(offset), np.int32(3), np.uint32(0)),
            lambda rows: each(rows, _LOADS),
        )  # fmt: skip

    return atomic_latency, map(case, (0, 1000, 3333))


@bench("atomic_{0}", over=(("red_int", _RED), ("red_float", _RED_FLOAT), ("add_int", _ATOM)))
def _rate(_: str, add: Callable[..., Any]) -> Any:
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
            record(out, 3 * warp, (start, end))
            out[3 * warp + 2] = smid()
        if value == np.uint32(0xFFFFFFF0):
            data[0] = value

    def case(sms: int, key: str, lane_step: int, warp_step: int) -> Case:
        steps, rounds, warps = (np.int64(lane_step), np.int64(warp_step)), 8, 8
        return rows_case(
            f"{key} sms={sms} warps={warps}", sms, 32 * warps, (sms * warps, 3),
            (np.zeros(1 << 18, np.uint32), *steps, np.int32(rounds), np.uint32(1)),
            lambda rows: {"cycles per warp instruction": max(spans_by_sm(rows)) / (rounds * sms * warps)},
            slow=sms > 1 and lane_step > 1,
        )  # fmt: skip

    patterns = (("one word", 0, 0), ("one line", 1, 0), ("a line per warp", 1, 32), ("lines per lane", 32, 1024))
    return kernel, (case(sms, *each) for sms in (SMS, 1) for each in patterns)


_LINES = 1 << 16


@bench("atomic_spread_{0}", over=(("red", _RED), ("add", _ATOM)))
def _spread(_: str, add: Callable[..., Any]) -> Any:
    def kernel(data: Any, group: Any, step: Any, rounds: Any, one: Any, out: Any) -> None:
        """Of each warp, `group` neighbouring lanes add to words `step` apart of one line that a generator chooses, four
        times a round; all rounds run twice. out [warp]: cycles of the second run."""
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

    def case(sms: int, lines: int, apart: int) -> Case:
        sharing, warps, rounds = (np.int64(32 // lines), np.int64(apart)), 16, 8
        key = f"lines={lines} words={32 // lines} apart={apart} sms={sms} warps={warps}"
        return rows_case(
            key, sms, 32 * warps, (sms * warps, 1),
            (np.zeros(_LINES * 32, np.uint32), *sharing, np.int32(rounds), np.uint32(1)),
            lambda rows: {"a line": float(rows.mean()) / (4 * rounds * lines * warps)},
            slow=sms > 1,
        )  # fmt: skip

    shapes = ((32, 1), (16, 8), (8, 8), (16, 1), (8, 1), (4, 4), (1, 1))
    return kernel, (case(sms, *shape) for sms in (1, SMS) for shape in shapes)
