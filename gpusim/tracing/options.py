"""What of a launch is to be recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpusim.errors import TraceError


@dataclass(frozen=True)
class TraceOptions:
    """What to record. Every field accepts any sequence of numbers and keeps a sorted tuple.

    sms: SMs whose every issue and stall is recorded; the first block of a grid runs on SM 0.
    blocks: blocks, by linear number (x + grid.x * (y + grid.y * z)), whose issues, stalls, lanes' addresses and values
        of registers are recorded wherever they run. A number beyond the grid stands for nothing.
    limit: issues that are kept, of all SMs together. What comes later is not recorded: `Trace.complete` is then False
        and `Trace.until` says from which cycle on. Of changes of registers as many are kept.

    Raises TraceError for a negative number, or a limit below 1.
    """

    sms: Iterable[int] = (0,)
    blocks: Iterable[int] = (0,)
    limit: int = 200_000

    def __post_init__(self) -> None:
        for name in ("sms", "blocks"):
            given = getattr(self, name)
            numbers = tuple(sorted({int(each) for each in ([given] if isinstance(given, int) else given)}))
            if numbers and numbers[0] < 0:
                raise TraceError(f"{name} to trace are numbered from 0, got {numbers[0]}")
            object.__setattr__(self, name, numbers)
        if self.limit < 1:
            raise TraceError(f"the limit of a trace must be positive, got {self.limit}")

    @classmethod
    def of(cls, value: bool | TraceOptions | None) -> TraceOptions | None:
        """What an argument `trace=` means: None and False nothing, True the defaults."""
        if value is None or value is False:
            return None
        if value is True:
            return cls()
        if not isinstance(value, TraceOptions):
            raise TraceError(f"trace= takes True or gpusim.TraceOptions, got {type(value).__name__}")
        return value
