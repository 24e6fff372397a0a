"""What streams of a program do that those of a device do not: they wait for words of memory."""

from __future__ import annotations

from collections.abc import Callable

import simpy

from gpusim.engine.grid import Process
from gpusim.engine.streams import StreamQueue
from gpusim.node.work import TimedWork


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
