"""L2: latency by distance, size, reads that several SMs share, and throughput by warps."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import address, after, clock, clock_when, load_l2, record, shared_address, smid
from validate.microbench.bench import ALONE, SMS, Case, bench, blank, rows_case, summary, waits
from validate.microbench.chase import LINE, MIB, STREAM, chain, latency, latency_case, spread, stream_case

_WARPS = (1, 2, 4, 8, 16, 32)
GPC = (*(16 * k + j for k in range(4) for j in (0, 1)), *range(124, 132))
"""SMs that share a GPC with SM 0 on the H200 that was measured: those whose reads L2 sees once."""


@bench("l2_latency")
def _latency() -> Any:
    offsets = spread(512, 16 * MIB)
    return latency, (latency_case(f"sm={sm}", offsets, sm=sm, before="same") for sm in (0, 2, 37, 90, 131))


def far(data: Any, offsets: Any, zero: Any, first: Any, second: Any, flag: Any, out: Any) -> None:
    """Time loads like `latency`, on the SM `second`, of lines that the SM `first` has read just before."""
    landing = shared_address(cuda.shared.array(32, np.uint32))
    sm = smid()
    if cuda.threadIdx.x != 0 or (sm != first and sm != second):
        return
    back = np.uint32(0)
    if sm == first:
        for k in range(offsets.size):
            back |= load_l2(address(data, np.int64(0)) + np.uint64(offsets[k]))
        clock_when(landing, back)
        cuda.threadfence()
        cuda.atomic.add(flag, 0, 1)
        if first != second:
            return
    while cuda.atomic.add(flag, 0, 0) == 0:
        pass
    k = np.int32(0)  # type: ignore[assignment]  # Numba retypes it
    while k < offsets.size:
        place = address(data, np.int64(0)) + np.uint64(offsets[k]) + np.uint64(back & zero)
        start = clock_when(landing, np.uint32(place))
        back = load_l2(place)
        end = clock_when(landing, back)
        record(out, 2 * k, (start, end))
        k = after(k)


@bench("l2_far")
def _far() -> Any:
    offsets = spread(512, 16 * MIB)

    def case(second: int) -> Case:
        numbers = np.uint32(0), np.uint32(0), np.uint32(second)
        return rows_case(
            f"sm=0 then sm={second}", SMS, 32, (offsets.size, 2),
            (blank(16 * MIB + LINE), offsets, *numbers, np.zeros(1, np.int32)),
            lambda rows: summary(waits(rows)),
            shared_bytes=ALONE, before="cold",
        )  # fmt: skip

    return far, map(case, (0, 1, 2, 4, 6, 8, 64, 100, 131))


def capacity(data: Any, offsets: Any, zero: Any, sm: Any, out: Any) -> None:
    """One SM reads all lines of `data`, all its warps together, and then as `latency` at the offsets."""
    landing = shared_address(cuda.shared.array(32, np.uint32))
    if smid() != sm:
        return
    t = np.int64(cuda.threadIdx.x)
    back = np.uint32(0)
    while t < data.size:
        back |= load_l2(address(data, t))
        t += cuda.blockDim.x
    clock_when(landing, back)
    cuda.syncthreads()
    if cuda.threadIdx.x != 0:
        return
    chain(data, offsets, back & zero, zero, landing, out)


@bench("l2_capacity")
def _capacity() -> Any:
    def case(mib: int) -> Case:
        offsets = spread(512, mib * MIB)
        return rows_case(
            f"MiB={mib}", SMS, 1024, (offsets.size, 2),
            (blank(mib * MIB), offsets, np.uint32(0), np.uint32(0)),
            lambda rows: summary(waits(rows)),
            shared_bytes=ALONE, before="cold", slow=mib > 8,
        )  # fmt: skip

    return capacity, map(case, (8, 16, 24, 32, 40, 48, 56, 64, 80))


@bench("l2_load{0}", over=("", "_4"))
def _load(name: str) -> Any:
    case = partial(stream_case, mib=16, before="same")
    if name:
        many = partial(case, loads=4)
        cases = [many(warps, rounds=6) for warps in _WARPS], [many(warps, sms=1, rounds=16) for warps in _WARPS]
        return STREAM[4], (*cases[0], *cases[1])
    return STREAM[1], (*map(case, _WARPS), *(case(32, sms=sms) for sms in (1, 2, 8, 33, 66)))


def random(data: Any, mask: Any, rounds: Any, out: Any) -> None:
    """Threads load words of sectors that a generator chooses, four at a time, twice the same. out [warp]: cycles of the
    second time."""
    took = np.uint32(0)
    total = np.uint32(0)
    turn = np.int32(0)
    while turn < 2:
        x = np.uint32(cuda.grid(1)) * np.uint32(2654435761) + np.uint32(12345)
        start = clock()
        k = np.int32(0)
        while k < rounds:
            for _ in range(4):
                x = x * np.uint32(1664525) + np.uint32(1013904223)
                total += load_l2(address(data, np.int64(((x >> 5) ^ (x >> 17)) & mask) * 8))
            k = after(k)
        took = clock() - start + (total & np.uint32(0))
        turn = after(turn)
    if cuda.threadIdx.x & 31 == 0:
        out[np.int64(cuda.grid(1) >> 5)] = took
    if total == np.uint32(1):
        out[0] = total


@bench("l2_random")
def _random() -> Any:
    def case(sms: int, warps: int, mib: int) -> Case:
        rounds = 8

        def reduce(rows: np.ndarray) -> dict[str, float]:
            """Cycles of an SM for a sector: of all SMs in the mean, of the quicker ones and of most."""
            each = rows.reshape(sms, warps).mean(axis=1) / (rounds * 4 * 32 * warps)
            quick, most = np.percentile(each, (10, 60))
            return {"a sector": float(each.mean()), "of quick SMs": float(quick), "of most SMs": float(most)}

        return rows_case(
            f"sms={sms} warps={warps} MiB={mib}", sms, 32 * warps, (sms * warps, 1),
            (blank(mib * MIB), np.uint32(mib * MIB // 32 - 1), np.int32(rounds)),
            reduce, shared_bytes=ALONE, slow=sms == SMS,
        )  # fmt: skip

    return random, (case(sms, warps, mib) for sms, mib in ((1, 1), (SMS, 1), (SMS, 8)) for warps in (4, 16, 32))


def together(data: Any, lines: Any, chosen: Any, arrived: Any, want: Any, zero: Any, out: Any) -> None:
    """SMs marked in `chosen` wait for each other and then read the same lines, one block on each; out[sm]: cycles."""
    sm = smid()
    t = cuda.threadIdx.x
    if chosen[sm] == 0:
        return
    if t == 0:
        ticket = cuda.atomic.add(arrived, 0, 1)
        everybody = (ticket // want + 1) * want
        while cuda.atomic.add(arrived, 0, 0) < everybody:
            pass
    cuda.syncthreads()
    start = clock()
    total = np.uint32(0)
    base = address(data, np.int64(0)) + np.uint64(4) * np.uint64(t & 31)
    line = np.int64(t >> 5)
    while line < lines:
        total += load_l2(base + np.uint64(line) * np.uint64(LINE))
        line += cuda.blockDim.x >> 5
    if total & zero != 0:
        out[0] = total
    cuda.syncthreads()
    if t == 0:
        out[sm] = clock() - start


@bench("l2_together")
def _together() -> Any:
    def case(key: str, sms: tuple[int, ...], before: str) -> Case:
        chosen, arrived = np.zeros(SMS, np.int32), np.zeros(1, np.int32)
        chosen[list(sms)] = 1
        data = np.zeros(512 * LINE // 4, np.uint32)
        inputs = data, np.int64(512), chosen, arrived, np.int32(len(sms)), np.uint32(0)

        def reduce(rows: np.ndarray) -> dict[str, float]:
            return {"cycles": float(rows[list(sms), 0].mean())}

        return rows_case(f"{key} {before}", SMS, 1024, (SMS, 1), inputs, reduce, shared_bytes=ALONE, before=before)

    orders = ("same", "cold")
    some = (case(f"gpc={n}", GPC[:n], before) for before in orders for n in (1, 4, 16))
    return together, (*some, *(case("all", tuple(range(SMS)), before) for before in orders))


def order(data: Any, pitch: Any, steps: Any, zero: Any, out: Any) -> None:
    """Each lane walks a row, `pitch` bytes behind the one before, by sectors. out [warp, step, 2]: clocks around each
    load of a warp."""
    landing = shared_address(cuda.shared.array(32, np.uint32))
    place = address(data, np.int64(0)) + np.uint64(cuda.grid(1)) * np.uint64(pitch)
    row = np.int64(2) * steps * np.int64(cuda.grid(1) >> 5)
    lane = cuda.threadIdx.x & 31
    k = np.int32(0)
    while k < steps:
        start = clock_when(landing, np.uint32(place))
        value = load_l2(place)
        end = clock_when(landing, value)
        if lane == 0:
            record(out, row + 2 * k, (start, end))
        place += np.uint64(32) + np.uint64(value & zero)
        k = after(k)


@bench("read_order")
def _order() -> Any:
    steps, pitch = 32, 17 * LINE

    def case(blocks: int, warps: int) -> Case:
        def reduce(rows: np.ndarray) -> dict[str, float]:
            """Mean wait of loads that memory answers, and of the next ones, whose sectors it has brought along."""
            times = waits(rows).reshape(-1, steps)[:, 4:]
            return {"from memory": float(times[:, ::2].mean()), "beside": float(times[:, 1::2].mean())}

        return rows_case(
            f"blocks={blocks} warps={warps}", blocks, 32 * warps, (blocks * warps * steps, 2),
            (blank(pitch * 32 * blocks * warps + LINE), np.int64(pitch), np.int32(steps), np.uint32(0)),
            reduce, shared_bytes=ALONE, before="cold",
        )  # fmt: skip

    return order, (case(*each) for each in ((1, 1), (8, 1), (1, 8), (8, 2), (33, 1), (66, 1), (SMS, 1), (SMS, 4)))
