"""How simulated time passes for the processes of one program, which share a node.

Each process has a host clock, which goes on by what its calls take, and to the end of what they wait for; what it
computes in between takes no time, unless that is measured. Nothing happens before every process that could still do
something by then has done it (conservative synchronization: Chandy and Misra, "Distributed Simulation", 1979), so times
do not depend on how the system schedules the processes. One that neither calls nor computes waits for something else,
such as a message of another process, and is not waited for; neither is one that has not begun. Its clock then goes on
by whole periods of what a GPU does by itself, so that its work takes as long at any time.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import simpy

from gpusim.driver.caller import caller
from gpusim.node.streams import HostThread

_GLANCE_SECONDS, _OTHERS_SECONDS, _LOOK_SECONDS, _QUIET_LOOKS, _ASLEEP_LOOKS = 0.0002, 0.05, 0.005, 3, 100
_LISTENS, _SLEEPS = re.compile("pipe_read|unix_stream|^do_wait"), re.compile("futex|poll|nanosleep|select")
"""Functions of Linux in which a thread waits for another process, and in which it may wait for a time."""
_MOST_COMPUTED_NS = 30 * 10**9
"""Processor time without a call after which a process may wait for another one in a loop."""


class HostClock(HostThread):
    """The host clock of the process that calls, as `time`. env: of the simulation, where that does not wait for some of
    several processes; step: period of a GPU's refreshes of memory and turns of sub-partitions, by whose multiples their
    clocks then go on. measured: it goes on by what processes compute, too."""

    env: simpy.Environment | None = None
    step = 1
    measured = False

    def __init__(self) -> None:
        self._times: dict[Any, float] = {}

    @property
    def time(self) -> float:  # pyrefly: ignore[bad-override]
        """Time of the process that this thread works for."""
        return self.of(caller().process)

    @time.setter
    def time(self, value: float) -> None:
        self._times[caller().process] = value

    def of(self, process: Any) -> float:
        """Time of a process, by its `Caller.process`."""
        found = self._times.get(process, 0.0)
        behind = self.env.now - found if self.env is not None else 0
        return found + self.step * math.ceil(behind / self.step) if behind > 0 else found

    def meet(self, latest: float) -> float:
        """Time from which processes go on together, of which one has come as late as this."""
        return self.step * math.ceil(latest / self.step) if self.env is not None else latest

    def computed(self, process: Any, takes: float) -> None:
        """A process has computed for so long since its last call."""
        self._times[process] = self._times.get(process, 0.0) + takes

    def waited(self, process: Any, until: float) -> None:
        """A process has waited until some time."""
        self._times[process] = max(self._times.get(process, 0.0), until)


class Quiet:
    """Whether a process neither calls nor computes, nor those beside it: its parent and children, which may be about to
    send it what it waits for. One that looks for something time and again is quiet after a while. number: the system's.
    calls: how often it has called or returned so far."""

    def __init__(self, number: int, calls: Callable[[], int]):
        self._number, self._calls, self._looks, self._asleep = number, calls, 0, 0
        self._seen = self._state()
        self._since = self._seen[1]

    def _state(self) -> tuple[int, int]:
        """Its calls, and the processor time it has taken in nanoseconds."""
        return self._calls(), processor_ns(self._number)

    def look(self) -> None:
        """Look again, some time after the last look."""
        state = self._state()
        if state[0] != self._seen[0]:
            self._asleep, self._since = 0, state[1]
        is_asleep = not _is_runnable(self._number)
        self._asleep += is_asleep
        still = state == self._seen and is_asleep and not any(map(_is_runnable, _beside(self._number)))
        self._looks = self._looks + 1 if still else 0
        self._seen = state

    def __bool__(self) -> bool:
        state = self._state()
        if state[0] != self._seen[0]:
            return False
        still = self._looks >= _QUIET_LOOKS and state == self._seen
        return still or self._asleep >= _ASLEEP_LOOKS or state[1] - self._since > _MOST_COMPUTED_NS

    def rest(self) -> None:
        """It is quiet, and all others that could wake it."""
        self._looks, self._seen = _QUIET_LOOKS, self._state()

    def doubt(self) -> None:
        """What another process has done meanwhile may be about to wake it."""
        self._looks = 0


def processor_ns(process: int) -> int:
    """Return the processor time that a process has taken (clock_getcpuclockid), 0 for one that has ended."""
    with suppress(OSError):
        return time.clock_gettime_ns(~process << 3 | 2)
    return 0


def told_of(process: int | str, thread: int | str, what: str) -> str:
    """Return what the system tells of a thread, nothing of one that has ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/task/{thread}/{what}").read_text()
    return ""


def _threads(process: int) -> list[str]:
    with suppress(OSError):
        return os.listdir(f"/proc/{process}/task")
    return []


def _is_runnable(process: int) -> bool:
    """Return whether a thread runs, waits for a processor or for a disk (proc_pid_stat)."""
    return any(told_of(process, each, "stat").rpartition(")")[2][1:2] in ("R", "D") for each in _threads(process))


def _beside(process: int) -> list[int]:
    """A process's parent, and the children of its main thread."""
    parent = told_of(process, process, "stat").rpartition(")")[2].split()[1:2]
    return [*map(int, parent + told_of(process, process, "children").split())]


class SharedTime:
    """The processes of a program on one clock. members: `PassingTime` of those that use a GPU, by `Caller.process`.
    dropped: how often all work was taken out of streams; failed: one of whose launches failed, until that is done.
    changed: notified when a process has called, with the driver's lock."""

    failed: Any = None

    def __init__(self, lock: threading.RLock):
        self.changed = threading.Condition(lock)
        self.members: dict[Any, Any] = {}
        self.host = HostClock()
        self.dropped = 0
        self._waiting = 0
        self._looks = False  # one that waits, at the others
        self._asleep: dict[str, tuple[str, float]] = {}  # by thread: what it has run, and since when

    def wait(self, done: simpy.Event) -> None:
        """Let the process that calls wait until something happens, or is dropped."""
        self.members[caller().process].run_until(done)

    @contextmanager
    def waiting(self, member: Any, pending: Callable[[], bool]) -> Iterator[None]:
        """A call of a process waits within, as long as this is so."""
        for each in self.members.values():
            if each is not member:
                each.quiet.doubt()
        member.waiting.append(pending)
        self._waiting += 1
        try:
            yield
        finally:
            member.waiting.remove(pending)
            self._waiting -= 1

    def calls(self, member: Any, begins: bool) -> None:
        """A call of a process begins or ends: those that wait for its clock look again then."""
        if member is not None and self.host.measured:
            member.computed(begins)
        if self._waiting and not begins:
            self.changed.notify_all()

    def leave(self, member: Any) -> None:
        """A process has ended."""
        self.members = {process: each for process, each in self.members.items() if each is not member}
        self.changed.notify_all()

    def comes_first(self, member: Any) -> float:
        """Time by which another process may still do something, infinite if all wait."""
        return min((each.acts() for each in self.members.values() if each is not member), default=math.inf)

    def let_in(self, member: Any) -> None:
        """Let other processes call. One of those that wait looks at them meanwhile."""
        if self.changed.wait(_OTHERS_SECONDS if self._looks else _GLANCE_SECONDS) or self._looks:
            return
        self._looks = True
        try:
            others = [each for each in self.members.values() if each is not member and not each.waiting]
            if not any(told_of(each.number, each.number, "wchan") == "0" for each in others) and self._all_rest():
                for each in others:
                    each.quiet.rest()
            elif not self.changed.wait(_LOOK_SECONDS):
                for each in others:
                    each.quiet.look()
        finally:
            self._looks = False

    def _all_rest(self) -> bool:
        """Return whether nothing of the program runs, or is about to: all threads wait for messages or have slept for
        long, and no call or answer is on its way. So it was between the first line and the last: one that was woken by
        then, or has run meanwhile, is seen."""
        numbers = {each.number for each in self.members.values()}
        ran = [(each, processor_ns(each)) for each in numbers.union(*map(_beside, numbers))]
        listen = all(each.listens() for each in self.members.values())
        return listen and all(self._rests(each) and processor_ns(each) == before for each, before in ran)

    def _rests(self, process: int) -> bool:
        rest, now = True, time.monotonic()
        for thread in _threads(process):
            where = told_of(process, thread, "wchan")
            if not _LISTENS.search(where):
                ran = told_of(process, thread, "schedstat")
                if self._asleep.setdefault(thread, (ran, now))[0] != ran:
                    self._asleep[thread] = ran, now
                long = now > self._asleep[thread][1] + _QUIET_LOOKS * _LOOK_SECONDS
                rest = rest and long and _SLEEPS.search(where) is not None
        return rest
