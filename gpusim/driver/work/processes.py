"""How simulated time passes for the processes of one program, which share a node.

Each process has a host clock, which goes on by what its calls take, and to the end of what they wait for; what it
computes in between takes no time. Nothing happens before every process that could still do something by then has done
it (conservative synchronization: Chandy and Misra, "Distributed Simulation", 1979), so times do not depend on how the
system schedules the processes. One that neither calls nor computes waits for something else, such as a message of
another process, and is not waited for; its clock then goes on to the time at which it calls again.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import simpy

from gpusim.driver.caller import caller
from gpusim.node.streams import HostThread

if TYPE_CHECKING:
    from gpusim.driver.work.passing import PassingTime

_LOOK_SECONDS, _QUIET_LOOKS = 0.005, 3


class HostClock(HostThread):
    """The host clock of the process that calls, as `time`."""

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
        return self._times.get(process, 0.0)


class Quiet:
    """Whether a process neither calls nor computes. number: the system's. calls: how often it has called or returned
    so far."""

    def __init__(self, number: int, calls: Callable[[], int]):
        self._number, self._calls, self._looks = number, calls, 0
        self._seen = self._state()

    def _state(self) -> tuple[int, int]:
        """Its calls, and the processor time it has taken in nanoseconds (clock_getcpuclockid)."""
        with suppress(OSError):
            return self._calls(), time.clock_gettime_ns(~self._number << 3 | 2)
        return self._calls(), 0

    def look(self) -> None:
        """Look again, some time after the last look."""
        state = self._state()
        self._looks = self._looks + 1 if state == self._seen and not self._is_runnable() else 0
        self._seen = state

    def __bool__(self) -> bool:
        return self._looks >= _QUIET_LOOKS and self._state() == self._seen

    def again(self) -> None:
        """Doubt it if a thread can run: what this process has done meanwhile may have woken it."""
        if self._looks and self._is_runnable():
            self._looks = 0

    def _is_runnable(self) -> bool:
        """Return whether a thread runs, waits for a processor or for a disk (proc_pid_stat)."""
        for task in Path(f"/proc/{self._number}/task").glob("*/stat"):
            with suppress(OSError):
                if task.read_text().rpartition(")")[2].split()[0] in "RD":
                    return True
        return False


class SharedTime:
    """The processes of a program on one clock. members: those that use a GPU, by `Caller.process`. dropped: how often
    all work was taken out of streams. changed: notified when a process has called, with the driver's lock."""

    def __init__(self, lock: threading.RLock):
        self.changed = threading.Condition(lock)
        self.members: dict[Any, PassingTime] = {}
        self.host = HostClock()
        self.dropped = 0
        self._waiting = 0

    def wait(self, done: simpy.Event) -> None:
        """Let the process that calls wait until something happens, or is dropped."""
        self.members[caller().process].run_until(done)

    @contextmanager
    def waiting(self, member: PassingTime, pending: Callable[[], bool]) -> Iterator[None]:
        """A call of a process waits within, as long as this is so."""
        for each in self.members.values():
            if each is not member:
                each.quiet.again()
        member.waiting.append(pending)
        self._waiting += 1
        try:
            yield
        finally:
            member.waiting.remove(pending)
            self._waiting -= 1

    def called(self) -> None:
        """A process has called: those that wait for its clock look again."""
        if self._waiting:
            self.changed.notify_all()

    def leave(self, member: PassingTime) -> None:
        """A process has ended."""
        self.members = {process: each for process, each in self.members.items() if each is not member}
        self.changed.notify_all()

    def comes_first(self, member: PassingTime) -> float:
        """Time by which another process may still do something, infinite if all wait."""
        return min((each.acts() for each in self.members.values() if each is not member), default=math.inf)

    def let_in(self, member: PassingTime) -> None:
        """Let other processes call."""
        if not self.changed.wait(_LOOK_SECONDS):
            for each in self.members.values():
                if each is not member and not each.waiting:
                    each.quiet.look()
