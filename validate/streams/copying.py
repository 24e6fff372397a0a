"""Copies by the copy engines, alone, against each other and beside kernels."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from ctypes import c_int, c_int64, c_uint64, c_void_p
from typing import Any

import numpy as np

from validate.streams.lab import Lab, brief

MB = 1 << 20
SIZES = tuple(4 << 10 << k for k in range(0, 17, 2))
GRID, THREADS = 1056, 256
KERNEL = "kernel"
Marks = list[tuple[str, c_void_p]]


class CopyBench:
    """Memory for the copies, and plans timed by events."""

    def __init__(self, lab: Lab, nbytes: int = 256 * MB) -> None:
        self.lab, self.nbytes = lab, nbytes
        driver = lab.driver
        self.host = [driver.pinned(nbytes) for _ in range(2)]
        self.device = [driver.device_memory(nbytes) for _ in range(4)]
        for address in self.host:
            view(address, nbytes)[:] = 1.0
        self.marks: Marks = []

    def mark(self, name: str, stream: c_void_p) -> None:
        """An event of this name."""
        self.marks.append((name, self.lab.driver.record(self.lab.driver.event(), stream)))

    def copy(self, kind: str, stream: c_void_p, nbytes: int, offset: int = 0, which: int = 0) -> None:
        """HtoD and DtoH between pinned memory and arrays of their own; DtoD and memset within the GPU."""
        to, of = {
            "HtoD": (self.device[0], self.host[0]), "DtoH": (self.host[1], self.device[1]),
            "DtoD": (self.device[2], self.device[3]), "memset": (self.device[2], 0),
        }[kind]  # fmt: skip
        if which and kind in ("HtoD", "DtoH"):
            half = self.nbytes // 2
            to, of = to + half, of + half
        self.lab.driver.copy(kind, to + offset, of if kind == "memset" else of + offset, nbytes, stream)

    def kernel(self, stream: c_void_p, nbytes: int, iterations: int, offset: int = 0, label: str = KERNEL,
               grid: int = GRID) -> None:  # fmt: skip
        """saxpy_chunk from what HtoD brings to what DtoH takes."""
        count = nbytes // 4
        self.lab.launch(label, stream, "saxpy_chunk", min(grid, -(-count // THREADS)), THREADS, 0,
                        c_uint64(self.device[1] + offset), c_uint64(self.device[0] + offset), c_int(count),
                        c_int(iterations))  # fmt: skip

    def timed(
        self, plan: Callable[[], None], repeats: int = 5, kernels: bool = False
    ) -> list[dict[str, Any]]:
        """Run a plan, which sets marks. Marks in us from the first one on; kernels by their blocks, in ns."""
        rows = []
        for k in range(repeats + 1):
            self.lab.begin()
            self.marks.clear()
            plan()
            stamps = self.lab.finish()
            if k:
                driver, zero = self.lab.driver, self.marks[0][1] if self.marks else c_void_p()
                row: dict[str, Any] = {"marks_us": {name: driver.elapsed_us(zero, event)
                                                    for name, event in self.marks[1:]}}  # fmt: skip
                if kernels:
                    row["kernels"] = {label: brief(each) for label, each in stamps.items()}
                rows.append(row | ({"late": True} if self.lab.late else {}))
        return rows


def view(address: int, nbytes: int) -> np.ndarray:
    """Host memory as floats."""
    import ctypes

    return np.ctypeslib.as_array((ctypes.c_float * (nbytes // 4)).from_address(address))


def copies_alone(lab: Lab) -> dict[str, Any]:
    """One copy of every kind and size; two of a kind in two streams; both ways."""
    it = CopyBench(lab)
    found = {}
    for kind, nbytes in itertools.product(("HtoD", "DtoH", "DtoD", "memset"), (4, *SIZES)):

        def one(kind: str = kind, nbytes: int = nbytes) -> None:
            it.mark("start", lab.stream(0))
            it.copy(kind, lab.stream(0), nbytes)
            it.mark("end", lab.stream(0))

        found[f"{kind} {nbytes}"] = it.timed(one)
    for kinds in (("HtoD", "DtoH"), ("HtoD", "HtoD"), ("DtoH", "DtoH"), ("DtoD", "DtoD"), ("HtoD", "DtoD"),
                  ("DtoH", "DtoD"), ("HtoD", "memset"), ("HtoD", "HtoD", "DtoH", "DtoH")):  # fmt: skip
        for nbytes in (64 << 10, 16 * MB, 64 * MB):

            def several(kinds: tuple[str, ...] = kinds, nbytes: int = nbytes) -> None:
                for k in range(len(kinds)):
                    it.mark(f"start {k}", lab.stream(k))
                for k, kind in enumerate(kinds):
                    it.copy(kind, lab.stream(k), nbytes, which=kinds[:k].count(kind))
                    it.mark(f"end {k}", lab.stream(k))

            found[f"{' '.join(kinds)} together, {nbytes}"] = it.timed(several)
    for kind, nbytes in itertools.product(("HtoD", "DtoH", "DtoD"), (4, 4 << 10, 64 << 10, MB)):

        def line(kind: str = kind, nbytes: int = nbytes) -> None:
            it.mark("start", lab.stream(0))
            for k in range(16):
                it.copy(kind, lab.stream(0), nbytes, offset=k * MB)
            it.mark("end", lab.stream(0))

        found[f"{kind} {nbytes} sixteen in line"] = it.timed(line)

        def turns(kind: str = kind, nbytes: int = nbytes) -> None:
            it.mark("start", lab.stream(0))
            for k in range(1, 4):
                it.mark(f"start {k}", lab.stream(k))
            for k in range(16):
                it.copy(kind, lab.stream(k % 4), nbytes, offset=k * MB)
                it.mark(f"end {k}", lab.stream(k % 4))

        found[f"{kind} {nbytes} sixteen in four streams"] = it.timed(turns)
    return found


def copies_and_kernels(lab: Lab) -> dict[str, Any]:
    """Small copies between kernels of a stream; large ones beside kernels."""
    it = CopyBench(lab)
    found: dict[str, Any] = {}
    for kind, nbytes in itertools.product(
        ("HtoD", "DtoH", "DtoD", "memset"), (4, 4 << 10, 64 << 10, MB, 16 * MB)
    ):

        def between(kind: str = kind, nbytes: int = nbytes) -> None:
            for k in range(4):
                lab.spin(f"{k}", lab.stream(0), 132, 20)
                it.copy(kind, lab.stream(0), nbytes)

        found[f"{kind} {nbytes} between kernels"] = it.timed(between, kernels=True)
    arrays = c_uint64(it.device[2]), c_uint64(it.device[3]), c_int64(256 * MB // 16)
    work = c_uint64(lab.scratch), c_int(8000)
    beside: dict[str, Callable[[c_void_p], None]] = {
        "memory-bound": lambda stream: lab.launch(KERNEL, stream, "stream_copy", GRID, THREADS, 0, *arrays),
        "compute-bound": lambda stream: lab.launch(KERNEL, stream, "fma_chain", GRID, THREADS, 0, *work),
    }
    for name, launch in beside.items():

        def alone(launch: Callable[[c_void_p], None] = launch) -> None:
            launch(lab.stream(1))

        found[f"{name} kernel alone"] = it.timed(alone, kernels=True)
        for kind, nbytes in (("HtoD", 64 * MB), ("DtoH", 64 * MB), ("DtoD", 256 * MB), ("memset", 256 * MB),
                             ("HtoD", 4 * MB), ("DtoH", 4 * MB)):  # fmt: skip

            def both(
                kind: str = kind, nbytes: int = nbytes, launch: Callable[[c_void_p], None] = launch
            ) -> None:
                it.mark("start", lab.stream(0))
                it.copy(kind, lab.stream(0), nbytes)
                it.mark("end", lab.stream(0))
                for k in range(4):
                    launch_labelled(lab, launch, k)

            found[f"{kind} {nbytes} beside four {name} kernels"] = it.timed(both, kernels=True)
    found["pageable"] = pageable(lab, it)
    return found


def launch_labelled(lab: Lab, launch: Callable[[c_void_p], None], k: int) -> None:
    """Launch a kernel under a number of its own."""
    launch(lab.stream(1))
    _, first, grid = lab.kernels[-1]
    lab.kernels[-1] = f"{KERNEL} {k}", first, grid


def pageable(lab: Lab, it: CopyBench) -> dict[str, Any]:
    """cuMemcpyAsync of pageable memory, beside a long kernel of another stream: when the call returns, when the
    copy has ended, and whether the kernel goes on meanwhile."""
    driver = lab.driver
    found: dict[str, Any] = {}
    memory = np.ones(64 * MB // 4, np.float32)
    for kind, nbytes in itertools.product(("HtoD", "DtoH"), (4 << 10, 64 << 10, MB, 16 * MB, 64 * MB)):
        rows = []
        for _ in range(4):
            lab.begin()
            start, end = driver.event(), driver.event()
            lab.spin("beside", lab.stream(1), 132, 20_000 if nbytes > 16 * MB else 5_000)
            stream = lab.stream(0)
            lab.open()
            time.sleep(0.001)
            driver.record(start, stream)
            host = memory.ctypes.data
            to, of = (it.device[0], host) if kind == "HtoD" else (host, it.device[0])
            called = time.perf_counter()
            driver.copy(kind, to, of, nbytes, stream)
            returned = time.perf_counter()
            driver.record(end, stream)
            driver.call("cuStreamSynchronize", stream)
            done = time.perf_counter()
            stamps = lab.finish()
            rows.append({"call_us": (returned - called) * 1e6, "done_us": (done - called) * 1e6,
                         "event_us": driver.elapsed_us(start, end), "beside": brief(stamps["beside"])})  # fmt: skip
        found[f"{kind} {nbytes}"] = rows[1:]
    return found


def overlap(lab: Lab) -> dict[str, Any]:
    """The textbook's loop: copy a chunk in, compute, copy it out, over several streams."""
    it = CopyBench(lab, 64 * MB)
    found: dict[str, Any] = {}
    for nbytes in (16 * MB, 64 * MB):
        lengths = {}
        for iterations in (64, 1024):

            def only(nbytes: int = nbytes, iterations: int = iterations) -> None:
                it.mark("start", lab.stream(0))
                it.kernel(lab.stream(0), nbytes, iterations)
                it.mark("end", lab.stream(0))

            lengths[iterations] = min(row["marks_us"]["end"] for row in it.timed(only, 3))
        slope = max(1e-6, (lengths[1024] - lengths[64]) / 960)
        copy_us = nbytes / 55e3
        found[f"{nbytes} kernel_us"] = lengths
        for ratio in (0.3, 1.0, 3.0):
            iterations = max(1, int(64 + (ratio * copy_us - lengths[64]) / slope))
            for chunks, streams, order in itertools.product(
                (1, 2, 4, 8, 16), (1, 2, 4), ("depth", "breadth")
            ):
                if streams > chunks or (streams == 1 and order == "breadth"):
                    continue

                def loop(nbytes: int = nbytes, iterations: int = iterations, chunks: int = chunks,
                         streams: int = streams, order: str = order) -> None:  # fmt: skip
                    _loop(it, nbytes, iterations, chunks, streams, order)

                name = (
                    f"{nbytes} in {chunks} chunks, {streams} streams, {order} first, kernel {ratio} of a copy"
                )
                rows = it.timed(loop, kernels=True)
                for row in rows[1:]:
                    row.pop("kernels")
                    row["marks_us"] = {"all": row["marks_us"]["all"]}
                found[name] = {"iterations": iterations, "runs": rows}
    return found


def _loop(it: CopyBench, nbytes: int, iterations: int, chunks: int, streams: int, order: str) -> None:
    """Breadth first: of all streams one step, then of all the next; each round of chunks by itself."""
    size = nbytes // chunks
    lab = it.lab
    steps: list[Callable[[int], None]] = [
        lambda k: it.copy("HtoD", lab.stream(k % streams), size, k * size),
        lambda k: it.kernel(lab.stream(k % streams), size, iterations, k * size, f"{k}"),
        lambda k: it.copy("DtoH", lab.stream(k % streams), size, k * size),
    ]
    origin = lab.stream(0)
    it.mark("start", origin)
    for other in range(1, streams):
        lab.driver.wait(lab.stream(other), it.marks[0][1])
    rounds = range(0, chunks, streams if order == "breadth" else 1)
    for first in rounds:
        mine = range(first, min(chunks, first + (streams if order == "breadth" else 1)))
        for name, step in zip(("in", "kernel", "out"), steps, strict=True):
            for k in mine:
                step(k)
                if chunks == 4:
                    it.mark(f"{name} {k}", lab.stream(k % streams))
    for other in range(1, streams):
        event = lab.driver.record(lab.driver.event(), lab.stream(other))
        lab.driver.wait(origin, event)
    it.mark("all", origin)
