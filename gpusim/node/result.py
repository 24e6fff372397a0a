"""What copying gave: times of every copy, load of every link over time, and a report that names what held copies up."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpusim.node.link import Link

STAGING = "host copying"
"""What holds a copy of pageable memory up beside links: the host, which copies through staging buffers."""


@dataclass
class Copy:
    """One copy. Times are microseconds since the run's start, set by the run.

    submitted_us: when the host has made the call; began_us: when a copy engine has taken it on; ended_us: when its last
    byte has arrived. links: the names of the links of its path; held_us: how long each of them set its pace, and
    `STAGING` for pageable memory.
    """

    source: str
    destination: str
    nbytes: int
    name: str
    links: tuple[str, ...]
    submitted_us: float = 0.0
    began_us: float = 0.0
    ended_us: float = 0.0
    held_us: dict[str, float] = field(default_factory=dict)

    @property
    def duration_us(self) -> float:
        """From engine to arrival."""
        return self.ended_us - self.began_us

    @property
    def waited_us(self) -> float:
        """From the call to a copy engine: work before it in the stream, and copies before it at the engine."""
        return self.began_us - self.submitted_us

    @property
    def bandwidth_gb_s(self) -> float:
        """Bytes over `duration_us`, 10^9 a second."""
        return self.nbytes / self.duration_us / 1e3 if self.duration_us else 0.0

    @property
    def bottleneck(self) -> str:
        """What set its pace the longest, a link's name or `STAGING`; '' if there was nothing to move."""
        return max(self.held_us, key=lambda name: (self.held_us[name], name), default="")


@dataclass(frozen=True)
class LinkUse:
    """A link's load. bytes: payload carried; times_us and shares: from each time on, the share of the link's capacity
    in use, with what the opposite direction's packets take of it; held_us: how long it set the pace of copies, summed.
    """

    link: Link
    bytes: float
    times_us: np.ndarray
    shares: np.ndarray
    held_us: float
    total_us: float

    @property
    def name(self) -> str:
        """The link's name."""
        return self.link.name

    @property
    def busy_us(self) -> float:
        """How long anything was on the link."""
        return float(self._spans()[self.shares > 0].sum())

    @property
    def utilisation(self) -> float:
        """Share of what it could have carried in the whole run."""
        return float((self._spans() * self.shares).sum() / self.total_us) if self.total_us else 0.0

    def over_time(self, bins: int = 100) -> np.ndarray:
        """Mean share of capacity in each of so many equal parts of the run, shape (bins,)."""
        edges = np.linspace(0.0, self.total_us, bins + 1)
        sums = np.concatenate(([0.0], np.cumsum(self._spans() * self.shares)))
        at = np.interp(edges, np.append(self.times_us, self.total_us), sums) if self.times_us.size else 0 * edges
        return np.diff(at) / np.maximum(np.diff(edges), 1e-12)

    def _spans(self) -> np.ndarray:
        return np.diff(np.append(self.times_us, self.total_us))


@dataclass(frozen=True)
class NodeResult:
    """A run. copies: in the order of their calls; links: every link that carried anything, by name; time_us: until all
    work had ended and the last call was made; engine_waits_us: by copy engine, how long copies stood before it."""

    title: str
    copies: tuple[Copy, ...]
    links: dict[str, LinkUse]
    time_us: float
    engine_waits_us: dict[str, float]

    @property
    def bottleneck(self) -> str:
        """What set the pace of copies the longest, a link's name or `STAGING`; '' if nothing moved."""
        held: dict[str, float] = {}
        for copy in self.copies:
            for name, time_us in copy.held_us.items():
                held[name] = held.get(name, 0.0) + time_us
        return max(held, key=lambda name: (held[name], name), default="")

    @property
    def bytes(self) -> int:
        """Of all copies."""
        return sum(copy.nbytes for copy in self.copies)

    def __str__(self) -> str:
        from gpusim.node.report import report

        return report(self)
