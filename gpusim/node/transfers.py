"""Stages of one copy once its copy engines are free: start-up, flows over its path, and for pageable memory the host's
part, which goes through two pinned buffers in turn."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import simpy

from gpusim.node.build import Link
from gpusim.node.flows import Clock, Flow, Flows
from gpusim.node.result import STAGING, Copy
from gpusim.node.topology import Node

Process = Generator[simpy.Event, Any, None]
Work = Callable[[int], Process]
"""Moves a chunk of so many bytes."""


def engines_of(node: Node, path: Sequence[int], start: str, end: str, gpu: str) -> tuple[str, ...]:
    """Copy engines that a copy holds: the stream's GPU's between GPUs, two if it is staged through host memory, none
    within a GPU or between machines, where NICs move the data."""
    if start == end or any(node.links[index].end == "network0" for index in path):
        return ()
    staged = any(node.links[index].end.startswith("host") for index in path[:-1])
    if start in node.gpus and end in node.gpus and not staged:
        return (f"{gpu if gpu in (start, end) else start}.peer",)
    sends = (f"{start}.to_host",) if start in node.gpus else ()
    return (*sends, f"{end}.to_device") if end in node.gpus else sends


class Mover:
    """Moves the bytes of copies over the links of a node. apart: events take their own time, so that copies start the
    sooner.

    waits_us: by copy engine, how long copies have stood before it.
    """

    def __init__(self, clock: Clock, node: Node, apart: bool = False):
        rate = node.config.copies.device_gb_s
        own = (Link(f"{gpu}.memory", gpu, gpu, "memory", rate, 0.0) for gpu in node.gpus)
        self.clock, self.env, self.node, self.links = clock, clock.env, node, (*node.links, *own)
        self._own = {gpu: (len(node.links) + k,) for k, gpu in enumerate(node.gpus)}
        self.flows = Flows(clock, self.links)
        self.copies = node.config.copies
        self._event_us = self.copies.event_us if apart else 0.0
        self.waits_us: dict[str, float] = {}

    def path(self, start: str, end: str) -> tuple[int, ...]:
        """Links of a copy: those between two memories, or that of a GPU's own."""
        return self.node.path(start, end) or self._own[start]

    def engine_count(self, engine: str) -> int:
        """Return how many copies an engine of this name serves at once."""
        kind = engine.rpartition(".")[2]
        return 1 if kind == "sm" else getattr(self.copies, f"{kind}_engines")

    def move(self, copy: Copy, path: Sequence[int], engines: Sequence[str]) -> Process:
        """A copy between memories that devices reach by themselves."""
        yield self.clock.after_us(self._start_us(copy, engines))
        yield from self._flow(copy, path, copy.nbytes)
        yield self.clock.after_us(self._latency_us(path))

    def move_pageable(self, copy: Copy, path: Sequence[int], engines: Sequence[str], returned: simpy.Event) -> Process:
        """A copy from or to pageable memory. `returned` fires when the host has done its part."""
        known, to_device = self.copies, copy.source.startswith("host")
        if to_device and copy.nbytes <= known.inline_bytes:
            yield self.clock.after_us(copy.nbytes / known.inline_gb_s / 1e3)
            returned.succeed()
            yield from self._flow(copy, path, copy.nbytes)
            yield self.clock.after_us(self._latency_us(path))
            return
        began = self.clock.now_us
        cached = copy.nbytes <= known.cache_bytes
        if to_device:
            rate = known.read_cached_gb_s if cached else known.read_gb_s
        else:
            rate = known.write_cached_gb_s if cached else known.write_gb_s
        whole, rest = divmod(copy.nbytes, known.staging_bytes)
        chunks = [known.staging_bytes] * whole + [rest] * (rest > 0)
        yield self.clock.after_us(self._start_us(copy, engines))
        host = partial(self._by_host, rate)
        device = partial(self._flow, copy, path)
        filled, free = simpy.Store(self.env), simpy.Container(self.env, capacity=2, init=2)
        end = self.env.process(self._drain(device if to_device else host, len(chunks), filled, free))
        yield from self._fill(host if to_device else device, chunks, filled, free)
        if to_device:
            returned.succeed()
        yield end
        yield self.clock.after_us(self._latency_us(path))
        if not to_device:
            returned.succeed()
        beside = self._start_us(copy, engines) + self._latency_us(path) + sum(copy.held_us.values())
        copy.held_us[STAGING] = max(self.clock.now_us - began - beside, 0.0)

    def _fill(self, work: Work, chunks: list[int], filled: simpy.Store, free: simpy.Container) -> Process:
        """One half of staging: every chunk into a buffer, as soon as one of the two is free."""
        for chunk in chunks:
            yield free.get(1)
            yield from work(chunk)
            yield filled.put(chunk)

    def _drain(self, work: Work, count: int, filled: simpy.Store, free: simpy.Container) -> Process:
        """The other half: every chunk out of its buffer."""
        for _ in range(count):
            chunk = yield filled.get()
            yield from work(chunk)
            yield free.put(1)

    def _by_host(self, rate: float, nbytes: int) -> Process:
        yield self.clock.after_us(nbytes / rate / 1e3)

    def _flow(self, copy: Copy, path: Sequence[int], nbytes: int) -> Process:
        flow: Flow = self.flows.start(path, nbytes)
        yield flow.done
        for link, held in flow.held_us.items():
            name = self.links[link].name
            copy.held_us[name] = copy.held_us.get(name, 0.0) + held

    def _start_us(self, copy: Copy, engines: Sequence[str]) -> float:
        kinds = [engine.rpartition(".")[2] for engine in engines]
        if not kinds:
            kinds = ["device" if copy.source == copy.destination else "peer"]
        return sum(max(getattr(self.copies, f"{kind}_start_us") - self._event_us, 0.0) for kind in kinds)

    def _latency_us(self, path: Sequence[int]) -> float:
        return sum(self.links[index].latency_us for index in path)
