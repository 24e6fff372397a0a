"""How far a program's launches have come, on standard error."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from gpusim.driver.codes import say
from gpusim.driver.outputs.log import LaunchLog
from gpusim.driver.work.launches import LaunchCall, Observer
from gpusim.units import scaled
from isa.demangle import short_name

if TYPE_CHECKING:
    from gpusim.device import Device
    from gpusim.result import Result

_FIRST_S, _LAST_S = 2.0, 60.0
"""Seconds from the device's beginning to the first line, and from one line to the next in the end: each time double."""


class Status(Observer):
    """A line now and then: launches that have ended, the one that runs, and warp instructions a second of the host."""

    def __init__(self, log: LaunchLog):
        self._log = log
        self._wait, self._then, self._issued = _FIRST_S, time.monotonic(), 0

    def began(self, device: Device) -> None:
        self._then = time.monotonic()

    def advanced(self, call: LaunchCall, cycles: int, finished: int, issued: int) -> None:
        name, blocks = short_name(call.symbol), call.launch.blocks
        self._say(issued, f", now {call.number}, {name}: {finished:,} of {blocks:,} blocks, cycle {cycles:,}")

    def launched(self, call: LaunchCall, result: Result, cycle: int) -> None:
        self._say(0, "")

    def _say(self, issued: int, runs: str) -> None:
        past = time.monotonic() - self._then
        if past < self._wait:
            return
        issued += sum(group.instructions for group in list(self._log.groups.values()))
        rate = scaled(max(issued - self._issued, 0) / past)
        say(f"{self._log.calls:,} launches done{runs}; {rate}instructions a second")
        self._wait, self._then, self._issued = min(2 * self._wait, _LAST_S), time.monotonic(), issued


def tell_when_asked(log: LaunchLog) -> None:
    """From now on SIGUSR1 prints the table of the launches that have ended."""
    signal.signal(signal.SIGUSR1, lambda *_: say(f"so far\n{log.render()}"))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
