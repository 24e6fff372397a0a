"""One experiment: streams that all wait behind a gate until everything is submitted, and blocks that say when they ran.
So the host's time to submit is not in what is compared. A plan, a function without arguments, submits the work of one
run. The recorded runs had one kernel as the gate of all streams, which ended when the host had submitted the rest."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import simpy

import gpusim
from gpusim.node.streams import Stream
from gpusim.node.work import WaitWork
from isa import load

SOURCE = Path(__file__).with_name("kernels.cu")
MHZ = 1980
"""To turn microseconds into the cycles of a spin: the clock that an H200 mostly runs at."""
STAMPS, BLOCKS = 5, 20_000
FULL = 220 << 10
"""Shared memory of which one block fits into an SM."""
_FREE_CALLS = ("copy_call_us", "large_copy_call_us", "event_call_us", "launch_call_us")
Plan = Callable[[], object]


def us(microseconds: float) -> np.int32:
    """Cycles for a spin."""
    return np.int32(int(microseconds * MHZ))


class Lab:
    """A simulated GPU, its memory for stamps, and streams that are kept from run to run. Streams wait at a gate each,
    which are opened one after the other in a given order, as hardware lets streams go that wait for one event."""

    def __init__(self) -> None:
        # The gate lets all submitted work go at once, so that the host's calls take no time here.
        node = gpusim.node.load_node("hgx_h200", 1, overrides=[f"host.{name}=0" for name in _FREE_CALLS])
        self.device = gpusim.Device("h200", node=node)
        self.stamps, self.scratch = map(self.device.memory.alloc, (BLOCKS * STAMPS * 8, 1 << 20))
        self.kernel = cache(partial(load, SOURCE, abi="c", arch=self.device.config.gpu.arch))
        self.streams: dict[tuple[int, int], Stream] = {}
        self.begin()

    def begin(self) -> None:
        """Start a run, and forget the kernels of the last one."""
        self.device.synchronize()
        self.used, self.kernels = 0, list[tuple[str, int, int]]()
        self.gates: dict[Stream, simpy.Event] = {}
        self.stream_of: dict[str, Stream] = {}

    def stream(self, number: int = 0, priority: int = 0) -> Stream:
        """A stream by number, which waits for its gate."""
        if (number, priority) not in self.streams:
            self.streams[number, priority] = self.device.stream(priority)
        stream, env = self.streams[number, priority], self.device.streams.env
        if stream not in self.gates:
            self.gates[stream] = env.event()
            stream.queue.put(WaitWork(env, [self.gates[stream]]))
        return stream

    # many parameters: those of a launch.
    def launch(self, label: str, stream: Stream, kernel: str, grid: int, threads: int, shared: int, *words: Any,
               programmatic: bool = False) -> None:  # fmt: skip
        """Launch a kernel, whose first argument is where its stamps go. Raises ValueError if there is no room left."""
        if self.used + grid > BLOCKS:
            raise ValueError("too many blocks for one run")
        words = np.uint64(self.stamps + self.used * STAMPS * 8), *words
        self.kernels.append((label, self.used, grid))
        self.used += grid
        self.stream_of[label] = stream
        self.device.launch(self.kernel(kernel), grid, threads, words, shared, stream=stream, programmatic=programmatic,
                           strict_barriers=False)  # fmt: skip

    def spin(self, label: str, stream: Stream, grid: int, length_us: float, *, threads: int = 64, shared: int = 0,
             step_us: float = 0, modulus: int = 1) -> None:  # fmt: skip
        """A grid whose block b takes length_us + step_us * (b % modulus)."""
        self.launch(label, stream, "spin", grid, threads, shared, us(length_us), us(step_us), np.int32(modulus))

    def copy(self, kind: str, nbytes: int, stream: Stream) -> None:
        """A copy (HtoD, DtoH or DtoD) of pinned memory, or a memset. Nothing is moved: only its time is looked at."""
        streams = self.device.streams
        if kind == "memset":
            streams.fill(stream.queue, nbytes, lambda: None)
        else:
            to_device = {"HtoD": True, "DtoH": False, "DtoD": None}[kind]
            streams.copy(stream.queue, nbytes, to_device, True, lambda: None)

    def finish(self, first: Sequence[str] = ()) -> dict[str, np.ndarray]:
        """Open the gates, of the streams of the kernels named `first` in this order, then the others. Returns the rows
        of every kernel, [block, (sm, start, end, clock, last)]; start, end and last are ns from the first start on."""
        order = dict.fromkeys([*(self.stream_of[label] for label in first), *self.gates])
        self.device.streams.env.process(self._open([self.gates[stream] for stream in order]))
        self.device.synchronize()
        everything = self.device.memory.array(self.stamps, np.dtype(np.int64), (self.used, STAMPS)).copy()
        if self.used:
            everything[:, (1, 2, 4)] -= everything[:, 1].min()
        return {label: everything[start : start + grid] for label, start, grid in self.kernels}

    def _open(self, gates: Sequence[simpy.Event]) -> Generator[simpy.Event, Any, None]:
        for gate in gates:
            gate.succeed()
            yield self.device.streams.env.timeout(self.device.config.launch.grid_interval_cycles)
