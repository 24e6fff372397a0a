"""Functions that are exported, so that programs which link them can start, and always refused: which, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpusim.driver.codes import DriverError, ManagementCode, ProfilerCode, ResultCode, fail_if, say
from gpusim.driver.registry import EntryPoint
from gpusim.driver.state import Driver

_TEXT = Path(__file__).with_suffix(".txt").read_text("utf-8")
REASONS = [tuple(reversed(line.split("\t"))) for line in _TEXT.splitlines()[1:]]
"""Reasons for refusals, each with a pattern of the functions' names; the first that matches counts."""


ASKED_BY_LIBRARIES = ("cudaGetExportTable", "cuDeviceGetLuid")
"""Functions that libraries try and do without: their refusal is not printed."""


def reason(symbol: str) -> str:
    """Return why a function is refused. Raises KeyError if no reason matches."""
    for why, names in REASONS:
        if re.search(names, symbol):
            return why
    raise KeyError(symbol)


@dataclass(frozen=True)
class _Refusal:
    symbol: str

    def __call__(self, driver: Driver) -> None:
        """The user is told each reason once; programs ask the management library for all that they can."""
        fail_if(self.symbol.startswith("nvml"), ManagementCode.NOT_SUPPORTED)
        why = reason(self.symbol)
        if why not in driver.told and self.symbol not in ASKED_BY_LIBRARIES:
            driver.told.add(why)
            say(f"{self.symbol} is not supported: {why}")
        raise DriverError((ProfilerCode if self.symbol[:5] == "cupti" else ResultCode).NOT_SUPPORTED)


def refusal(symbol: str) -> EntryPoint:
    """Make the answer of a function that is refused."""
    return EntryPoint(symbol, (), (), _Refusal(symbol), since=0, anytime=not symbol.startswith("nvml"))
