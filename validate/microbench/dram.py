"""Device memory: latency, latency under load, bandwidth by mix and by SMs, reach of address translation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import address, after, clock_when, load_l2, shared_address
from validate.microbench.bench import ALONE, Case, bench, blank, rows_case, waits
from validate.microbench.chase import LINE, MIB, STREAM, latency, latency_case, spread, stream_case

_TOGETHER = 8
_MEETINGS = 512


def meeting(data: Any, offsets: Any, zero: Any, out: Any) -> None:
    """The warps of a block load a line each at the same time, again and again. out [round, warp, 2]: clocks."""
    landing = shared_address(cuda.shared.array(32, np.uint32))
    warp = np.int32(cuda.threadIdx.x >> 5)
    warps = np.int32(cuda.blockDim.x >> 5)
    k = warp
    while k < offsets.size:
        place = address(data, np.int64(0)) + np.uint64(offsets[k])
        cuda.syncthreads()
        start = clock_when(landing, np.uint32(place))
        value = load_l2(place)
        end = clock_when(landing, value)
        out[2 * k] = start
        out[2 * k + 1] = end + (value & zero)
        k = after(k) - np.int32(1) + warps


_APART = {"128B": LINE, "256B": 2 * LINE, "1KiB": 8 * LINE, "4KiB": 4096, "64KiB": 65536, "17MiB": 17 * MIB}


@bench("memory_together")
def _together() -> Any:
    def case(label: str) -> Case:
        first = spread(_MEETINGS, 32 * MIB) // (8 * LINE) * (8 * LINE)
        offsets = (first[:, None] + _APART[label] * np.arange(_TOGETHER)[None, :]).ravel()
        size = int(offsets.max()) + LINE

        def reduce(rows: np.ndarray) -> dict[str, float]:
            """Mean wait of all loads, and in the mean of all rounds the first and the last one's."""
            times = waits(rows).reshape(_MEETINGS, _TOGETHER)
            mean = {"each": float(times.mean()), "first": float(times.min(axis=1).mean())}
            return mean | {"last": float(times.max(axis=1).mean())}

        inputs = blank(size), offsets.astype(np.int64), np.uint32(0)
        key, shape = f"apart={label}", (offsets.size, 2)
        return rows_case(key, 1, 32 * _TOGETHER, shape, inputs, reduce, shared_bytes=ALONE, before="cold")

    return meeting, map(case, _APART)


@bench("memory_latency")
def _latency() -> Any:
    return latency, (latency_case(f"sm={sm}", spread(1024, 32 * MIB), sm=sm) for sm in (0, 1, 37, 131))


_PAGE = 2 * MIB
"""Device memory is mapped in pages of 2 MiB (what `cudaMalloc` gives on Volta and later)."""


def _pages(pages: int, stride: int, passes: int = 2) -> np.ndarray:
    """A line in each of so many places `stride` apart, another one in every pass."""
    place, turn = np.meshgrid(np.arange(pages, dtype=np.int64), np.arange(passes, dtype=np.int64))
    return (place * stride + (turn * 37 + place * 7) % (_PAGE // LINE) * LINE).ravel()


@bench("page_reach")
def _reach() -> Any:
    near, wide = ((_PAGE, (16, 128, 1024)), (32 * MIB, (64, 256, 1024, 2048)))
    return latency, (
        latency_case(f"places={n} apart={apart // MIB}MiB", _pages(n, apart), groups=2)
        for apart, places in (near, wide)
        for n in places
    )


@bench("memory_load")
def _load() -> Any:
    return STREAM[1], (
        *(stream_case(warps) for warps in (1, 2, 4, 8, 16, 32)),
        *(stream_case(32, sms=sms) for sms in (1, 8, 33, 66)),
        *(stream_case(warps, stores=True) for warps in (1, 4, 8, 16, 32)),
    )


@bench("memory_load_4")
def _load_4() -> Any:
    return STREAM[4], (
        *(stream_case(warps, loads=4, rounds=6) for warps in (1, 4, 8, 16, 32)),
        *(stream_case(32, sms=sms, loads=4, rounds=6) for sms in (1, 33, 66)),
        *(stream_case(warps, loads=4, rounds=6, stores=True) for warps in (8, 32)),
        *(stream_case(32, loads=4, resident=2, stores=mix) for mix in (False, True)),
    )


@bench("memory_writes")
def _writes() -> Any:
    case = partial(stream_case, loads=0, stores=True)
    return STREAM[0], (case(1), case(8), case(32, sms=33), case(32, resident=2))
