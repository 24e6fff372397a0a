"""What streams do for a program beside launches, copies and events: calls of the host, waits for words."""

from __future__ import annotations

from collections.abc import Callable

import simpy

from gpusim.engine.grid import Process
from gpusim.engine.streams import StreamQueue
from gpusim.node.work import TimedWork


class CallWork(TimedWork):
    """A function of the host, behind which the stream goes on. begin: lets it be called, and an event happen when it
    has returned. duration: what calling it takes."""

    def __init__(self, env: simpy.Environment, begin: Callable[[simpy.Event], object], duration: float):
        super().__init__(env)
        self._begin, self._duration = begin, duration

    def _do(self, stream: StreamQueue) -> Process:
        stream.release()
        yield self.env.timeout(self._duration)
        returned = self.env.event()
        self._begin(returned)
        yield returned


class LookWork(TimedWork):
    """The stream goes on when a condition holds, and then takes some time. holds: looks. what: says it in words. found:
    has to happen when it holds; `waiting` has all works that wait for theirs."""

    def __init__(
        self, env: simpy.Environment, holds: Callable[[], bool], what: str, waiting: list[LookWork], takes: float
    ):
        super().__init__(env)
        self.holds, self.what, self._waiting, self._takes = holds, what, waiting, takes
        self.found = env.event()

    def _do(self, stream: StreamQueue) -> Process:
        if not self.holds():
            stream.release()
            self._waiting.append(self)
            yield self.found
        yield self.env.timeout(self._takes)
