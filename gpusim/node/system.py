"""`gpusim.node.System`: copies, streams and events over the GPUs of a node, as a CUDA program would call for them.

Calls are noted down; a run makes one after the other, and every stream, the same as those of a `Device`, does its work
in order. Times are microseconds from its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import simpy

from gpusim.engine.grid import Process
from gpusim.engine.streams import Engines, StreamQueue
from gpusim.errors import NodeError
from gpusim.node.result import Copy, LinkLoad, NodeResult
from gpusim.node.topology import Node, load_node
from gpusim.node.transfers import Mover, engines_of
from gpusim.node.work import CopyWork, PauseWork, RecordWork, TimedWork, WaitWork


@dataclass(eq=False)
class Call:
    """What the host was asked for. kind: copy, kernel, record, wait, synchronize or pause; stream: its number; targets:
    what a wait or a synchronization is for; time_us: when a record was reached, set by a run."""

    kind: str
    stream: int | None = None
    copy: Copy | None = None
    path: tuple[int, ...] = ()
    engines: tuple[str, ...] = ()
    pinned: bool = True
    duration_us: float = 0.0
    targets: tuple[Call, ...] = ()
    time_us: float | None = None


class System:
    """The GPUs of a node. Calls are noted down; `run` lets them happen in simulated time.

    node, gpus, overrides: as for `load_node`. One thread of the host makes all calls, one after the other.
    """

    def __init__(
        self,
        node: str | Path | Node = "hgx_h200",
        gpus: int | None = None,
        *,
        overrides: Mapping[str, Any] | Iterable[str] | None = None,
    ):
        self.node = load_node(node, gpus, overrides=overrides)
        self._calls: list[Call] = []
        self._defaults: dict[str, NodeStream] = {}
        self._streams: list[NodeStream] = []

    def stream(self, gpu: int | str = 0) -> NodeStream:
        """A new stream of a GPU."""
        name = self._device(gpu)
        if name not in self.node.gpus:
            raise NodeError(f"a stream belongs to a GPU, not to {name}")
        stream = NodeStream(self, name, len(self._streams))
        self._streams.append(stream)
        return stream

    def event(self, stream: NodeStream | None = None) -> NodeEvent:
        """A new event, recorded in `stream` if one is given."""
        event = NodeEvent(self)
        if stream is not None:
            event.record(stream)
        return event

    def copy(
        self,
        destination: int | str,
        source: int | str,
        nbytes: int,
        stream: NodeStream | None = None,
        *,
        pinned: bool = True,
        name: str | None = None,
    ) -> Copy:
        """Copy so many bytes between memories; returns the copy, whose times are known after `run`.

        destination, source: a GPU (0 or "gpu0"), "host" (the memory nearest to the GPU at the other end) or one
        socket's memory ("host1"). stream: by default the source GPU's own (for copies from a host the destination's).
        pinned: whether host memory is page-locked; if not, the call returns when the host has copied.

        Raises NodeError if there is no such device or no way between the two.
        """
        if nbytes < 0:
            raise ValueError(f"a copy cannot have {nbytes} bytes")
        start, end = self._ends(source, destination)
        gpu = start if start in self.node.gpus else end
        stream = stream or self._default(gpu)
        path = self.node.path(start, end)
        names = tuple(self.node.links[index].name for index in path) or (f"{start}.memory",)
        copy = Copy(start, end, nbytes, name or f"{start} -> {end}", names)
        engines = engines_of(self.node, path, start, end, stream.gpu)
        self._note(stream, Call("copy", stream.number, copy=copy, path=path, engines=engines, pinned=pinned))
        return copy

    def kernel(self, duration_us: float, stream: NodeStream) -> None:
        """A kernel that keeps the stream's GPU busy for so long; kernels of a GPU run one after the other."""
        self._note(stream, Call("kernel", stream.number, duration_us=duration_us, engines=(f"{stream.gpu}.sm",)))

    def synchronize(self, what: NodeStream | NodeEvent | None = None) -> None:
        """The host waits for a stream, an event, or everything so far."""
        if isinstance(what, NodeEvent):
            targets = [what.recorded]
        else:
            targets = [stream.last for stream in ([what] if what is not None else self._streams)]
        self._note(None, Call("synchronize", targets=tuple(each for each in targets if each is not None)))

    def pause(self, duration_us: float) -> None:
        """The host does something else for so long."""
        self._note(None, Call("pause", duration_us=duration_us))

    def run(self) -> NodeResult:
        """Everything called for so far, from the start; the same calls give the same result."""
        return NodeRun(self.node, self._calls, len(self._streams)).result()

    def _note(self, stream: NodeStream | None, call: Call) -> None:
        if stream is not None:
            if stream.system is not self:
                raise ValueError("the stream belongs to another system")
            stream.last = call
        self._calls.append(call)

    def _default(self, gpu: str) -> NodeStream:
        if gpu not in self._defaults:
            self._defaults[gpu] = self.stream(gpu)
        return self._defaults[gpu]

    def _device(self, device: int | str) -> str:
        name = f"gpu{device}" if isinstance(device, int) else device
        if name != "host" and name not in self.node.devices:
            raise NodeError(f"{self.node.name} has no device {name!r}; its GPUs are {', '.join(self.node.gpus[:8])}")
        return name

    def _ends(self, source: int | str, destination: int | str) -> tuple[str, str]:
        start, end = self._device(source), self._device(destination)
        if start not in self.node.gpus and end not in self.node.gpus:
            raise NodeError(f"a copy from {start} to {end} has no GPU at either end")
        return (
            self.node.host_of(end) if start == "host" else start,
            self.node.host_of(start) if end == "host" else end,
        )


class NodeStream:
    """An order of work on one GPU, as `System.stream` makes it."""

    def __init__(self, system: System, gpu: str, number: int):
        self.system, self.gpu, self.number = system, gpu, number
        self.last: Call | None = None

    def record(self, event: NodeEvent | None = None) -> NodeEvent:
        """Put an event (by default a new one) behind the work so far."""
        return (event or NodeEvent(self.system)).record(self)

    def wait_event(self, event: NodeEvent) -> None:
        """Go on only when an event has happened."""
        event.wait(self)

    def synchronize(self) -> None:
        """The host waits for all work so far."""
        self.system.synchronize(self)


class NodeEvent:
    """A point in the work of a stream. After a run `time_us` says when it was reached, None if it was not recorded."""

    def __init__(self, system: System):
        self.system = system
        self.recorded: Call | None = None

    @property
    def time_us(self) -> float | None:
        """Microseconds since the run's start."""
        return None if self.recorded is None else self.recorded.time_us

    def record(self, stream: NodeStream) -> NodeEvent:
        """Put it behind what the stream has to do so far."""
        self.recorded = Call("record", stream.number)
        self.system._note(stream, self.recorded)
        return self

    def wait(self, stream: NodeStream) -> None:
        """Let a stream go on only when what this was last recorded behind has happened."""
        targets = () if self.recorded is None else (self.recorded,)
        self.system._note(stream, Call("wait", stream.number, targets=targets))

    def synchronize(self) -> None:
        """The host waits for it."""
        self.system.synchronize(self)

    def elapsed_ms(self, later: NodeEvent) -> float:
        """Milliseconds from this event to a later one. Raises ValueError if one has not happened."""
        if self.time_us is None or later.time_us is None:
            raise ValueError("both events must be recorded and the system must have run")
        return (later.time_us - self.time_us) / 1000


class NodeRun:
    """One run of a list of calls in so many streams, from time 0, in microseconds."""

    def __init__(self, node: Node, calls: Sequence[Call], streams: int):
        self.node, self.calls = node, calls
        self.env = simpy.Environment()
        self.mover = Mover(self.env, node)
        engines = Engines(self.env, self.mover.engine_count)
        self.streams = [StreamQueue(self.env, engines) for _ in range(streams)]
        self.work: dict[Call, TimedWork] = {}
        for call in reversed(calls):  # a stream's first copy stamps what is before it, even if it is asked for later
            if call.stream is not None and call.kind in ("copy", "kernel"):
                self.streams[call.stream].used = call.engines if call.kind == "copy" else ()

    def result(self) -> NodeResult:
        """Run everything."""
        copies = [call.copy for call in self.calls if call.copy is not None]
        for copy in copies:
            copy.held_us = {}
        self.env.process(self._host())
        self.env.run()
        for call, work in self.work.items():
            if isinstance(work, RecordWork):
                call.time_us = work.time
        total = float(self.env.now)
        used = [self._use(index, copies, total) for index, carried in enumerate(self.mover.flows.bytes) if carried]
        title = f"{self.node.name}, {len(self.node.gpus)} GPUs"
        return NodeResult(title, tuple(copies), {use.name: use for use in used}, total, self.mover.waits_us)

    def _use(self, index: int, copies: list[Copy], total: float) -> LinkLoad:
        flows, link = self.mover.flows, self.mover.links[index]
        times, shares = (np.array([step[k] for step in flows.steps[index]]) for k in (0, 2))
        held = sum(copy.held_us.get(link.name, 0.0) for copy in copies)
        return LinkLoad(link, flows.bytes[index], times, shares, held, total)

    def _host(self) -> Process:
        """The thread that makes the calls."""
        host = self.node.config.host
        for call in self.calls:
            if call.kind == "pause":
                yield self.env.timeout(call.duration_us)
            elif call.kind == "synchronize":
                yield self.env.all_of([self.work[target].done for target in call.targets])
            else:
                assert call.stream is not None
                work = self.work[call] = self._made(call)
                takes = host.copy_call_us
                if call.kind in ("record", "wait"):
                    takes = host.event_call_us
                self.streams[call.stream].put(work)
                if isinstance(work, CopyWork):
                    work.copy.submitted_us = float(self.env.now)
                    if work.pageable:
                        yield work.returned
                    if work.copy.nbytes > host.large_copy_bytes:
                        takes = host.large_copy_call_us
                yield self.env.timeout(takes)

    def _made(self, call: Call) -> TimedWork:
        """The work that a call asks for."""
        if call.kind == "record":
            return RecordWork(self.env)
        if call.kind == "wait":
            return WaitWork(self.env, [self.work[target].done for target in call.targets])
        if call.copy is None:
            return PauseWork(self.env, call.duration_us, call.engines)
        path = call.path or self.mover.path(call.copy.source, call.copy.destination)
        return CopyWork(self.mover, call.copy, path, call.engines, call.pinned)
