"""Outputs of a program's launches beside the table: options as plain values, and the observers that make them."""

from __future__ import annotations

import math
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpusim.config import GPUConfig
from gpusim.driver.codes import say
from gpusim.driver.outputs.log import LaunchLog
from gpusim.driver.work.launches import CopyCall, LaunchCall, Observer
from gpusim.host.options import checks_of
from gpusim.units import counted, scaled
from isa.demangle import full_name, short_name

if TYPE_CHECKING:
    from gpusim.device import Device
    from gpusim.driver.outputs.gpus import GpuLog
    from gpusim.result import Result
    from gpusim.tracing.accel_sim import AccelSimTraces

REPORT_LIMIT = 200


@dataclass(frozen=True)
class Telling:
    """Options, `dataclasses.asdict` of which are JSON; `Telling(**...)` takes them back.

    report: folder for pages, of which each shows `sections` (names of `gpusim.report_html.sections.NAMES`, none for
    all) and which are at most `report_limit`. trace, save: files. check: names of checks.
    kernel, first, last: which launches have pages, are checked and saved: those whose kernel's full name has a match of
    the regular expression, and whose number lies between the two.
    process: which process of the program it is for; from the second on, files have its number in their names.

    Raises CheckError for an unknown check.
    """

    report: str | None = None
    sections: Sequence[str] = ()
    report_limit: int = REPORT_LIMIT
    trace: str | None = None
    save: str | None = None
    check: Sequence[str] = ()
    kernel: str = ""
    first: int = 1
    last: int | None = None
    process: int = 1

    def __post_init__(self) -> None:
        checks_of(self.check)

    def chooses(self, number: int, symbol: str) -> bool:
        """Return whether a launch is among those chosen, by its number and its kernel's mangled name."""
        within = self.first <= number and (self.last is None or number <= self.last)
        return within and (not self.kernel or re.search(self.kernel, full_name(symbol)) is not None)

    def observers(self, config: GPUConfig, mode: str, gpus: GpuLog | None = None) -> list[Observer]:
        """Make the observers that do it. mode: of the launches; gpus: of several, who is told as well. Raises OSError
        if a file cannot be made."""
        # Imported where they are asked for: a program's start waits for it.
        found: list[Observer] = []
        if self.check:
            found.append(Checker(self))
        if self.report is not None:
            from gpusim.driver.outputs.pages import PageWriter

            how = self.sections, self.report_limit, mode, gpus
            found.append(PageWriter(self._own(self.report), config, self.chooses, *how))
        if self.trace is not None:
            from gpusim.driver.outputs.timeline import Timeline

            found.append(Timeline(self._own(self.trace), config))
        if self.save is not None:
            from gpusim.driver.outputs.saving import LaunchSaver

            found.append(saver := LaunchSaver(self._own(self.save), config, self.chooses))
            found.append(saver.streams)
        return found if gpus is None else [*found, gpus]

    def _own(self, name: str) -> Path:
        """The process's file or folder: 'run-2.perfetto-trace' for 'run.perfetto-trace'."""
        path = Path(name)
        return path if self.process == 1 else path.with_name(f"{path.stem}-{self.process}{path.suffix}")


class Checker(Observer):
    """Has launches checked."""

    def __init__(self, telling: Telling):
        self.telling, self._flags = telling, checks_of(telling.check)

    def asked(self, call: LaunchCall) -> None:
        if self.telling.chooses(call.number, call.symbol):
            call.checks |= self._flags


class AccelSimExport(Observer):
    """Has the device write launches and copies as traces for another simulator. Of the observers of a driver whose
    launches are functional."""

    def __init__(self, traces: AccelSimTraces):
        self.traces = traces

    def began(self, device: Device) -> None:
        device.accel_sim = self.traces

    def copied(self, copy: CopyCall, cycle: int, began: int) -> None:
        if copy.kind == "HtoD":
            self.traces.memcpy_htod(copy.target, copy.nbytes)

    def launching(self, call: LaunchCall, cycle: int) -> None:
        self.traces.stream = call.stream


_FIRST_S, _LAST_S = 2.0, 60.0
"""Seconds from the device's beginning to the first line, and from one line to the next in the end: each time double."""


class Status(Observer):
    """A line now and then: launches that have ended, the one that runs, and warp instructions a second of the host.

    often: at least every minute; if not, after half a minute, and then each time twice as long.
    """

    def __init__(self, log: LaunchLog, often: bool = True):
        self._log, self._longest = log, _LAST_S if often else math.inf
        self._wait, self._then, self._issued = _FIRST_S if often else _LAST_S / 2, time.monotonic(), 0

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
        say(f"{counted(self._log.calls, 'launch')} done{runs}; {rate}instructions a second")
        self._wait, self._then, self._issued = min(2 * self._wait, self._longest), time.monotonic(), issued


def tell_when_asked(log: LaunchLog) -> None:
    """From now on SIGUSR1 prints the table of the launches that have ended."""
    signal.signal(signal.SIGUSR1, lambda *_: say(f"so far\n{log.render()}"))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
