"""One experiment: streams that all wait behind a gate until everything is submitted, and blocks that say when they ran.

So the host's time to submit is not in what is measured.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from ctypes import c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from validate.streams.driver import CudaDriver

SOURCE = Path(__file__).with_name("kernels.cu")
CUBIN = SOURCE.with_suffix(".cubin")
MHZ = 1980
"""To turn microseconds into the cycles of a spin: the clock that an H200 mostly runs at."""
STAMPS, BLOCKS = 5, 60_000
GATE_LIMIT_NS = 200_000_000
FULL = 220 << 10
"""Shared memory of which one block fits into an SM."""


def compiled(nvcc: str = "nvcc") -> Path:
    """The kernels' cubin beside their source, which is built where there is none yet."""
    if not CUBIN.exists():
        subprocess.run([nvcc, "-cubin", "-arch=sm_90", "-O3", "-o", CUBIN, SOURCE], check=True)
    return CUBIN


def us(microseconds: float) -> c_int:
    """Cycles for a spin."""
    return c_int(int(microseconds * MHZ))


class Lab:
    """The GPU, its memory for stamps, and streams that are kept from run to run."""

    def __init__(self) -> None:
        self.driver = CudaDriver(str(compiled()))
        self.stamps = self.driver.device_memory(BLOCKS * STAMPS * 8)
        self.opened = self.driver.pinned(4096)
        self.opened_word = ctypes.c_int.from_address(self.opened)
        self.gate_stream = self.driver.stream()
        self.gate_event = self.driver.event()
        self.streams: dict[tuple[int, int], c_void_p] = {}
        self.late = False
        self.scratch = self.driver.device_memory(1 << 20)
        self.used = 0
        self.kernels: list[tuple[str, int, int]] = []
        self.waiting: set[int] = set()

    def begin(self) -> None:
        """Start a run: close the gate, forget the kernels of the last one."""
        driver = self.driver
        self.open()
        driver.synchronize()
        driver.call(
            "cuMemsetD8_v2", c_uint64(self.stamps), ctypes.c_ubyte(0), ctypes.c_size_t(BLOCKS * STAMPS * 8)
        )
        driver.synchronize()
        self.used = 0
        self.kernels = []
        self.waiting = set()
        self.opened_word.value = 0
        driver.launch("gate", 1, 32, 0, self.gate_stream, [self.reserve("gate", 1), c_uint64(self.opened),
                                                           c_int64(GATE_LIMIT_NS)])  # fmt: skip
        driver.record(self.gate_event, self.gate_stream)

    def reserve(self, label: str, grid: int) -> c_uint64:
        """Room for the stamps of a kernel."""
        if self.used + grid > BLOCKS:
            raise ValueError("too many blocks for one run")
        address = self.stamps + self.used * STAMPS * 8
        self.kernels.append((label, self.used, grid))
        self.used += grid
        return c_uint64(address)

    def stream(self, number: int = 0, priority: int = 0) -> c_void_p:
        """A stream by number, which waits for the gate."""
        key = number, priority
        if key not in self.streams:
            self.streams[key] = self.driver.stream(priority)
        stream = self.streams[key]
        if stream.value not in self.waiting:
            self.waiting.add(stream.value or 0)
            self.driver.wait(stream, self.gate_event)
        return stream

    def launch(self, label: str, stream: c_void_p, kernel: str, grid: int, threads: int, shared: int, *arguments: Any,
               programmatic: bool = False) -> None:  # fmt: skip
        """Launch a kernel, whose first argument is where its stamps go."""
        stamps = self.reserve(label, grid)
        self.driver.launch(kernel, grid, threads, shared, stream, [stamps, *arguments], programmatic)

    def spin(self, label: str, stream: c_void_p, grid: int, length_us: float, *, threads: int = 64, shared: int = 0,
             step_us: float = 0, modulus: int = 1) -> None:  # fmt: skip
        """A grid whose block b takes length_us + step_us * (b % modulus)."""
        self.launch(label, stream, "spin", grid, threads, shared, us(length_us), us(step_us), c_int(modulus))

    def repeat(self, plan: Callable[[], None], repeats: int = 5, full: int = 1) -> Any:
        """Run a plan so often; the first `full` repetitions with every block. One before them is not kept."""
        rows = []
        for k in range(repeats + 1):
            self.begin()
            plan()
            found = self.finish()
            if k:
                row: dict[str, Any] = {
                    label: (whole if k <= full else brief)(each) for label, each in found.items()
                }
                rows.append(row | ({"late": True} if self.late else {}))
        return rows

    def repeat_waits(self, plan: Callable[[], None]) -> Any:
        """The same in brief; also when the first and the last block of each were let on by `griddepcontrol.wait`."""
        rows = []
        for k in range(6):
            self.begin()
            plan()
            stamps = self.finish()
            if k:
                value = c_uint64()
                self.driver.call(
                    "cuMemcpyDtoH_v2", ctypes.byref(value), c_uint64(self.stamps + 16), ctypes.c_size_t(8)
                )
                origin = value.value
                rows.append({
                    label: brief(each) | {"first_let_on": int(each[:, 4].min() - origin),
                                          "last_let_on": int(each[:, 4].max() - origin), "late": self.late}
                    for label, each in stamps.items()
                })  # fmt: skip
        return rows

    def open(self) -> None:
        """Open the gate, without waiting for what follows."""
        self.opened_word.value = 1

    def finish(self) -> dict[str, np.ndarray]:
        """Open the gate and wait; the stamps of every kernel, [block, (sm, start, end, clock, last)], of which start
        and end are ns from the gate's end on."""
        self.open()
        self.driver.synchronize()
        everything = np.zeros((max(1, self.used), STAMPS), np.int64)
        target = c_void_p(everything.ctypes.data)
        size = ctypes.c_size_t(everything.nbytes)
        self.driver.call("cuMemcpyDtoH_v2", target, c_uint64(self.stamps), size)
        zero = everything[0, 2]
        self.late = bool(everything[0, 2] - everything[0, 1] > GATE_LIMIT_NS)
        everything[:, 1:3] -= zero
        return {label: everything[first : first + grid] for label, first, grid in self.kernels[1:]}


def brief(blocks: np.ndarray) -> dict[str, int]:
    """A kernel in a few numbers of ns: first and last start and end, how many blocks and SMs."""
    return {
        "first_start": int(blocks[:, 1].min()), "last_start": int(blocks[:, 1].max()),
        "first_end": int(blocks[:, 2].min()), "last_end": int(blocks[:, 2].max()),
        "blocks": len(blocks), "sms": len(set(blocks[:, 0].tolist())),
    }  # fmt: skip


def whole(blocks: np.ndarray) -> dict[str, list[int]]:
    """A kernel with every block."""
    return {"sm": blocks[:, 0].tolist(), "start": blocks[:, 1].tolist(), "end": blocks[:, 2].tolist()}
