"""Work of a node's streams beside kernels: copies, events, waits, pauses and calls of the host.

Each is a `QueuedWork` of `engine.streams`; times are those of the environment, as its `Clock` counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import simpy

from gpusim.engine.grid import Process
from gpusim.engine.streams import KernelWork, StreamQueue
from gpusim.node.result import Copy
from gpusim.node.transfers import Mover
from gpusim.units import byte_text

COLLECTIVE = "collective"
"""Kind of a span in which GPUs communicate."""


class TimedWork:
    """Something that happens at once, whereupon the stream goes on after some time. submitted: time at which the host
    has put it into its stream."""

    engines: tuple[str, ...] | None = None
    submitted: float = 0

    def __init__(self, env: simpy.Environment, effect: Callable[[], object] | None = None, takes: float = 0):
        self.env, self._effect, self.takes = env, effect, takes
        self.done = env.event()

    def run(self, stream: StreamQueue) -> Process:
        """Waits for the host, then does it."""
        if self.submitted > self.env.now:
            stream.release()
            yield self.env.timeout(self.submitted - self.env.now)
        yield from self._do(stream)
        self.done.succeed()

    def span(self) -> tuple[str, str, float, float] | None:
        """Nothing to show."""
        return None

    def _do(self, stream: StreamQueue) -> Process:
        if self._effect is not None:
            self._effect()
        yield self.env.timeout(self.takes)


class RecordWork(TimedWork):
    """A point at which an event is recorded; `time` is when it was reached. stamped_by: engines that the stream must
    have for that, if it knows better than `StreamQueue.stamping`. takes: time until the stream goes on."""

    time: float | None = None

    def __init__(self, env: simpy.Environment, stamped_by: tuple[str, ...] | None = None, takes: float = 0):
        super().__init__(env, takes=takes)
        self._stamped_by = stamped_by

    def _do(self, stream: StreamQueue) -> Process:
        stamped_by = stream.stamping() if self._stamped_by is None else self._stamped_by
        if not stream.behind_copy:
            yield from stream.take(stamped_by)
        self.time = self.env.now
        if self.takes:
            yield self.env.timeout(self.takes)


class WaitWork(TimedWork):
    """The stream goes on when other work is done, and then takes some time."""

    def __init__(self, env: simpy.Environment, events: Sequence[simpy.Event], takes: float = 0):
        super().__init__(env, takes=takes)
        self.events = events

    def _do(self, stream: StreamQueue) -> Process:
        pending = [event for event in self.events if not event.processed]
        if pending:
            stream.release()
            yield self.env.all_of(pending)
        if self.takes and not stream.behind_copy:
            yield self.env.timeout(self.takes)


class PauseWork(TimedWork):
    """Something that keeps engines for a known time, such as a kernel of which no more is known."""

    def __init__(self, env: simpy.Environment, duration: float, engines: tuple[str, ...]):
        super().__init__(env)
        self.duration, self.engines = duration, ()
        self._held = engines

    def _do(self, stream: StreamQueue) -> Process:
        if stream.behind_copy:
            stream.release()
        yield from stream.take(self._held)
        yield self.env.timeout(self.duration)
        stream.behind_copy = False


class Meeting:
    """What several streams do together: it begins when as many `parts` have come, and its effect happens once, at its
    end. absent: says who has not come; lost: why somebody never will."""

    lost = ""

    def __init__(self, env: simpy.Environment, parts: int, effect: Callable[[], object], absent: Callable[[], str]):
        self.begins, self._missing, self._effect, self.absent = env.event(), parts, effect, absent

    def come(self) -> None:
        """A stream has come to it."""
        self._missing -= 1
        if not self._missing:
            self.begins.succeed()

    def end(self) -> None:
        """It has taken its time."""
        effect, self._effect = self._effect, lambda: None
        effect()


class JointWork(TimedWork):
    """A stream's part in meetings that are all under way at once, and take it so long from the last beginning. began:
    when that was, and `came` when the stream did. given_up: fires when it is to wait for that no more. blocks: makes
    the part of a stream's work that is to have room on the GPU before it comes, see `Engine.room_for`."""

    came = began = 0.0
    blocks: Callable[[StreamQueue], KernelWork] | None = None

    def __init__(
        self, env: simpy.Environment, meetings: Sequence[Meeting], given_up: simpy.Event, duration: float, name: str
    ):
        super().__init__(env)
        self.meetings, self._given_up, self.duration, self._name = meetings, given_up, duration, name

    def _do(self, stream: StreamQueue) -> Process:
        stream.release()
        held = self.blocks(stream) if self.blocks is not None else None
        try:
            if held is not None:
                yield from held.run(stream)
            self.came = self.env.now
            for each in self.meetings:
                each.come()
            began = self.env.all_of([each.begins for each in self.meetings])
            yield began | self._given_up
            self.began = self.env.now
            if began.triggered:
                if held is not None:
                    held.let_on(self.duration)
                yield self.env.timeout(self.duration)
                for each in self.meetings:
                    each.end()
        finally:
            if held is not None:
                held.let_on(0)
        stream.behind_copy = False

    def span(self) -> tuple[str, str, float, float]:
        """From when the stream has come, since a GPU that waits for others can do nothing else there."""
        return COLLECTIVE, self._name, self.came, self.env.now


class HostWork(TimedWork):
    """A function of the host, after which the stream goes on. duration: what calling it takes. An event that it returns
    is waited for."""

    def __init__(self, env: simpy.Environment, call: Callable[[], Any], duration: float):
        super().__init__(env)
        self._call, self.duration = call, duration

    def _do(self, stream: StreamQueue) -> Process:
        stream.release()
        self._began = self.env.now
        yield self.env.timeout(self.duration)
        returned = self._call()
        if isinstance(returned, simpy.Event):
            yield returned

    def span(self) -> tuple[str, str, float, float]:
        """From the end of the work before it."""
        return "host", getattr(self._call, "__name__", "function"), self._began, self.env.now


class CopyWork(TimedWork):
    """A copy. path: links that it takes, none if it travels within the command. engines: that it holds; `returned`
    fires when the host has done its part of a pageable one. effect: moves the bytes, when they have arrived."""

    def __init__(
        self,
        mover: Mover,
        copy: Copy,
        path: tuple[int, ...],
        engines: tuple[str, ...],
        pinned: bool = True,
        effect: Callable[[], Any] | None = None,
    ):
        super().__init__(mover.env, effect)
        self._mover, self.copy, self._path, self.engines = mover, copy, path, engines if path else None
        self._held = engines
        self.pageable = not pinned and any(each.startswith("host") for each in (copy.source, copy.destination))
        self.returned = mover.env.event()

    def _do(self, stream: StreamQueue) -> Process:
        if stream.behind_copy:
            stream.release()  # others that wait have their turn between two copies
        else:
            stream.copies_since = self.env.now
        mover, copy = self._mover, self.copy
        if self._path and stream.used == ():
            yield mover.clock.after_us(mover.copies.takeover_us)
        asked = mover.clock.now_us
        yield from stream.take(self._held)
        copy.began_us = mover.clock.now_us
        self._began = self.env.now
        for engine in self._held:
            mover.waits_us[engine] = mover.waits_us.get(engine, 0.0) + copy.began_us - asked
        if not self._path:
            yield mover.clock.after_us(mover.copies.command_us + copy.nbytes / mover.copies.inline_gb_s / 1e3)
        elif self.pageable:
            yield from mover.move_pageable(copy, self._path, self._held, self.returned)
        else:
            yield from mover.move(copy, self._path, self._held)
        copy.ended_us = mover.clock.now_us
        stream.engines.stir()
        stream.behind_copy = bool(self._path)
        if self._effect is not None:
            self._effect()

    def span(self) -> tuple[str, str, float, float]:
        """From when its engine has taken it on."""
        return "copy", f"{self.copy.name} {byte_text(self.copy.nbytes)}", self._began, self.env.now
