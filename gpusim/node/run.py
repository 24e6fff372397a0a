"""Calls in simulated time: the host makes one after the other, every stream does its work in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import simpy

from gpusim.engine.grid import Process
from gpusim.engine.streams import Engines, StreamQueue
from gpusim.node.result import Copy, LinkLoad, NodeResult
from gpusim.node.topology import Node
from gpusim.node.transfers import Mover
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
