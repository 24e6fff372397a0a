"""How far a long comparison is and how long it will still take, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

PATIENCE_S = 2.0
"""A run shorter than this shows nothing."""
INTERVAL_S = 15.0
"""Where standard error is no terminal, a line this often; a terminal's line is rewritten with each point."""


class Progress:
    """Counts work done against all work; the time left follows from the pace so far.

    work: of all tasks that are to be done, in any unit, as long as a task of twice the work takes about twice as long.
    """

    def __init__(
        self, tasks: int, work: float, *, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tasks, self._work = tasks, work
        self._out = out or sys.stderr
        self._clock = clock
        self._started = self._shown = clock()
        self._tasks_done, self._work_done = 0, 0.0
        # The first task waits for processes to start, which says nothing about the pace.
        self._first_at, self._first_work = 0.0, 0.0
        self._open = False

    def done(self, work: float) -> None:
        """One more task, of so much work."""
        self._tasks_done += 1
        self._work_done += work
        now = self._clock()
        if self._tasks_done == 1:
            self._first_at, self._first_work = now, work
        wait = 0.0 if self._out.isatty() else INTERVAL_S
        if now - self._started < PATIENCE_S or now - self._shown < wait or self._tasks_done == self._tasks:
            return
        self._shown = now
        elapsed = now - self._started
        text = f"{self._tasks_done} of {self._tasks} points, {_clock(elapsed)}"
        if self._work_done > self._first_work:
            pace = (now - self._first_at) / (self._work_done - self._first_work)
            text += f", about {_clock(pace * (self._work - self._work_done))} left"
        self._open = self._out.isatty()
        print(f"\r{text}\x1b[K" if self._open else text, end="" if self._open else "\n", file=self._out, flush=True)

    def clear(self) -> None:
        """Make room for another line of output on the same terminal."""
        if self._open:
            print("\r\x1b[K", end="", file=self._out, flush=True)
            self._open = False


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
