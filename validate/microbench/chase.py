"""Kernels and cases that several benchmarks of the memory system share: loads one after the other, each timed, and many
warps that load at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import address, after, clock, clock_when, load_l2, record, shared_address, smid, store
from validate.microbench.bench import ALONE, SMS, Case, blank, rows_case, spans_by_sm, summary, waits

LINE = 128
LINE_WORDS = LINE // 4
MIB = 1 << 20
_ODD = 40503
"""Multiplying by it, modulo a power of two, is a permutation: warps meet slices and channels evenly."""


@cuda.jit(device=True, inline="always")
def chain(data: Any, offsets: Any, back: Any, zero: Any, landing: Any, out: Any) -> None:
    """Loads words at byte offsets, each after the one before. out [load, 2]: clocks around each."""
    k = np.int32(0)
    while k < offsets.size:
        place = address(data, np.int64(0)) + np.uint64(offsets[k]) + np.uint64(back)
        start = clock_when(landing, np.uint32(place))
        value = load_l2(place)
        end = clock_when(landing, value)
        back = value & zero
        record(out, 2 * k, (start, end))
        k = after(k)


def latency(data: Any, offsets: Any, zero: Any, sm: Any, out: Any) -> None:
    """One lane of one SM makes a `chain`."""
    landing = shared_address(cuda.shared.array(32, np.uint32))
    if smid() != sm or cuda.threadIdx.x != 0:
        return
    chain(data, offsets, np.uint32(0), zero, landing, out)


def latency_case(key: str, offsets: np.ndarray, *, sm: int = 0, before: str = "cold", groups: int = 1) -> Case:
    """Loads at these offsets by one SM. groups: equal parts of the loads, whose numbers are told apart."""
    size = int(offsets.max()) + LINE

    inputs = blank(size), offsets.astype(np.int64), np.uint32(0), np.uint32(sm)

    def reduce(rows: np.ndarray) -> dict[str, float]:
        found: dict[str, float] = {}
        for index, part in enumerate(waits(rows).reshape(groups, -1)):
            found |= summary(part, f"pass {index + 1}, " if groups > 1 else "")
        return found

    return rows_case(key, SMS, 32, (offsets.size, 2), inputs, reduce, shared_bytes=ALONE, before=before)


def spread(count: int, size: int, seed: int = 1) -> np.ndarray:
    """Offsets of `count` different lines all over `size` bytes."""
    return LINE * np.random.default_rng(seed).permutation(size // LINE)[:count].astype(np.int64)


def _stream_kernel(loads: int) -> Callable[..., None]:
    """Every warp reads `loads` (0, 1 or 4) lines at once and may store to them, or to four lines that it has not read,
    again and again, no line twice."""

    lines = loads or 4

    def stream(data: Any, rounds: Any, stores: Any, zero: Any, out: Any) -> None:
        """stores: 1 to write all lines of a round, else 0. out [warp, 3 + 2 * rounds]: clocks of start and end, the
        SM's number, and the clocks around each round's loads."""
        landing = shared_address(cuda.shared.array(32, np.uint32))
        t = cuda.threadIdx.x
        warp = np.uint32(cuda.grid(1) >> 5)
        warps = np.uint32(cuda.gridsize(1) >> 5)
        lane = np.uint32(t & 31)
        mask = np.uint32(data.size // LINE_WORDS) - np.uint32(1)
        base = address(data, np.int64(0)) + np.uint64(4) * np.uint64(lane)
        at = np.int64(warp) * np.int64(3 + 2 * rounds)
        back = np.uint32(0)
        first = clock()
        r = np.int32(0)
        while r < rounds:
            k = (np.uint32(r) * warps + warp) * np.uint32(lines) + back
            a = base + np.uint64((k * np.uint32(_ODD)) & mask) * np.uint64(LINE)
            b = base + np.uint64(((k + np.uint32(1)) * np.uint32(_ODD)) & mask) * np.uint64(LINE)
            c = base + np.uint64(((k + np.uint32(2)) * np.uint32(_ODD)) & mask) * np.uint64(LINE)
            d = base + np.uint64(((k + np.uint32(3)) * np.uint32(_ODD)) & mask) * np.uint64(LINE)
            start = clock()
            end = start
            if loads > 0:
                total = load_l2(a)
                if loads == 4:
                    total += load_l2(b) + load_l2(c) + load_l2(d)
                end = clock_when(landing, total)
                back = total & zero
            if stores > 0:
                store(a, start)
                if lines == 4:
                    store(b, start)
                    store(c, start)
                    store(d, start)
            if lane == 0:
                out[at + 3 + 2 * r] = start
                out[at + 4 + 2 * r] = end
            r = after(r)
        last = clock()
        if lane == 0:
            out[at] = first
            out[at + 1] = last
            out[at + 2] = smid()

    stream.__name__ = stream.__qualname__ = f"stream_{loads}"
    return stream


STREAM = {loads: _stream_kernel(loads) for loads in (0, 1, 4)}


def stream_case(
    warps: int, *, sms: int = SMS, mib: int = 128, rounds: int = 8, loads: int = 1, stores: bool = False,
    resident: int = 1, before: str = "cold",
) -> Case:  # fmt: skip
    """A case of `resident` (1 or 2) blocks of `warps` warps on each SM; each warp reads or writes its own lines."""
    blocks = sms * resident
    lines = max(loads, 4 * (not loads), loads * (1 + stores))

    inputs = blank(mib * MIB), np.int32(rounds), np.int32(stores), np.uint32(0)

    def reduce(rows: np.ndarray) -> dict[str, float]:
        moved = rows.shape[0] * rounds * lines * LINE
        times = (rows[:, 4::2] - rows[:, 3::2]) % 2**32
        return (summary(times) if loads else {}) | {"bytes per cycle": moved / float(np.median(spans_by_sm(rows)))}

    mix = "" if not stores else " and writes" if loads else " writes"
    key = f"sms={sms} warps={warps * resident}{mix} {before}"
    shared = ALONE if resident == 1 else ALONE - 20 * 1024
    slow = blocks * warps * rounds * lines > 20_000
    shape = blocks * warps, 3 + 2 * rounds
    return rows_case(key, blocks, 32 * warps, shape, inputs, reduce, shared_bytes=shared, before=before, slow=slow)
