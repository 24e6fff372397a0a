"""The block dispatcher: when the room of warps that have ended goes to another block, and where a block's warps go."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.microbench.asm import after, clock, inline, shared_address, smid
from validate.microbench.bench import SMS, Bench, Case, rows_case

_COLUMNS = 4
_SLOTS = 64
"""Warps of an SM."""
_warpid = inline("mov.u32 $0, %warpid;", types.uint32)
_wait = inline(
    "{ .reg .u32 s; mov.b32 s, $1; " + "ld.volatile.shared.u32 s, [s]; " * 32 + "mov.b32 $0, s; }",
    types.uint32,
    (types.uint32,),
)


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
        out[at] = start
        out[at + 1] = end + (place & np.uint32(1))
        out[at + 2] = smid()
        out[at + 3] = _warpid()


def _of_sm(rows: np.ndarray, warps: int, sm: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(Starts, ends, places [block, warp]) of the blocks of an SM in order of their starts, from the first start on."""
    mine = rows.reshape(-1, warps, _COLUMNS)
    mine = mine[mine[:, 0, 2] == sm]
    times = (mine[..., :2] - mine[0, 0, 0] + 2**31) % 2**32
    times -= times[..., 0].min()
    order = np.argsort(times[..., 0].min(axis=1), kind="stable")
    return times[order, :, 0], times[order, :, 1], mine[order, :, 3]


def _case(threads: int, mask: int, reduce: Any, rounds: tuple[int, int, int], grid: int) -> Case:
    warps = threads // 32
    return rows_case(
        f"threads={threads} mask={mask:#x}", grid, threads, (grid * warps, _COLUMNS),
        lambda: tuple(np.int32(value) for value in (mask, *rounds)),
        lambda rows: reduce(rows, warps),
    )  # fmt: skip


def _release(rows: np.ndarray, warps: int) -> dict[str, float]:
    """Blocks of an SM that start within 500 cycles of the first that follows others, and cycles from an end to that."""
    count, gaps = [], []
    resident = _SLOTS // warps
    for sm in range(0, SMS, 2):
        found = [_of_sm(rows, warps, each) for each in (sm, sm + 1)]
        firsts = [np.sort(starts.min(axis=1))[resident:] for starts, _, _ in found]
        count += [np.count_nonzero(each < each[0] + 500) for each in firsts]
        gaps += [each[0] - ends.max(axis=1).min() for each, (_, ends, _) in zip(firsts, found, strict=True)]
    return {"blocks at once": float(np.median(count)), "after an end": float(np.median(gaps))}


def _turns(rows: np.ndarray, warps: int) -> dict[str, float]:
    """Sub-partitions from one block's first warp to the next one's, of each SM's first blocks."""
    steps = []
    for sm in range(SMS):
        places = _of_sm(rows, warps, sm)[2][: _SLOTS // warps]
        steps += list(np.diff(places[:, 0]) % 4)
    return {"from block to block": float(np.median(steps))}


BENCHES = (
    Bench(
        "block_release",
        "Seven of eight warps of each block end at once: how many blocks follow when the first block is done?",
        "blocks; cycles",
        lives,
        (_case(256, 0x80, _release, (1, 10, 4), 16 * SMS),),
        slack=20,
    ),
    Bench(
        "block_turns",
        "In which sub-partition does the first warp of a block begin?",
        "sub-partitions",
        lives,
        tuple(_case(threads, 0, _turns, (4, 0, 0), _SLOTS * 32 // threads * SMS) for threads in (64, 96, 224, 256)),
        slack=0.1,
    ),
)
