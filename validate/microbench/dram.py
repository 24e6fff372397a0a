"""Device memory: latency, latency under load, bandwidth by mix and by SMs, reach of address translation."""

from __future__ import annotations

import numpy as np

from validate.microbench.bench import Bench
from validate.microbench.chase import LINE, MIB, STREAM, latency, latency_case, spread, stream_case

_PAGE = 2 * MIB
"""Device memory is mapped in pages of 2 MiB (what `cudaMalloc` gives on Volta and later)."""


def _pages(pages: int, stride: int, passes: int = 2) -> np.ndarray:
    """A line in each of so many places `stride` apart, another one in every pass."""
    place, turn = np.meshgrid(np.arange(pages, dtype=np.int64), np.arange(passes, dtype=np.int64))
    return (place * stride + (turn * 37 + place * 7) % (_PAGE // LINE) * LINE).ravel()


BENCHES = (
    Bench(
        "memory_latency",
        "How long does one load from memory take?",
        "cycles",
        latency,
        tuple(latency_case(f"sm={sm}", spread(1024, 32 * MIB), sm=sm) for sm in (0, 1, 37, 131)),
    ),
    Bench(
        "page_reach",
        "What do loads cost whose addresses lie 2 MiB or more apart, the first time and again?",
        "cycles",
        latency,
        (
            *(latency_case(f"places={n} apart=2MiB", _pages(n, _PAGE), groups=2) for n in (16, 128, 1024)),
            *(latency_case(f"places={n} apart=32MiB", _pages(n, 32 * MIB), groups=2) for n in (64, 256, 1024, 2048)),
        ),
        slack=20,
    ),
    Bench(
        "memory_load",
        "How do latency and throughput of reads from memory go together, one line at a time, without and with writes?",
        "cycles; bytes per cycle",
        STREAM[1],
        (
            *(stream_case(warps) for warps in (1, 2, 4, 8, 16, 32)),
            *(stream_case(32, sms=sms) for sms in (1, 8, 33, 66)),
            *(stream_case(warps, stores=True) for warps in (1, 4, 8, 16, 32)),
        ),
        tolerance=0.15,
        slack=5,
    ),
    Bench(
        "memory_load_4",
        "How do latency and throughput of reads from memory go together, four lines at a time, and with writes?",
        "cycles; bytes per cycle",
        STREAM[4],
        (
            *(stream_case(warps, loads=4, rounds=6) for warps in (1, 4, 8, 16, 32)),
            *(stream_case(32, sms=sms, loads=4, rounds=6) for sms in (1, 33, 66)),
            *(stream_case(warps, loads=4, rounds=6, stores=True) for warps in (8, 32)),
            *(stream_case(32, loads=4, resident=2, stores=mix) for mix in (False, True)),
        ),
        tolerance=0.15,
        slack=5,
    ),
    Bench(
        "memory_writes",
        "How many bytes per cycle of its clock does the GPU write to memory?",
        "bytes per cycle",
        STREAM[0],
        (
            stream_case(1, loads=0, stores=True),
            stream_case(8, loads=0, stores=True),
            stream_case(32, sms=33, loads=0, stores=True),
            stream_case(32, loads=0, stores=True, resident=2),
        ),
        tolerance=0.15,
        slack=5,
    ),
)
