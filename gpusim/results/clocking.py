"""What clock and voltage do to energy, and how far a board's limit lets the clock be."""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.config.sections import Energy

_STEPS = 40


@dataclass(frozen=True)
class Clocking:
    """The law between clock, voltage and power of a board with so many SMs.

    The energy of an event goes with the square of the voltage, which falls along a line with the clock
    (`energy.volts_per_clock`) to a least one. Of the static power a part goes with the clock, the rest stays
    (`energy.still_share`).
    """

    of: Energy
    sms: int

    def volts(self, clock_mhz: float) -> float:
        """The voltage, 1 at the clock at which energies hold."""
        return max(1 + self.of.volts_per_clock * (clock_mhz / self.of.clock_mhz - 1), self.of.least_volts)

    def static_w(self, clock_mhz: float) -> float:
        """Of the board when no instruction runs."""
        full = self.of.board_w + self.of.sm_w * self.sms
        return full * (self.of.still_share + (1 - self.of.still_share) * clock_mhz / self.of.clock_mhz)

    def settle(
        self, clock_mhz: float, seconds: float, logic: float, off_chip: float
    ) -> tuple[float, float, float, float]:
        """Clock, microseconds, joules and watts of a launch that is repeated. logic, off_chip: its joules at
        `clock_mhz`. Time goes with the clock, of launches that come to the limit by memory alone too."""

        def at(clock: float) -> tuple[float, float]:
            time = seconds * clock_mhz / clock
            square = (self.volts(clock) / self.volts(clock_mhz)) ** 2
            return time, self.static_w(clock) * time + logic * square + off_chip

        low, high = 0.1 * clock_mhz, clock_mhz
        time, joules = at(high)
        if joules > self.of.limit_w * time:
            for _ in range(_STEPS):
                middle = (low + high) / 2
                time, joules = at(middle)
                low, high = (low, middle) if joules > self.of.limit_w * time else (middle, high)
            time, joules = at(low)
            return low, 1e6 * time, joules, joules / time
        return clock_mhz, 1e6 * time, joules, joules / time if time else 0.0
