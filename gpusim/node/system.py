"""`gpusim.node.System`: copies, streams and events over the GPUs of a node, as a CUDA program would call for them.

Its streams are those of a `Device`, but for kernels, of which it knows only how long they take. Its clock counts
microseconds, and what its host asks for is in a stream when the call begins, not when it returns.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import simpy

from gpusim.config.load import Overrides
from gpusim.engine.streams import Engines, StreamQueue
from gpusim.errors import NodeError
from gpusim.node.flows import Clock
from gpusim.node.result import Copy, LinkLoad, NodeResult
from gpusim.node.streams import Event, HostThread, NodeStreams, Stream
from gpusim.node.topology import Node, load_node
from gpusim.node.transfers import Mover
from gpusim.node.work import PauseWork, TimedWork


class System(NodeStreams):
    """The GPUs of a node, from time 0.

    node, gpus, overrides: as for `load_node`. One thread of the host makes all calls, one after the other.
    """

    def __init__(self, node: str | Path | Node = "hgx_h200", gpus: int | None = None, *, overrides: Overrides = None):
        self.node = load_node(node, gpus, overrides=overrides)
        env = simpy.Environment()
        mover = Mover(Clock(env), self.node)
        super().__init__(mover, Engines(env, mover.engine_count), [], HostThread())
        self._copies: list[Copy] = []
        self._defaults: dict[str, Stream] = {}
        self.main = self._default(self.node.gpus[0]).queue

    def stream(self, gpu: int | str = 0) -> Stream:
        """A new stream of a GPU."""
        name = self._device(gpu)
        if name not in self.node.gpus:
            raise NodeError(f"a stream belongs to a GPU, not to {name}")
        queue = StreamQueue(self.env, self.engines, number=len(self.queues))
        queue.gpu = name
        self.queues.append(queue)
        return Stream(self, queue)

    def event(self, stream: Stream | None = None) -> Event:
        """A new event, recorded in `stream` if one is given."""
        return Event(self) if stream is None else stream.record()

    def copy(
        self,
        destination: int | str,
        source: int | str,
        nbytes: int,
        stream: Stream | None = None,
        *,
        pinned: bool = True,
        name: str | None = None,
    ) -> Copy:
        """Copy so many bytes between memories; returns the copy, whose times are known once it is waited for.

        destination, source: a GPU (0 or "gpu0"), "host" (the memory nearest to the GPU at the other end) or one
        socket's memory ("host1"). stream: by default the source GPU's own (for copies from a host the destination's).
        pinned: whether host memory is page-locked; if not, the call returns when the host has copied.

        Raises NodeError if there is no such device or no way between the two.
        """
        if nbytes < 0:
            raise ValueError(f"a copy cannot have {nbytes} bytes")
        start, end = self._ends(source, destination)
        stream = stream or self._default(start if start in self.node.gpus else end)
        copy = self.send(self._queue(stream), start, end, nbytes, pinned, name=name).copy
        self._copies.append(copy)
        return copy

    def kernel(self, duration_us: float, stream: Stream) -> None:
        """A kernel that keeps the stream's GPU busy for so long; kernels of a GPU run one after the other."""
        work = PauseWork(self.env, self.units(duration_us), (f"{stream.gpu}.sm",))
        self.put(self._queue(stream), work, self.calls.copy_call_us)

    def synchronize(self, what: Stream | Event | None = None) -> None:
        """The host waits for a stream, an event, or everything so far."""
        if what is None:
            self.drain()
        else:
            what.synchronize()

    def pause(self, duration_us: float) -> None:
        """The host does something else for so long."""
        self.call(duration_us)

    def run(self) -> NodeResult:
        """Waits for everything called for so far. Returns what has happened since time 0."""
        self.drain()
        total = self.call(0.0)
        used = [self._use(index, total) for index, carried in enumerate(self.mover.flows.bytes) if carried]
        title = f"{self.node.name}, {len(self.node.gpus)} GPUs"
        return NodeResult(title, tuple(self._copies), {use.name: use for use in used}, total, self.mover.waits_us)

    def put(
        self, queue: StreamQueue, work: TimedWork, duration_us: float, until: simpy.Event | None = None
    ) -> TimedWork:
        """The host adds work to a stream, where it is when the call begins."""
        super().put(queue, work, 0.0, until)
        self.call(duration_us)
        return work

    def _use(self, index: int, total: float) -> LinkLoad:
        flows, link = self.mover.flows, self.mover.links[index]
        times, shares = (np.array([step[k] for step in flows.steps[index]]) for k in (0, 2))
        held = sum(copy.held_us.get(link.name, 0.0) for copy in self._copies)
        return LinkLoad(link, flows.bytes[index], times, shares, held, total)

    def _queue(self, stream: Stream) -> StreamQueue:
        if stream.of is not self:
            raise ValueError("the stream belongs to another system")
        return stream.queue

    def _default(self, gpu: str) -> Stream:
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
