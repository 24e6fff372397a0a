"""Launches: how blocks reach SMs, how soon a block follows another, and how long an empty kernel takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import after, clock, globaltimer, smid
from validate.microbench.bench import SMS, Bench, Case, rows_case

_COLUMNS = 4


def blocks(cycles: Any, out: Any) -> None:
    """Every block stays for so many cycles. out [block, 4]: clocks of its start and end, SM, and the global timer."""
    start = clock()
    began = globaltimer()
    end = start
    while np.int32(end - start) < cycles:
        end = clock()
    cuda.syncthreads()
    end = clock()
    if cuda.threadIdx.x == 0:
        at = np.int64(_COLUMNS) * cuda.blockIdx.x
        out[at] = start
        out[at + 1] = end
        out[at + 2] = smid()
        out[at + 3] = np.uint32(began)


def _gaps(rows: np.ndarray, resident: int) -> np.ndarray:
    """Cycles from the end of each block to the start of the one that took its place, over all SMs."""
    found = []
    for sm in np.unique(rows[:, 2]):
        mine = rows[rows[:, 2] == sm]
        times = (mine[:, :2] - mine[0, 0] + 2**31) % 2**32
        starts, ends = np.sort(times[:, 0]), np.sort(times[:, 1])
        if len(starts) > resident:
            found.append(starts[resident:] - ends[: len(starts) - resident])
    return np.concatenate(found)


def _refill_case(threads: int, resident: int, cycles: int = 2000) -> Case:
    grid = 3 * resident * SMS
    shared = {1: 120, 2: 100, 8: 27}[resident] * 1024

    def reduce(rows: np.ndarray) -> dict[str, float]:
        gaps = _gaps(rows, resident)
        return {"least": float(np.percentile(gaps, 2)), "median": float(np.median(gaps))}

    key, shape = f"threads={threads} resident={resident}", (grid, _COLUMNS)
    return rows_case(key, grid, threads, shape, lambda: (np.int32(cycles),), reduce, shared_bytes=shared)


def _order_case() -> Case:
    def reduce(rows: np.ndarray) -> dict[str, float]:
        """Distinct SMs among the first 132 blocks, and cycles between two blocks of one SM that start together."""
        second = []
        for sm in np.unique(rows[:, 2]):
            starts = np.sort((rows[rows[:, 2] == sm, 0] - rows[rows[:, 2] == sm, 0][0] + 2**31) % 2**32)
            second.append(starts[1] - starts[0])
        first = len(np.unique(rows[:SMS, 2]))
        return {"SMs of the first 132 blocks": float(first), "from first to second": float(np.median(second))}

    return rows_case("two per SM", 2 * SMS, 64, (2 * SMS, _COLUMNS), lambda: (np.int32(20000),), reduce)


def rate(steps: Any, out: Any) -> None:
    """Blocks that do nothing but note the SM's clock. out [block, 2]: clock, SM."""
    k = np.int32(0)
    while k < steps:
        k = after(k)
    if cuda.threadIdx.x == 0:
        at = 2 * np.int64(cuda.blockIdx.x)
        out[at] = clock()
        out[at + 1] = smid()


def _rate_case(threads: int, grid: int = 64 * SMS) -> Case:
    def reduce(rows: np.ndarray) -> dict[str, float]:
        """Cycles of the GPU for each block, from the times between the blocks of each SM."""
        rates = []
        for sm in np.unique(rows[:, 1]):
            times = rows[rows[:, 1] == sm, 0]
            times = np.sort((times - times[0] + 2**31) % 2**32)
            rates.append(float(times[-1] - times[0]) / (len(times) - 1))
        return {"a block": float(np.mean(rates)) / SMS}

    return rows_case(f"threads={threads}", grid, threads, (grid, 2), lambda: (np.int32(0),), reduce)


def stay(cycles: Any, count: Any, out: Any) -> None:
    """Notes the global timer and the clock at its start and end, in the next row of `out` that is free."""
    start = clock()
    began = globaltimer()
    end = start
    while np.int32(end - start) < cycles:
        end = clock()
    ended = globaltimer()
    end = clock()
    row = 4 * np.int64(count[0])
    out[row] = start
    out[row + 1] = end
    out[row + 2] = np.uint32(began)
    out[row + 3] = np.uint32(ended)
    count[0] += 1


def _gap_case() -> Case:
    return rows_case(
        "one block", 1, 1, (2, 4),
        lambda: (np.int32(100), np.zeros(1, np.int32)),
        lambda rows: {"gap": float((rows[1, 2] - rows[0, 3]) % 2**32)},
    )  # fmt: skip


def _clock_case() -> Case:
    def reduce(rows: np.ndarray) -> dict[str, float]:
        times = np.diff(rows[1].reshape(2, 2), axis=1)[:, 0] % 2**32
        return {"MHz": 1000.0 * float(times[0]) / float(times[1])}

    return rows_case("one millisecond", 1, 1, (2, 4), lambda: (np.int32(2_000_000), np.zeros(1, np.int32)), reduce)


BENCHES = (
    Bench(
        "launch_gap",
        "How long does it take from the end of a short kernel to the start of the next one?",
        "ns",
        stay,
        (_gap_case(),),
        slack=64,
    ),
    Bench("sm_clock", "How fast is the SM's clock?", "MHz", stay, (_clock_case(),), tolerance=0.005),
    Bench(
        "block_refill",
        "How long does it take from the end of a block to the start of the one that takes its place?",
        "cycles",
        blocks,
        tuple(_refill_case(threads, resident) for threads, resident in ((32, 1), (1024, 1), (256, 2), (64, 8))),
        slack=20,
    ),
    Bench(
        "block_order",
        "How are the first blocks of a grid spread, and how far apart do two blocks of one SM start?",
        "cycles; SMs",
        blocks,
        (_order_case(),),
        slack=20,
    ),
    Bench(
        "block_rate",
        "How many cycles of the GPU does a block take that does nothing, when there are many?",
        "cycles",
        rate,
        tuple(map(_rate_case, (32, 256, 512))),
        slack=0.05,
    ),
)
