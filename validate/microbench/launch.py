"""Launches and the block dispatcher: how blocks reach SMs, how soon a block follows another, where its warps go, how
long an empty kernel takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import after, clock, globaltimer, ptx, record, shared_address, smid
from validate.microbench.bench import SMS, Case, bench, by_sm, rows_case

_COLUMNS = 4


def _since(clocks: np.ndarray) -> np.ndarray:
    """Cycles of clocks of 32 bits from the first of them on, that may have wrapped."""
    return (clocks - clocks.flat[0] + 2**31) % 2**32  # type: ignore[no-any-return]


def stay(cycles: Any, count: Any, out: Any) -> None:
    """Notes the global timer and the clock at its start and end, in the next row of `out` that is free."""
    start = clock()
    began = globaltimer()
    end = start
    while np.int32(end - start) < cycles:
        end = clock()
    ended = globaltimer()
    end = clock()
    record(out, 4 * np.int64(count[0]), (start, end, np.uint32(began), np.uint32(ended)))
    count[0] += 1


@bench("launch_gap")
def _gap() -> Any:
    case = rows_case(
        "one block", 1, 1, (2, 4),
        (np.int32(100), np.zeros(1, np.int32)),
        lambda rows: {"gap": float((rows[1, 2] - rows[0, 3]) % 2**32)},
    )  # fmt: skip
    return stay, (case,)


@bench("sm_clock")
def _clock() -> Any:
    def reduce(rows: np.ndarray) -> dict[str, float]:
        times = np.diff(rows[1].reshape(2, 2), axis=1)[:, 0] % 2**32
        return {"MHz": 1000.0 * float(times[0]) / float(times[1])}

    return stay, (rows_case("one millisecond", 1, 1, (2, 4), (np.int32(2_000_000), np.zeros(1, np.int32)), reduce),)


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
        record(out, np.int64(_COLUMNS) * cuda.blockIdx.x, (start, end, smid(), np.uint32(began)))


@bench("block_refill")
def _refill() -> Any:
    def case(threads: int, resident: int) -> Case:
        grid, shared = 3 * resident * SMS, {1: 120, 2: 100, 8: 27}[resident] * 1024

        def reduce(rows: np.ndarray) -> dict[str, float]:
            found = []
            for mine in by_sm(rows):
                times = _since(mine[:, :2])
                starts, ends = np.sort(times[:, 0]), np.sort(times[:, 1])
                if len(starts) > resident:
                    found.append(starts[resident:] - ends[: len(starts) - resident])
            gaps = np.concatenate(found)
            return {"least": float(np.percentile(gaps, 2)), "median": float(np.median(gaps))}

        key, shape = f"threads={threads} resident={resident}", (grid, _COLUMNS)
        return rows_case(key, grid, threads, shape, (np.int32(2000),), reduce, shared_bytes=shared)

    return blocks, (case(*each) for each in ((32, 1), (1024, 1), (256, 2), (64, 8)))


@bench("block_order")
def _order() -> Any:
    def reduce(rows: np.ndarray) -> dict[str, float]:
        """Distinct SMs among the first 132 blocks, and cycles between two blocks of one SM that start together."""
        starts = [np.sort(_since(mine[:, 0])) for mine in by_sm(rows)]
        apart = float(np.median([each[1] - each[0] for each in starts]))
        return {"SMs of the first 132 blocks": float(len(np.unique(rows[:SMS, 2]))), "from first to second": apart}

    return blocks, (rows_case("two per SM", 2 * SMS, 64, (2 * SMS, _COLUMNS), (np.int32(20000),), reduce),)


def rate(steps: Any, out: Any) -> None:
    """Blocks that do nothing but note the SM's clock. out [block, 2]: clock, SM."""
    k = np.int32(0)
    while k < steps:
        k = after(k)
    if cuda.threadIdx.x == 0:
        record(out, 2 * np.int64(cuda.blockIdx.x), (clock(), smid()))


@bench("block_rate")
def _rate() -> Any:
    def reduce(rows: np.ndarray) -> dict[str, float]:
        """Cycles of the GPU for each block, from the times between the blocks of each SM."""
        times = [np.sort(_since(mine[:, 0])) for mine in by_sm(rows, 1)]
        rates = [float(each[-1] - each[0]) / (len(each) - 1) for each in times]
        return {"a block": float(np.mean(rates)) / SMS}

    def case(threads: int) -> Case:
        grid = 64 * SMS
        return rows_case(f"threads={threads}", grid, threads, (grid, 2), (np.int32(0),), reduce)

    return rate, map(case, (32, 256, 512))


# --- dispatch ---------------------------------------------------------------------------------------------------------

_SLOTS = 64
"""Warps of an SM."""
_warpid = ptx("mov.u32 $0, %warpid;")
_wait = ptx("{ .reg .u32 s; mov.b32 s, $1; " + "ld.volatile.shared.u32 s, [s]; " * 32 + "mov.b32 $0, s; }", "r")


def lives(mask: Any, short: Any, longer: Any, more: Any, out: Any) -> None:
    """Warps of `mask` wait for `longer` rounds of 32 shared-memory loads, `more` with each wave, the others `short`.

    out [warp, 4]: clocks of its start and end, SM, its place in the SM.
    """
    start = clock()
    tile = cuda.shared.array(32, np.uint32)
    place = shared_address(tile) + np.uint32(4) * np.uint32(cuda.threadIdx.x & 31)
    tile[cuda.threadIdx.x & 31] = place
    warp = np.int32(cuda.threadIdx.x >> 5)
    rounds = short
    if mask >> warp & np.int32(1) != 0:
        rounds = longer + more * (np.int32(cuda.blockIdx.x) // np.int32(SMS))
    k = np.int32(0)
    while k < rounds:
        place = _wait(place)
        k = after(k)
    end = clock()
    if cuda.threadIdx.x & 31 == 0:
        at = np.int64(_COLUMNS) * np.int64(cuda.grid(1) >> 5)
        record(out, at, (start, end + (place & np.uint32(1)), smid(), _warpid()))


def _of_sm(rows: np.ndarray, warps: int, sm: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(Starts, ends, places [block, warp]) of the blocks of an SM in order of their starts, from the first start on."""
    mine = rows.reshape(-1, warps, _COLUMNS)
    mine = mine[mine[:, 0, 2] == sm]
    times = (mine[..., :2] - mine[0, 0, 0] + 2**31) % 2**32
    times -= times[..., 0].min()
    order = np.argsort(times[..., 0].min(axis=1), kind="stable")
    return times[order, :, 0], times[order, :, 1], mine[order, :, 3]


def _lives_case(
    threads: int, mask: int, reduce: Callable[..., dict[str, float]], rounds: tuple[int, int, int], grid: int
) -> Case:
    warps = threads // 32
    return rows_case(
        f"threads={threads} mask={mask:#x}", grid, threads, (grid * warps, _COLUMNS),
        tuple(np.int32(value) for value in (mask, *rounds)),
        lambda rows: reduce(rows, warps),
    )  # fmt: skip


@bench("block_release")
def _release() -> Any:
    def reduce(rows: np.ndarray, warps: int) -> dict[str, float]:
        """Blocks of an SM that start within 500 cycles of the first that follows others, and cycles from an end to
        that."""
        count, gaps = [], []
        for sm in range(SMS):
            starts, ends, _ = _of_sm(rows, warps, sm)
            firsts = np.sort(starts.min(axis=1))[_SLOTS // warps :]
            count.append(np.count_nonzero(firsts < firsts[0] + 500))
            gaps.append(firsts[0] - ends.max(axis=1).min())
        return {"blocks at once": float(np.median(count)), "after an end": float(np.median(gaps))}

    return lives, (_lives_case(256, 0x80, reduce, (1, 10, 4), 16 * SMS),)


@bench("block_turns")
def _turns() -> Any:
    def reduce(rows: np.ndarray, warps: int) -> dict[str, float]:
        """Sub-partitions from one block's first warp to the next one's, of each SM's first blocks."""
        places = [_of_sm(rows, warps, sm)[2][: _SLOTS // warps, 0] for sm in range(SMS)]
        return {"from block to block": float(np.median(np.concatenate([np.diff(each) % 4 for each in places])))}

    grids = ((threads, _SLOTS * 32 // threads * SMS) for threads in (64, 96, 224, 256))
    return lives, (_lives_case(threads, 0, reduce, (4, 0, 0), grid) for threads, grid in grids)
