"""L1: hit latency, size, ways and replacement by chases, and rates of loads by the lines that a warp's lanes touch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.microbench.asm import LINES, address, after, clock, inline, ptx, record, record_warp, timed
from validate.microbench.bench import Case, bench, rows_case, span, waits

_LINE = 128
_STEP = 16
"""Loads of a chase between two looks at the loop's counter."""
_CHASE = inline(
    "{ .reg .u64 a; mov.b64 a, $1; " + "ld.global.ca.u64 a, [a]; " * _STEP + "mov.b64 $0, a; }",
    types.uint64,
    (types.uint64,),
)
"""A chain of `_STEP` loads through L1; each loads the next one's address."""


def chase(data: Any, after_each: Any, stride: Any, loads: Any, out: Any) -> None:
    """One lane goes from place to place, `stride` words of 8 bytes apart: `loads` times to warm up, and again between
    the clocks. after_each: number of the place that follows each."""
    k = np.int64(cuda.threadIdx.x)
    while k < after_each.size:
        data[k * stride] = address(data, after_each[k] * stride)
        k += 32
    cuda.threadfence()
    if cuda.threadIdx.x != 0:
        return
    place = address(data, np.int64(0))
    start = np.uint32(0)
    turn = np.int32(0)
    while turn < 2:
        start = clock()
        n = np.int32(0)
        while n < loads:
            place = _CHASE(place)
            n = after(n + np.int32(_STEP - 1))
        turn = after(turn)
    end = clock()
    record(out, 0, (start, end))
    if place == 1:
        data[0] = place


def _chase_case(lines: int, stride: int = _LINE, order: str = "in turn") -> Case:
    loads = -(-max(lines, 64) // _STEP) * _STEP

    places = np.arange(lines) if order == "in turn" else np.random.default_rng(1).permutation(lines)
    following = np.zeros(lines, np.int64)
    following[places] = np.roll(places, -1)
    inputs = np.zeros(lines * stride // 8, np.uint64), following, np.int64(stride // 8), np.int32(loads)
    size = f"KiB={lines * stride // 1024}" if stride == _LINE else f"lines={lines} apart={stride}"
    slow = stride == _LINE and lines * stride >= 240 * 1024  # beyond L1
    return rows_case(
        f"{size} {order}", 1, 32, (1, 2), inputs, lambda rows: {"a load": float(waits(rows)[0]) / loads}, slow=slow
    )


@bench("l1_chase")
def _chase() -> Any:
    return chase, (
        *(_chase_case(kib * 8) for kib in (16, 128, 192, 208, 224, 240, 256, 320)),
        *(_chase_case(kib * 8, order="shuffled") for kib in (16, 192, 224, 240, 256, 320)),
        *(_chase_case(lines, 1024) for lines in (128, 192, 224, 256)),
        *(_chase_case(lines, 4096) for lines in (16, 32, 48, 64, 80)),
        *(_chase_case(lines, 16384) for lines in (4, 8, 16, 32, 64)),
    )


_ROUNDS = 16


@bench("{0}", over=[(name, *row) for name, row in LINES["rates"].items()])
def _rate(name: str, _: str, what: str, strides: Sequence[int]) -> Any:
    line, size = f"ld.global.{what}, [a + @];", 16 if "v4" in what else 4
    loads = " ".join(line.replace("#", f"r{k}").replace("@", str(size * k)) for k in range(4))
    tail = "add.u32 r0, r0, r1; add.u32 r2, r2, r3; add.u32 r0, r0, r2; mov.b32 $0, r0; }"
    if name == "l1_hit":
        loads, tail = line.replace("#", "r0").replace("@", "0"), "mov.b32 $0, r0; }"
    text = "{ .reg .u32 r<4>, x, y, z; .reg .u64 a; mov.b64 a, $1; " + loads + tail
    four = ptx(text, "l")
    turns = timed(lambda value, base: four(base + np.uint64(value)))

    def kernel(data: Any, stride: Any, rounds: Any, out: Any) -> None:
        """Lanes load words `stride` apart, warps 1 KiB apart; data: zeros. out [warp, 2]: clocks."""
        t = np.int64(cuda.threadIdx.x)
        base = address(data, (t & 31) * stride + (t >> 5) * 256)
        value, start, end = turns(np.uint32(0), base, rounds)
        record_warp(out, t, (start, end))
        if value == 1:
            data[0] = value

    def case(stride: int, warps: int) -> Case:
        return rows_case(
            f"stride={stride} warps={warps}", 1, 32 * warps, (warps, 2),
            (np.zeros(1 << 15, np.uint32), np.int32(stride), np.int32(_ROUNDS)),
            lambda rows: {"a round": span(rows[:, 0], rows[:, 1]) / _ROUNDS},
        )  # fmt: skip

    return kernel, (case(stride, warps) for stride in strides for warps in (1, 4, 16))


_WORDS = ptx(
    "{ .reg .b32 r<8>; "
    + " ".join(f"ld.global.ca.b32 r{k}, [$1+{4 * k}];" for k in range(8))
    + " ".join(f"or.b32 r0, r0, r{k};" for k in range(1, 8))
    + " mov.b32 $0, r0; }",
    "l",
)
"""The words of a sector, by eight loads of which the first asks for it."""


def row_words(data: Any, pitch: Any, steps: Any, zero: Any, out: Any) -> None:
    """Each lane reads the sectors of its row in turn, words of them at a time. out [warp, 2]: clocks."""
    place = address(data, np.int64(0)) + np.uint64(cuda.threadIdx.x) * np.uint64(pitch)
    start = clock()
    k = np.int32(0)
    while k < steps:
        place += np.uint64(32) + np.uint64(_WORDS(place) & zero)
        k = after(k)
    record_warp(out, cuda.threadIdx.x, (start, clock() + np.uint32(place) * zero))


@bench("row_words")
def _words() -> Any:
    steps = 16

    def case(lines: int, warps: int) -> Case:
        pitch = 4 * 32 if lines == 32 else 32
        words = np.zeros(pitch * 32 * warps // 4 + 8 * (steps + 1), np.uint32)
        inputs = words, np.int64(pitch), np.int32(steps), np.uint32(0)
        return rows_case(
            f"lines={lines} warps={warps}", 1, 32 * warps, (warps, 2), inputs,
            lambda rows: {"a sector": span(rows[:, 0], rows[:, 1]) / steps},
        )  # fmt: skip

    return row_words, (case(lines, warps) for lines in (8, 32) for warps in (1, 2, 4, 8))
