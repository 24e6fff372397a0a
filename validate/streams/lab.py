"""One experiment: streams that all wait behind a gate until everything is submitted, and blocks that say when they ran.

So the host's time to submit is not in what is measured. A plan, a function without arguments, submits the work of one
run; a lab runs it on this machine's GPU or on a simulated one.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from validate.gpu import RealGpu

SOURCE = Path(__file__).with_name("kernels.cu")
MHZ = 1980
"""To turn microseconds into the cycles of a spin: the clock that an H200 mostly runs at."""
STAMPS, BLOCKS, SIMULATED_BLOCKS = 5, 60_000, 20_000
GATE_LIMIT_NS = 200_000_000
FULL = 220 << 10
"""Shared memory of which one block fits into an SM."""
Plan = Callable[[], object]


def us(microseconds: float) -> np.int32:
    """Cycles for a spin."""
    return np.int32(int(microseconds * MHZ))


class Lab:
    """A GPU, its memory for stamps, and streams that are kept from run to run."""

    code: Any
    _gate: Callable[[Any], Any]

    def __init__(self, gpu: Any, blocks: int) -> None:
        self.gpu, self.blocks = gpu, blocks
        self.stamps, self.scratch = gpu.alloc(blocks * STAMPS * 8), gpu.alloc(1 << 20)
        self.opened = gpu.pinned(4096)
        self.streams: dict[tuple[int, int], Any] = {}
        self.clear()

    def clear(self) -> None:
        """Forget the kernels of the last run."""
        self.used, self.kernels = 0, list[tuple[str, int, int]]()
        self.gates: dict[Any, Any] = {}

    def reserve(self, label: str, grid: int) -> np.uint64:
        """Room for the stamps of a kernel. Raises ValueError if there is none left."""
        if self.used + grid > self.blocks:
            raise ValueError("too many blocks for one run")
        self.kernels.append((label, self.used, grid))
        self.used += grid
        return np.uint64(self.stamps + (self.used - grid) * STAMPS * 8)

    def stream(self, number: int = 0, priority: int = 0) -> Any:
        """A stream by number, which waits for the gate."""
        key = number, priority
        if key not in self.streams:
            self.streams[key] = self.gpu.stream(priority)
        if key not in self.gates:
            self.gates[key] = self._gate(self.streams[key])
        return self.streams[key]

    # many parameters: those of a launch.
    def launch(self, label: str, stream: Any, kernel: str, grid: int, threads: int, shared: int, *words: Any,
               programmatic: bool = False) -> None:  # fmt: skip
        """Launch a kernel, whose first argument is where its stamps go."""
        words = self.reserve(label, grid), *words
        function = self.gpu.function(self.code, kernel)
        self.gpu.launch(function, (grid,), (threads,), words, shared, stream, programmatic=programmatic)

    def spin(self, label: str, stream: Any, grid: int, length_us: float, *, threads: int = 64, shared: int = 0,
             step_us: float = 0, modulus: int = 1) -> None:  # fmt: skip
        """A grid whose block b takes length_us + step_us * (b % modulus)."""
        self.launch(label, stream, "spin", grid, threads, shared, us(length_us), us(step_us), np.int32(modulus))

    def stamps_of(self, everything: np.ndarray, first: int = 0) -> dict[str, np.ndarray]:
        """The rows of every kernel, [block, (sm, start, end, clock, last)]."""
        return {label: everything[start : start + grid] for label, start, grid in self.kernels[first:]}


class RealLab(Lab):
    """A lab on this machine's GPU."""

    def __init__(self) -> None:
        super().__init__(RealGpu(), BLOCKS)
        self.code = compiled()
        self.opened_word = ctypes.c_int.from_address(self.opened)
        self.gate_stream, self.gate_event = self.gpu.stream(), self.gpu.event()
        self.late = False

    def _gate(self, stream: Any) -> Any:
        self.gpu.wait(stream, self.gate_event)

    def begin(self) -> None:
        """Start a run: close the gate."""
        self.open()
        self.gpu.synchronize()
        self.gpu.fill(self.stamps, 0, BLOCKS * STAMPS * 8)
        self.gpu.synchronize()
        self.clear()
        self.opened_word.value = 0
        self.launch("gate", self.gate_stream, "gate", 1, 32, 0, np.uint64(self.opened), np.int64(GATE_LIMIT_NS))
        self.gpu.record(self.gate_event, self.gate_stream)

    def open(self) -> None:
        """Open the gate, without waiting for what follows."""
        self.opened_word.value = 1

    def finish(self) -> dict[str, np.ndarray]:
        """Open the gate and wait; the stamps, of which start, end and last are ns from the gate's end on."""
        self.open()
        self.gpu.synchronize()
        everything = self.gpu.get(self.stamps, (max(1, self.used), STAMPS), np.int64)
        self.late = bool(everything[0, 2] - everything[0, 1] > GATE_LIMIT_NS)
        everything[:, (1, 2, 4)] -= everything[0, 2]
        return self.stamps_of(everything, 1)

    def repeat(self, plan: Plan, repeats: int = 3, whole: int = 0) -> list[dict[str, Any]]:
        """Run a plan so often, of the first `whole` with every block; one before them is not kept."""
        rows: list[dict[str, Any]] = []
        for k in range(repeats + 1):
            self.begin()
            plan()
            found = self.finish()
            if k and not self.late:
                rows.append({name: every_block(each) if k <= whole else brief(each) for name, each in found.items()})
        return rows


class SimulatedLab(Lab):
    """A lab whose GPU is simulated. Streams wait at a gate each, which are opened one after the other in a given order,
    as hardware lets streams go that wait for one event."""

    def __init__(self, gpu: str = "h200", threads: int | None = None) -> None:
        from validate.simulated_gpu import SimulatedGpu

        # The gate lets all submitted work go at once, so that the host's calls take no time here.
        super().__init__(SimulatedGpu(gpu, threads, free_calls=True), SIMULATED_BLOCKS)
        self.code, self.device = SOURCE, self.gpu.device

    def begin(self) -> None:
        """Start a run."""
        self.gpu.synchronize()
        self.clear()
        self.stream_of: dict[str, Any] = {}

    def _gate(self, stream: Any) -> Any:
        from gpusim.node.work import WaitWork

        gate = self.device.streams.env.event()
        stream.queue.put(WaitWork(self.device.streams.env, [gate]))
        return gate

    def launch(self, label: str, stream: Any, *arguments: Any, **more: Any) -> None:
        self.stream_of[label] = stream
        super().launch(label, stream, *arguments, **more)

    def finish(self, first: Sequence[str] = ()) -> dict[str, np.ndarray]:
        """Open the gates, of the streams of the kernels named `first` in this order, then the others; the stamps as a
        real lab gives them, but from the first block on."""
        gates = {id(self.streams[key]): gate for key, gate in self.gates.items()}
        order = dict.fromkeys([*(id(self.stream_of[label]) for label in first), *gates])
        self.device.streams.env.process(self._open([gates[stream] for stream in order]))
        self.gpu.synchronize()
        everything = self.device.memory.array(self.stamps, np.dtype(np.int64), (self.used, STAMPS)).copy()
        if self.used:
            everything[:, (1, 2, 4)] -= everything[:, 1].min()
        return self.stamps_of(everything)

    def _open(self, gates: Sequence[Any]) -> Iterator[Any]:
        for gate in gates:
            gate.succeed()
            yield self.device.streams.env.timeout(self.device.config.launch.grid_interval_cycles)


@cache
def compiled(nvcc: str = "nvcc") -> bytes:
    """The kernels' cubin, which is built beside their source where there is none yet."""
    path = SOURCE.with_suffix(".cubin")
    if not path.exists():
        subprocess.run([nvcc, "-cubin", "-arch=sm_90", "-O3", "-o", path, SOURCE], check=True)
    return path.read_bytes()


def brief(blocks: np.ndarray) -> list[int]:
    """A kernel in ns: first and last start, first and last end, how many blocks and SMs; and of one that has been let
    on by `griddepcontrol.wait` when its first block was."""
    starts, ends, let_on = blocks[:, 1], blocks[:, 2], blocks[:, 4].min()
    times = [starts.min(), starts.max(), ends.min(), ends.max(), len(blocks), len(set(blocks[:, 0].tolist()))]
    return [int(each) for each in times + ([let_on] if let_on > 0 else [])]


def every_block(blocks: np.ndarray) -> list[list[int]]:
    """A kernel with every block: [sm, start, end] of each."""
    return [[int(each) for each in row[:3]] for row in blocks]
