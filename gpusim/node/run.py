"""Calls in simulated time: the host makes one after the other, every stream does its work in order.

An event is stamped by the engine that its stream last used, as a stream of a real GPU is a queue of that engine: in
front of a copy that waits for a busy engine it is stamped when the engine is free. So the time between the events
around a copy is the copy's own, however many stand before it (recorded: peer_twice and peer_fan_out in
validate/node/results).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from gpusim.node.link import Link
from gpusim.node.result import Copy, LinkLoad, NodeResult
from gpusim.node.topology import Node
from gpusim.node.transfers import Mover, Process, is_pageable


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


class _Lane:
    """A stream's work that the host has called for, and the engines that it keeps from one piece to the next."""

    def __init__(self, env: simpy.Environment):
        self.work: deque[Call] = deque()
        self.woken = env.event()
        self.kept: list[tuple[simpy.Resource, Any]] = []
        self.names: tuple[str, ...] = ()
        self.behind_copy = False


class NodeRun:
    """One run of a list of calls in so many streams, from time 0, in microseconds."""

    def __init__(self, node: Node, calls: Sequence[Call], streams: int):
        self.node, self.calls = node, calls
        self.env = simpy.Environment()
        rate = node.config.copies.device_gb_s
        own = (Link(f"{gpu}.memory", gpu, gpu, "memory", rate, 0.0) for gpu in node.gpus)
        self.mover = Mover(self.env, node.config, (*node.links, *own))
        self.own = {gpu: len(node.links) + k for k, gpu in enumerate(node.gpus)}
        self.engines: dict[str, simpy.Resource] = {}
        self.waits: dict[str, float] = {}
        self.done = {call: self.env.event() for call in calls if call.stream is not None}
        self.returned: dict[Call, simpy.Event] = {}
        self.stamped_by = _stamping(calls)
        self.lanes = [_Lane(self.env) for _ in range(streams)]

    def result(self) -> NodeResult:
        """Run everything."""
        copies = [call.copy for call in self.calls if call.copy is not None]
        for copy in copies:
            copy.held_us = {}
        for lane in self.lanes:
            self.env.process(self._stream(lane))
        self.env.process(self._host())
        self.env.run()
        total = float(self.env.now)
        used = [self._use(index, copies, total) for index, carried in enumerate(self.mover.flows.bytes) if carried]
        title = f"{self.node.name}, {len(self.node.gpus)} GPUs"
        return NodeResult(title, tuple(copies), {use.name: use for use in used}, total, self.waits)

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
                yield self.env.all_of([self.done[target] for target in call.targets])
            else:
                self._hand_over(call)
                takes = host.copy_call_us
                if call.kind in ("record", "wait"):
                    takes = host.event_call_us
                elif call.copy is not None:
                    if is_pageable(call.copy, call.pinned):
                        yield self.returned[call]
                    if call.copy.nbytes > host.large_copy_bytes:
                        takes = host.large_copy_call_us
                yield self.env.timeout(takes)

    def _hand_over(self, call: Call) -> None:
        assert call.stream is not None
        if call.copy is not None:
            call.copy.submitted_us = float(self.env.now)
            self.returned[call] = self.env.event()
        lane = self.lanes[call.stream]
        lane.work.append(call)
        if not lane.woken.triggered:
            lane.woken.succeed()

    def _stream(self, lane: _Lane) -> Process:
        """The work of a stream, in order."""
        while True:
            if not lane.work:
                self._release(lane)
                lane.woken = self.env.event()
                yield lane.woken
            call = lane.work.popleft()
            if call.kind == "wait":
                yield from self._wait(lane, call)
            elif call.kind == "record":
                if not lane.behind_copy:
                    yield from self._take(lane, self.stamped_by[call])
                call.time_us = float(self.env.now)
            else:
                if lane.behind_copy:
                    self._release(lane)  # others that wait have their turn between two copies
                asked = float(self.env.now)
                yield from self._take(lane, call.engines)
                yield from self._work(call, asked)
                lane.behind_copy = call.kind == "copy"
            self.done[call].succeed()

    def _wait(self, lane: _Lane, call: Call) -> Process:
        pending = [self.done[target] for target in call.targets if not self.done[target].processed]
        if pending:
            self._release(lane)
            yield self.env.all_of(pending)

    def _work(self, call: Call, asked: float) -> Process:
        copy = call.copy
        if copy is None:
            yield self.env.timeout(call.duration_us)
            return
        copy.began_us = float(self.env.now)
        for engine in call.engines:
            self.waits[engine] = self.waits.get(engine, 0.0) + copy.began_us - asked
        path = call.path or (self.own[copy.source],)
        if is_pageable(copy, call.pinned):
            yield from self.mover.move_pageable(copy, path, call.engines, self.returned[call])
        else:
            yield from self.mover.move(copy, path, call.engines)
        copy.ended_us = float(self.env.now)

    def _take(self, lane: _Lane, names: tuple[str, ...]) -> Process:
        """Have these engines and no others. Senders come before receivers, so no two copies wait for each other."""
        if lane.names == names:
            return
        self._release(lane)
        for name in names:
            if name not in self.engines:
                self.engines[name] = simpy.Resource(self.env, self.mover.engine_count(name))
            request = self.engines[name].request()
            yield request
            lane.kept.append((self.engines[name], request))
        lane.names = names

    def _release(self, lane: _Lane) -> None:
        for engine, request in lane.kept:
            engine.release(request)
        lane.kept, lane.names, lane.behind_copy = [], (), False


def _stamping(calls: Sequence[Call]) -> dict[Call, tuple[str, ...]]:
    """Engines that stamp each record: the copy engines that the stream used last, in a new stream those that it uses
    first; none behind a kernel."""
    first: dict[int, tuple[str, ...]] = {}
    for call in calls:
        if call.stream is not None and call.kind in ("copy", "kernel"):
            first.setdefault(call.stream, call.engines if call.kind == "copy" else ())
    last, found = dict(first), {}
    for call in calls:
        if call.stream is None:
            continue
        if call.kind == "record":
            found[call] = last.get(call.stream, ())
        elif call.kind != "wait":
            last[call.stream] = call.engines if call.kind == "copy" else ()
    return found
