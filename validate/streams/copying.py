"""Copies by the copy engines, alone and beside kernels, timed by events."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from validate.streams.lab import Lab, Plan

MB = 1 << 20
SIZES = (4, *(4 << 10 << k for k in range(0, 17, 2)))
GRID, THREADS = 1056, 256


class CopyBench:
    """Memory for the copies, and plans that set marks: events by name."""

    def __init__(self, lab: Lab, nbytes: int = 256 * MB) -> None:
        self.lab = lab
        self.host = [lab.gpu.pinned(nbytes) for _ in range(2)]
        self.device = [lab.gpu.alloc(nbytes) for _ in range(4)]
        self.marks: list[tuple[str, Any]] = []

    def mark(self, name: str, stream: Any) -> None:
        """An event of this name."""
        self.marks.append((name, self.lab.gpu.record(self.lab.gpu.event(), stream)))

    def copy(self, kind: str, stream: Any, nbytes: int, offset: int = 0) -> None:
        """HtoD and DtoH between pinned memory and arrays of their own; DtoD and memset within the GPU."""
        to, of = {
            "HtoD": (self.device[0], self.host[0]), "DtoH": (self.host[1], self.device[1]),
            "DtoD": (self.device[2], self.device[3]), "memset": (self.device[2], 0),
        }[kind]  # fmt: skip
        self.lab.gpu.copy(kind, to + offset, of and of + offset, nbytes, stream)

    def kernel(self, stream: Any, nbytes: int, iterations: int, offset: int = 0, label: str = "kernel") -> None:
        """saxpy_chunk from what HtoD brings to what DtoH takes."""
        count = nbytes // 4
        words = np.uint64(self.device[1] + offset), np.uint64(self.device[0] + offset), np.int32(count)
        grid = min(GRID, -(-count // THREADS))
        self.lab.launch(label, stream, "saxpy_chunk", grid, THREADS, 0, *words, np.int32(iterations))

    def one(self, kind: str, nbytes: int) -> None:
        """A copy between two marks."""
        self.mark("start", self.lab.stream(0))
        self.copy(kind, self.lab.stream(0), nbytes)
        self.mark("end", self.lab.stream(0))

    def loop(self, nbytes: int, iterations: int, chunks: int, streams: int, order: str) -> None:
        """The textbook's loop over several streams: copy a chunk in, compute, copy it out. Breadth first: of all
        streams one step, then of all the next; each round of chunks by itself."""
        size, lab = nbytes // chunks, self.lab
        steps: list[Callable[[int], None]] = [
            lambda k: self.copy("HtoD", lab.stream(k % streams), size, k * size),
            lambda k: self.kernel(lab.stream(k % streams), size, iterations, k * size, f"{k}"),
            lambda k: self.copy("DtoH", lab.stream(k % streams), size, k * size),
        ]
        origin = lab.stream(0)
        self.mark("start", origin)
        for other in range(1, streams):
            lab.gpu.wait(lab.stream(other), self.marks[0][1])
        together = streams if order == "breadth" else 1
        for first in range(0, chunks, together):
            for name, step in zip(("in", "kernel", "out"), steps, strict=True):
                for k in range(first, min(chunks, first + together)):
                    step(k)
                    if chunks == 4:
                        self.mark(f"{name} {k}", lab.stream(k % streams))
        for other in range(1, streams):
            lab.gpu.wait(origin, lab.gpu.record(lab.gpu.event(), lab.stream(other)))
        self.mark("all", origin)

    def timed_us(self, plan: Plan) -> float:
        """Run a plan once: microseconds from its first mark to its last."""
        self.lab.begin()  # type: ignore[attr-defined]
        self.marks.clear()
        plan()
        self.lab.finish()  # type: ignore[attr-defined]
        return float(self.lab.gpu.elapsed_us(self.marks[0][1], self.marks[-1][1]))


def copies_alone(bench: CopyBench) -> dict[str, Plan]:
    """One copy of every kind and size."""
    cases = itertools.product(("HtoD", "DtoH", "DtoD", "memset"), SIZES)
    return {f"{kind} {nbytes}": partial(bench.one, kind, nbytes) for kind, nbytes in cases}


def overlap(bench: CopyBench) -> dict[str, tuple[int, Plan]]:
    """The loop at several lengths of its kernel, for a real GPU: iterations, and the plan."""
    found: dict[str, tuple[int, Plan]] = {}
    for nbytes in (16 * MB, 64 * MB):

        def alone(iterations: int, nbytes: int = nbytes) -> float:
            def plan() -> None:
                bench.mark("start", bench.lab.stream(0))
                bench.kernel(bench.lab.stream(0), nbytes, iterations)
                bench.mark("end", bench.lab.stream(0))

            return min(bench.timed_us(plan) for _ in range(3))

        few, many = alone(64), alone(1024)
        for ratio, chunks, streams, order in itertools.product(
            (0.3, 1.0, 3.0), (1, 2, 4, 8, 16), (1, 2, 4), ("depth", "breadth")
        ):
            if streams <= chunks and (streams > 1 or order == "depth"):
                wanted = (ratio * nbytes / 55e3 - few) / max(1e-6, (many - few) / 960)
                iterations = max(1, int(64 + wanted))
                name = f"{nbytes} in {chunks} chunks, {streams} streams, {order} first, kernel {ratio} of a copy"
                found[name] = iterations, partial(bench.loop, nbytes, iterations, chunks, streams, order)
    return found
