"""The same experiments on a simulated GPU: a `Lab` whose driver is `gpusim.Device`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import simpy

import gpusim
from gpusim.host.options import LaunchOptions
from gpusim.launch import Launch
from gpusim.node.streams import Event, Stream
from gpusim.node.work import WaitWork
from isa import Program, load
from validate.streams.gaps import COUNT
from validate.streams.lab import SOURCE, STAMPS, Lab

BASE_BLOCKS = 20_000


class SimulatedDriver:
    """What experiments ask of a driver, done by a simulated device. Events and streams are its own."""

    def __init__(self, gpu: str, threads: int | None = None):
        # The gate lets all submitted work go at once, so that the host's calls take no time here.
        calls = ("copy_call_us", "large_copy_call_us", "event_call_us", "launch_call_us")
        node = gpusim.node.load_node("hgx_h200", 1, overrides=[f"host.{name}=0" for name in calls])
        self.device = gpusim.Device(gpu, threads=threads, node=node)
        self._programs: dict[str, Program] = {}
        self._host: dict[int, np.ndarray] = {}

    def device_memory(self, nbytes: int) -> int:
        """Address of so much device memory."""
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
        """Records an event in a stream, and returns it."""
        event.record(stream)
        return event

    def wait(self, stream: Stream, event: Event) -> None:
        """Lets a stream wait for an event."""
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

    def call(self, name: str, *arguments: Any) -> None:
        """The few calls that experiments make by name."""
        if name == "cuEventRecord":
            arguments[0].record(arguments[1])
        elif name == "cuLaunchHostFunc":
            arguments[0].call(lambda: None)
        else:
            raise NotImplementedError(name)

    def program(self, kernel: str) -> Program:
        """One of the kernels."""
        if kernel not in self._programs:
            program = load(SOURCE, kernel, abi="c", arch=self.device.config.gpu.arch)
            self._programs[kernel] = self.device.modules.link(program)
        return self._programs[kernel]

    def launch(
        self, kernel: str, grid: int, threads: int, shared: int, stream: Stream, arguments: Sequence[Any],
        programmatic: bool = False,
    ) -> None:  # fmt: skip
        """Launches a kernel whose arguments are ctypes values."""
        program = self.program(kernel)
        area = bytearray(max(each.offset + each.size for each in program.parameters))
        for each, value in zip(program.parameters, arguments, strict=True):
            area[each.offset : each.offset + each.size] = bytes(value)
        options = LaunchOptions(strict_barriers=False, window=self.device.window, programmatic=programmatic)
        what = program, Launch(program, grid, threads, (), shared), bytes(area)
        self.device.submit(*what, options, stream)


class SimulatedLab(Lab):
    """A lab whose GPU is simulated. Streams wait at a gate each, which are opened one after the other in a given order,
    as hardware lets streams go that wait for one event."""

    def __init__(self, gpu: str = "h200", threads: int | None = None):
        self.driver: Any = SimulatedDriver(gpu, threads)
        self.stamps = self.driver.device_memory(BASE_BLOCKS * STAMPS * 8)
        self.scratch = self.driver.device_memory(1 << 20)
        self.opened = self.driver.pinned(4096)
        self.streams: dict[Any, Any] = {}
        self.late = False
        self.begin()

    def begin(self) -> None:
        """Start a run."""
        self.driver.device.synchronize()
        self.used, self.kernels, self.waiting = 0, [], set()
        self.gates: dict[Any, simpy.Event] = {}
        self.stream_of: dict[str, Any] = {}

    def stream(self, number: int = 0, priority: int = 0) -> Any:
        """A stream by number, behind its gate."""
        key = number, priority
        if key not in self.streams:
            self.streams[key] = self.driver.stream(priority)
        stream = self.streams[key]
        if stream not in self.gates:
            env = self.driver.device.streams.env
            self.gates[stream] = env.event()
            stream.queue.put(WaitWork(env, [self.gates[stream]]))
        return stream

    def launch(self, label: str, stream: Any, kernel: str, grid: int, threads: int, shared: int, *arguments: Any,
               programmatic: bool = False) -> None:  # fmt: skip
        """Launch a kernel, whose first argument is where its stamps go."""
        self.stream_of[label] = stream
        arguments = self.reserve(label, grid), *arguments
        self.driver.launch(kernel, grid, threads, shared, stream, arguments, programmatic)

    def spin_graph(self, shape: str, grid: int, length: float) -> Callable[[], None]:
        """The plan of `gaps.graph`."""
        graph, nodes = self.driver.device.graph(), dict[str, Any]()
        branches, each = {"in line": (1, COUNT - 1), "four branches of two": (4, 2), "fork of eight": (7, 1)}[shape]

        def add(label: str, *after: str) -> None:
            def put(stream: Any) -> None:
                self.spin(label, stream, grid, length)

            nodes[label] = graph.add(put, [nodes[each] for each in after])

        add("root")
        for branch in range(branches):
            for turn in range(each):
                add(f"{branch}.{turn}", f"{branch}.{turn - 1}" if turn else "root")
        if branches > 1:
            add("join", *(f"{branch}.{each - 1}" for branch in range(branches)))
        return lambda: graph.start(self.stream(0))

    def repeat(self, plan: Callable[[], None], repeats: int = 5, full: int = 1) -> Any:
        """The plan itself: who compares runs those that are asked for, once."""
        return plan

    repeat_waits = repeat

    def finish(self, first: Sequence[str] = ()) -> dict[str, np.ndarray]:
        """Open the gates, of the streams of the kernels named `first` in this order, then the others; the stamps of
        every kernel, as a real lab gives them, but from the first block on."""
        device = self.driver.device
        order = dict.fromkeys([*(self.stream_of[label] for label in first), *self.gates])
        device.streams.env.process(self._open([self.gates[stream] for stream in order]))
        device.synchronize()
        everything = device.memory.array(self.stamps, np.dtype(np.int64), (self.used, STAMPS)).copy()
        if self.used:
            everything[:, (1, 2, 4)] -= everything[:, 1].min()
        return {label: everything[first : first + grid] for label, first, grid in self.kernels}

    def _open(self, gates: Sequence[simpy.Event]) -> Iterator[simpy.Event]:
        for gate in gates:
            gate.succeed()
            yield self.driver.device.streams.env.timeout(self.driver.device.config.launch.grid_interval_cycles)
