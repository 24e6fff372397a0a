"""The one place that turns microseconds into units of simulated time, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import simpy


@dataclass(frozen=True)
class Clock:
    """The time of an environment. per_us: its units in a microsecond. whole: everything happens at whole units, such as
    SM clock cycles, to which durations are rounded up."""

    env: simpy.Environment
    per_us: float = 1.0
    whole: bool = False

    @property
    def now_us(self) -> float:
        """The time in microseconds."""
        return float(self.env.now / self.per_us)

    def nearest(self, time: float) -> float:
        """The nearest time at which something may happen."""
        return round(time) if self.whole else time

    def after(self, duration: float) -> simpy.Event:
        """An event after so many units."""
        return self.env.timeout(math.ceil(duration) if self.whole else duration)

    def after_us(self, duration_us: float) -> simpy.Event:
        """An event after so many microseconds."""
        return self.after(duration_us * self.per_us)
