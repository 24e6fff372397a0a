"""The energy of a launch: static power over its time, and an energy for each event, by unit and by instruction.

`Clocking` is what clock and voltage do to it, and how far a board's limit lets the clock be. docs/energy.md says where
the numbers come from and how well they agree with a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpusim.config import GPUConfig
from gpusim.config.sections import Energy
from gpusim.results.counts import Counts
from gpusim.results.energy_events import EVENTS, activity_of, events_of

PARTS = {
    "launch": ("launch", "warp"),
    "issue": ("issue",),
    "registers": ("operand",),
    "integer units": ("alu", "integer_product", "wide_product", "vote"),
    "floating point units": ("single_product", "half_product", "double_sum", "double_product", "special"),
    "tensor cores": tuple(each for each in EVENTS if each.startswith(("matrix_", "group_"))),
    "constants": ("constant",),
    "shared memory and L1": (
        "access", "shuffle", "shared_wavefront", "shared_word", "shared_atomic", "l1_tag", "l1_word",
    ),
    "L2": ("l2_request", "l2_read", "l2_write", "l2_atomic", "fabric"),
    "memory": ("dram_read", "dram_write", "dram_row"),
    "links": ("link",),
}  # fmt: skip
"""Units and the events that are theirs."""
_STEPS = 40  # of the search for a clock
_OFF_CHIP = (*PARTS["memory"], *PARTS["links"])


def picojoules(config: GPUConfig) -> tuple[np.ndarray, np.ndarray]:
    """Of each event, float64 [EVENTS]: with operands that stay as they are, and what random ones add."""
    values = np.array([getattr(config.energy, f"{each}_pj") for each in EVENTS])
    of = config.energy
    scale = np.array([of.memory_scale if each in PARTS["memory"] else of.logic_scale for each in EVENTS])
    return values[:, 0] * scale, values[:, 1] * scale


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


@dataclass(frozen=True)
class Sustained:
    """A launch that is repeated without an end. clock_mhz: what the board's limit leaves of the clock. time_us,
    energy_j: of one launch; power_w: of the board."""

    clock_mhz: float
    time_us: float
    energy_j: float
    power_w: float


class LaunchEnergy:
    """Of one launch, at the configuration's clock.

    seconds: what it takes. events: float64 [instructions, EVENTS]. activity: float64 [instructions], see
    `gpusim.results.energy_events`. parts: joules by unit, static power under 'static'. instruction_j: joules of each
    instruction; static power and the launch itself are nobody's.
    """

    def __init__(self, counts: Counts, seconds: float):
        self._config = config = counts.record.config
        self._clocking = Clocking(config.energy, config.sm.count)
        self.seconds = seconds
        self.events, self.activity = events_of(counts), activity_of(counts)
        still, random = picojoules(config)
        square = self._clocking.volts(config.gpu.clock_mhz) ** 2
        by_event = self.events * still + self.events * self.activity[:, None] * random
        logic = np.array([1.0 if each in _OFF_CHIP else square for each in EVENTS])
        self.event_j = 1e-12 * by_event * logic

    @cached_property
    def instruction_j(self) -> np.ndarray:
        """Of each instruction, float64 [instructions]."""
        return self.event_j[:, len(PARTS["launch"]) :].sum(axis=1)

    @cached_property
    def parts(self) -> Mapping[str, float]:
        """Joules by unit."""
        each = dict(zip(EVENTS, self.event_j.sum(axis=0).tolist(), strict=True))
        found = {name: sum(each[event] for event in events) for name, events in PARTS.items()}
        return {"static": self._clocking.static_w(self._config.gpu.clock_mhz) * self.seconds} | found

    @property
    def energy_j(self) -> float:
        """All of it."""
        return sum(self.parts.values())

    @property
    def power_w(self) -> float:
        """In the mean over the launch."""
        return self.energy_j / self.seconds if self.seconds else 0.0

    def sustained(self, period_us: float | None = None) -> Sustained:
        """As it is when launches follow each other for a second and more. period_us: from one to the next at full
        clock; by default the launch's own time."""
        seconds = self.seconds if period_us is None else 1e-6 * period_us
        off_chip = float(self.event_j[:, [EVENTS.index(each) for each in _OFF_CHIP]].sum())
        logic = float(self.event_j.sum()) - off_chip
        return Sustained(*self._clocking.settle(self._config.gpu.clock_mhz, seconds, logic, off_chip))
