"""Where the host's time goes by part of the simulator, and how far that is from what the values alone take.

    python -m tests.bench.parts

prints a table of docs/performance.md: for five kinds of kernels, nanoseconds of one host thread per warp instruction.
"""

from __future__ import annotations

import time

import numpy as np

import gpusim
from gpusim.engine.state import layout as L
from gpusim.result import Result
from isa import microops as M
from programs import registry

KINDS = {
    "compute, shared memory": ("matmul/tiled", 512),
    "streaming": ("vector_add", 4_000_000),
    "divergent": ("collatz/consecutive", 65_536),
    "irregular loads": ("spmv/csr_vector", 65_536),
    "matrix products": ("matmul_tensor/asynchronous", 512),
}
_REPEATS = 3
_ROWS = 8 * (L.WARP_FIELDS + L.SMSP_FIELDS + L.COUNT_FIELDS) + 4 * M.COLUMNS
"""Bytes of the rows that every instruction reads or writes: of its warp, sub-partition, counters and code."""
_REGISTERS = 4 * 32 * 4  # three sources and a result


def run(name: str, size: int, mode: str) -> Result:
    """The fastest of some runs on one host thread."""
    results = []
    for _ in range(_REPEATS):
        launch = registry.get(name).make(size, 0)
        results.append(
            gpusim.simulate(
                launch.kernel, launch.grid, launch.block, launch.args, "h200", launch.shared_bytes,
                signature=launch.signature, threads=1, mode=mode,
            )
        )  # fmt: skip
    return max(results, key=lambda result: result.rate)


def shares(result: Result) -> dict[str, float]:
    """Of the host's time, by part."""
    return {part: seconds / result.record.host_seconds for part, seconds in result.record.host_parts.items()}


def copied_per_ns() -> float:
    """Bytes that the host copies in a nanosecond where both ends lie in its second cache."""
    source, target = np.zeros(1 << 18, np.uint8), np.zeros(1 << 18, np.uint8)
    best = np.inf
    for _ in range(50):
        started = time.perf_counter()
        for _ in range(10):
            target[:] = source
        best = min(best, time.perf_counter() - started)
    return 10 * source.nbytes / best / 1e9


def main() -> None:
    columns = {kind: (run(*what, "detailed"), run(*what, "functional")) for kind, what in KINDS.items()}
    parts = list(next(iter(columns.values()))[0].record.host_parts)
    print(f"| ns per warp instruction | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for part in parts:
        row = (1e9 * shares(timed)[part] / timed.rate for timed, _ in columns.values())
        print(f"| {part} | {' | '.join(f'{each:.0f}' for each in row)} |")
    print(f"| all | {' | '.join(f'{1e9 / timed.rate:.0f}' for timed, _ in columns.values())} |")
    print(f"| functional | {' | '.join(f'{1e9 / plain.rate:.0f}' for _, plain in columns.values())} |")
    moved = (_ROWS + _REGISTERS) / copied_per_ns()
    print(f"| rows from the host's second cache | {' | '.join(f'{moved:.0f}' for _ in columns)} |")
    print(f"| all / functional | {' | '.join(f'{plain.rate / timed.rate:.1f}' for timed, plain in columns.values())} |")
    for threads in (2, 64):
        row = []
        for timed, _ in columns.values():
            serial = shares(timed)["memory system"] + shares(timed)["between windows"]
            row.append(1 / (serial + (1 - serial) / threads))
        print(f"| at most x on {threads} threads | {' | '.join(f'{each:.2f}' for each in row)} |")


if __name__ == "__main__":
    main()
