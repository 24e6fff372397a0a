"""Constant caches: what a first use of a parameter costs, latency by size, and loads whose lanes name several words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import after, clock, clock_when, record, shared_address
from validate.microbench.bench import SMS, Case, bench, per_step, rows_case, waits

_SHAPES = ((1, 1), (SMS, 1), (SMS, 8))


# many parameters: their number is what is measured
def parameters(
    x: Any, out: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any, j: Any, k: Any, m: Any
) -> None:
    """Uses parameters in turn: of the line of constants that the kernel reads first, a neighbour, then other lines."""
    landing = shared_address(cuda.shared.array(32, np.uint32))
    t0 = clock_when(landing, landing)
    t1 = clock_when(landing, np.uint32(a))
    t2 = clock_when(landing, np.uint32(b))
    t3 = clock_when(landing, np.uint32(m))
    t4 = clock_when(landing, np.uint32(c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k))
    at = np.int64(6) * np.int64(cuda.grid(1) >> 5)
    if cuda.threadIdx.x & 31 == 0:
        record(out, at, (t0, t1, t2, t3, t4))


@bench("parameters")
def _parameters() -> Any:
    def case(grid: int, warps: int, before: str) -> Case:
        def make() -> tuple[Any, ...]:
            return np.ones(2, np.float32), np.zeros(6 * grid * warps, np.uint32), *(np.uint64(k) for k in range(12))

        def reduce(args: tuple[Any, ...]) -> dict[str, float]:
            clocks = args[1].reshape(-1, 6).astype(np.int64)[:, :5]
            return per_step(clocks, ("first", "its neighbour", "another line", "all others"))

        key = f"sms={grid} warps={warps} {before}"
        return Case(key, grid, 32 * warps, make, reduce, before=before, slow=before == "evicted")

    orders = ("same", "cold", "evicted", "other")
    return parameters, (case(*shape, before) for before in orders for shape in _SHAPES)


_TABLE = np.arange(16000, dtype=np.uint32)
_STEPS = 64


def constant_chase(mask: Any, lanes: Any, zero: Any, rounds: Any, out: Any) -> None:
    """Words of a constant table one after the other, a line of 64 bytes apart, round a ring of `mask` + 1 words.

    lanes: so many different words are named at once. out: clocks around the last round of 64 loads.
    """
    table = cuda.const.array_like(_TABLE)
    lane = np.int32(cuda.threadIdx.x)
    place = np.int32(lane % lanes) * np.int32(16)
    start = end = np.uint32(0)
    k = np.int32(0)
    while k < rounds:
        start = clock()
        n = np.int32(0)
        while n < _STEPS:
            place = (np.int32(table[place] & zero) + place + np.int32(16)) & mask
            place = (np.int32(table[place] & zero) + place + np.int32(16)) & mask
            place = (np.int32(table[place] & zero) + place + np.int32(16)) & mask
            place = (np.int32(table[place] & zero) + place + np.int32(16)) & mask
            n = after(n + np.int32(3))
        end = clock()
        k = after(k)
    if lane == 0:
        record(out, 0, (start, end))
    if place == -1:
        out[0] = np.uint32(place)


@bench("constant_chase")
def _chase() -> Any:
    def case(kib: int, lanes: int = 1) -> Case:
        words = kib * 256
        rounds = max(2, 2 * words // 16 // _STEPS + 1)
        return rows_case(
            f"KiB={kib} words={lanes}", 1, 32, (1, 2),
            (np.int32(words - 1), np.int32(lanes), np.uint32(0), np.int32(rounds)),
            lambda rows: {"a load": float(waits(rows)[0]) / _STEPS},
        )  # fmt: skip

    return constant_chase, (*map(case, (1, 2, 4, 8, 16, 32)), *(case(1, lanes) for lanes in (2, 4, 8, 16)))


_FIRST = 64


def constant_first(zero: Any, out: Any) -> None:
    """Words of a constant table, 64 bytes apart, each for the first time. out [warp, load, 2]: clocks around each."""
    table = cuda.const.array_like(_TABLE)
    landing = shared_address(cuda.shared.array(32, np.uint32))
    at = np.int64(2 * _FIRST) * np.int64(cuda.grid(1) >> 5)
    place = np.int32(0)
    k = np.int32(0)
    while k < _FIRST:
        start = clock_when(landing, np.uint32(place))
        value = table[place + np.int32(16) * k]
        end = clock_when(landing, value)
        place = np.int32(value & zero)
        if cuda.threadIdx.x & 31 == 0:
            record(out, at + 2 * k, (start, end))
        k = after(k)


@bench("constant_first")
def _first() -> Any:
    def case(grid: int, warps: int, before: str) -> Case:
        def reduce(rows: np.ndarray) -> dict[str, float]:
            """Cycles of the first load, the next three, those left of the first 2 KiB, and the others, each."""
            means = waits(rows).reshape(-1, _FIRST).mean(axis=0)
            parts = {"first": (0, 1), "loads 2-4": (1, 4), "loads 5-32": (4, 32), "loads 33-64": (32, _FIRST)}
            return {name: float(means[a:b].mean()) for name, (a, b) in parts.items()}

        key, shape = f"sms={grid} warps={warps} {before}", (_FIRST * grid * warps, 2)
        return rows_case(key, grid, 32 * warps, shape, (np.uint32(0),), reduce, before=before)

    return constant_first, (case(*shape, before) for before in ("same", "cold", "other") for shape in _SHAPES)


def fill(out: Any) -> None:
    """Reads 62 KiB of constants, a word of each line of 64 bytes; see `bench.evicting`."""
    table = cuda.const.array_like(_TABLE)
    total = np.uint32(0)
    k = np.int32(0)
    while k < _TABLE.size:
        total += table[k]
        k = after(k + np.int32(15))
    out[cuda.grid(1)] = total


@bench("constant_fill")
def _fill() -> Any:
    total = _TABLE[::16].sum(dtype=np.uint32)
    right = rows_case("all", SMS, 32, (32 * SMS, 1), (), lambda rows: {"right sums": float(np.mean(rows == total))})
    return fill, (right,)
