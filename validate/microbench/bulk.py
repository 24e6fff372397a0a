"""Bulk copies (`cp.async.bulk`): how long one takes by its size, how fast several go, when groups are over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import address, after, clock, ptx, record, shared_address, smid
from validate.microbench.bench import Case, bench, blank, rows_case, spans_by_sm, waits

_SIZES = (16, 128, 512, 2048, 8192, 32768)
_ROUNDS = 6
_MANY = 16
"""Copies of each block in the loop."""
_ROOM_BYTES = (128 << 10) + 128
_LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [a], n, [b];"
_WAIT = "L: mbarrier.try_wait.parity.shared.b64 p, [b], r; @!p bra L;"
_EXPECT = "mbarrier.arrive.expect_tx.shared.b64 t, [b], n;"
_REGISTERS = ".reg .b64 a, t; .reg .b32 s, b, n, r; .reg .pred p;"
_init = ptx("mbarrier.init.shared.b64 [$1], 1; mov.b32 $0, $1;", "r")
_fetch = ptx(
    f"{{ {_REGISTERS} mov.b64 a, $3; mov.b32 s, $4; mov.b32 b, $5; mov.b32 n, $6; mov.b32 r, $7; {_EXPECT}"
    f"mov.u32 $0, %clock; {_LOAD} mov.u32 $1, %clock; {_WAIT} mov.u32 $2, %clock; }}",
    "lrrrr",
    results=3,
)
_start = ptx(
    f"{{ {_REGISTERS} mov.b64 a, $1; mov.b32 s, $2; mov.b32 b, $3; mov.b32 n, $4; {_EXPECT}{_LOAD} mov.b32 $0, s; }}",
    "lrrr",
)
_wait = ptx(f"{{ {_REGISTERS} mov.b32 b, $1; mov.b32 r, $2; {_WAIT} mov.b32 $0, r; }}", "rr")
_put = ptx(
    "{ fence.proxy.async; mov.u32 $0, %clock; cp.async.bulk.global.shared::cta.bulk_group [$4], [$5], $6;"
    "cp.async.bulk.commit_group; mov.u32 $1, %clock; cp.async.bulk.wait_group.read 0; mov.u32 $2, %clock;"
    "cp.async.bulk.wait_group 0; mov.u32 $3, %clock; }",
    "lrr",
    results=4,
)


@cuda.jit(device=True)
def _aligned(room: Any) -> Any:
    """Return where a line of the banks begins: what lies across two of them arrives at half the rate."""
    return (shared_address(room) + np.uint32(127)) & np.uint32(0xFFFFFF80)


def _one(size: int, before: str, reduce: Callable[[np.ndarray], dict[str, float]]) -> Case:
    key = f"bytes={size} before={before}"

    inputs = np.zeros(size // 4, np.uint32), np.uint32(size), np.int32(_ROUNDS)
    return rows_case(key, 1, 1, (_ROUNDS, 4), inputs, reduce, shared_bytes=_ROOM_BYTES, before=before)


def bulk_latency(data: Any, size: Any, rounds: Any, out: Any) -> None:
    """One thread copies the same again and again. out [round, 4]: clocks."""
    room = cuda.shared.array(0, np.uint32)
    barrier = cuda.shared.array(2, np.uint64)
    place = _init(shared_address(barrier))
    k = np.int32(0)
    while k < rounds:
        clocks = _fetch(address(data, np.int64(0)), _aligned(room), place, size, np.uint32(k & 1))
        record(out, 4 * k, clocks)
        k = after(k)


@bench("bulk_latency")
def _latency() -> Any:
    def reduce(rows: np.ndarray) -> dict[str, float]:
        issue, ends = float(np.median(waits(rows))), waits(rows, 2)
        return {"issue": issue, "first": float(ends[0]), "again": float(np.median(ends[1:]))}

    return bulk_latency, (_one(size, before, reduce) for size in _SIZES for before in ("same", "cold"))


def bulk_store(data: Any, size: Any, rounds: Any, out: Any) -> None:
    """One thread copies out of shared memory again and again. out [round, 4]: clocks."""
    room = cuda.shared.array(0, np.uint32)
    k = np.int32(0)
    while k < rounds:
        clocks = _put(address(data, np.int64(0)), _aligned(room), size)
        record(out, 4 * k, clocks)
        k = after(k)


@bench("bulk_store")
def _store() -> Any:
    def reduce(rows: np.ndarray) -> dict[str, float]:
        return {name: float(np.median(waits(rows[1:], k + 1))) for k, name in enumerate(("issue", "read", "written"))}

    return bulk_store, (_one(size, "same", reduce) for size in _SIZES)


def bulk_rate(data: Any, size: Any, at_once: Any, copies: Any, out: Any) -> None:
    """One thread of each block makes many copies, `at_once` of them on their way. out [block, 3]: clocks, SM."""
    room = cuda.shared.array(0, np.uint32)
    barrier = cuda.shared.array(32, np.uint64)
    place, to = shared_address(barrier), _aligned(room)
    block = np.int64(cuda.blockIdx.x)
    k = np.int32(0)
    while k < at_once:
        _init(place + np.uint32(8 * k))
        k = after(k)
    start = clock()
    k = np.int32(0)
    slot = np.int32(0)
    phase = np.uint32(1)
    while k < copies + at_once:
        if k >= at_once:
            _wait(place + np.uint32(8 * slot), phase)
        if k < copies:
            source = address(data, (block * copies + k) * np.int64(size // np.uint32(4)))
            _start(source, to + np.uint32(slot) * size, place + np.uint32(8 * slot), size)
        slot = after(slot)
        if slot == at_once:
            slot = np.int32(0)
            phase = phase ^ np.uint32(1)
        k = after(k)
    out[3 * block] = start
    out[3 * block + 1] = clock()
    out[3 * block + 2] = smid()


@bench("bulk_rate")
def _rate() -> Any:
    def case(size: int, at_once: int, blocks: int) -> Case:
        def reduce(rows: np.ndarray) -> dict[str, float]:
            return {"bytes_per_cycle": float(size * _MANY / np.mean(spans_by_sm(rows)))}

        inputs = blank(blocks * size * _MANY), np.uint32(size), np.int32(at_once), np.int32(_MANY)
        key = f"bytes={size} at_once={at_once} blocks={blocks}"
        return rows_case(key, blocks, 1, (blocks, 3), inputs, reduce, shared_bytes=_ROOM_BYTES, slow=blocks > 1)

    return bulk_rate, (
        case(size, at_once, blocks)
        for size in (512, 2048, 8192, 16384)
        for at_once in (1, 2, 4, 8)
        for blocks in ((1, 132) if at_once in (1, 4) and size in (2048, 16384) else (1,))
    )
