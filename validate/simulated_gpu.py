"""A simulated device in the place of `validate.gpu.RealGpu`: what experiments ask of either."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gpusim
from gpusim.host.options import LaunchOptions
from gpusim.launch import Launch
from gpusim.launch.launch import PROPERTIES, AccessWindow
from gpusim.node.streams import Event, Stream
from isa import Program, load
from validate.gpu import ACCESSED_BY, HOST, PREFERRED, READ_MOSTLY, PolicyWindow

_CALLS = ("copy_call_us", "large_copy_call_us", "event_call_us", "launch_call_us")


class SimulatedGpu:
    """A device of `gpusim`; events and streams are its own. free_calls: the host's calls take no time."""

    def __init__(
        self, gpu: str, threads: int | None = None, settings: Sequence[str] = (), free_calls: bool = False
    ) -> None:
        overrides = [f"host.{name}=0" for name in _CALLS if free_calls]
        node = gpusim.node.load_node("hgx_h200", 1, overrides=overrides) if overrides else "hgx_h200"
        self.device = gpusim.Device(gpu, threads=threads, overrides=list(settings), node=node)
        self._programs: dict[tuple[Path, str], Program] = {}
        self._host: dict[int, np.ndarray] = {}

    def alloc(self, nbytes: int) -> int:
        """Address of new device memory."""
        return self.device.memory.alloc(nbytes)

    def pinned(self, nbytes: int) -> int:
        """Address of page-locked host memory."""
        array = self.device.pinned_array(nbytes, np.uint8)
        self._host[array.ctypes.data] = array
        return array.ctypes.data

    def stream(self, priority: int = 0) -> Stream:
        """A new stream."""
        return self.device.stream(priority)

    def event(self, timing: bool = True) -> Event:
        """A new event."""
        return self.device.event()

    def record(self, event: Event, stream: Stream) -> Event:
        """Record an event in a stream; returns it."""
        event.record(stream)
        return event

    def wait(self, stream: Stream, event: Event) -> None:
        """Let a stream wait for an event."""
        stream.wait_event(event)

    def elapsed_us(self, first: Event, last: Event) -> float:
        """Microseconds from one event to another."""
        return 1000 * first.elapsed_ms(last)

    def copy(self, kind: str, to: int, of: int, nbytes: int, stream: Stream) -> None:
        """A copy in a stream, by its kind; its bytes do not matter here."""
        ways = {"HtoD": True, "DtoH": False, "DtoD": None}
        if kind == "memset":
            self.device.streams.fill(stream.queue, nbytes, lambda: None)
        else:
            self.device.streams.copy(stream.queue, nbytes, ways[kind], True, lambda: None)

    def host_function(self, stream: Stream, function: Callable[[], None]) -> None:
        """A function of the host in a stream."""
        stream.call(function)

    def function(self, code: Path, symbol: str) -> Program:
        """A kernel of a cubin, or of CUDA C++."""
        if (code, symbol) not in self._programs:
            program = load(code, symbol, abi="c", arch=self.device.config.gpu.arch)
            self._programs[code, symbol] = self.device.modules.link(program)
        return self._programs[code, symbol]

    # many parameters: those of RealGpu.launch.
    def launch(
        self, function: Program, grid: Sequence[int], block: Sequence[int], words: Sequence[Any],
        shared_bytes: int = 0, stream: Stream | None = None, *, programmatic: bool = False,
    ) -> None:  # fmt: skip
        """Put a kernel into a stream. words: NumPy scalars."""
        area = bytearray(max(each.offset + each.size for each in function.parameters))
        for each, word in zip(function.parameters, words, strict=True):
            area[each.offset : each.offset + each.size] = word.tobytes()
        options = LaunchOptions(strict_barriers=False, window=self.device.window, programmatic=programmatic)
        launch = Launch(function, grid[0], block[0], (), shared_bytes)
        self.device.submit(function, launch, bytes(area), options, stream)

    def run(
        self, function: Program, grid: int, block: int, words: Sequence[Any], window: PolicyWindow | None
    ) -> gpusim.Result:
        """Run a kernel to its end."""
        self.device.window = None
        if window is not None:
            hit, miss = PROPERTIES[window.hit], PROPERTIES[window.miss]
            self.device.window = AccessWindow(window.base, window.nbytes, window.hit_ratio, hit, miss)
        return self.device.launch(function, grid, block, tuple(words))

    def reset_persisting(self) -> None:
        """Make all persisting lines normal."""
        self.device.reset_persisting()

    def set_aside(self, nbytes: int) -> None:
        """Set how much of L2 is for persisting accesses."""
        self.device.set_aside_l2(nbytes)

    def synchronize(self) -> None:
        """Wait for everything."""
        self.device.synchronize()

    def prefetch(self, array: Any, place: int) -> None:
        """Bring a managed array to the GPU, or to the HOST."""
        self.device.prefetch(array, "host" if place == HOST else "device")

    def advise(self, array: Any, advice: int, place: int) -> None:
        """Advise on a managed array; accessed-by goes with a preferred location on the host."""
        if advice == READ_MOSTLY:
            self.device.advise(array, read_mostly=True)
        elif advice == PREFERRED:
            self.device.advise(array, preferred="host" if place == HOST else "device")
        elif advice != ACCESSED_BY:
            raise ValueError(f"no advice {advice}")
