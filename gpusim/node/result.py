"""Result of a node's run: times of every copy, load of every link over time, and a report on what held copies up."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpusim.node.build import Link
from gpusim.units import aligned, byte_text, counted

_MOST_COPIES, _MOST_LINKS = 20, 12
STAGING = "host copying"
"""Name of the host among bottlenecks: it copies pageable memory through staging buffers."""


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
        """Link, or `STAGING`, that set its pace the longest; '' if there was nothing to move."""
        return max(self.held_us, key=lambda name: (self.held_us[name], name), default="")


@dataclass(frozen=True)
class LinkLoad:
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
        """Time in microseconds with traffic on the link."""
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
    links: dict[str, LinkLoad]
    time_us: float
    engine_waits_us: dict[str, float]

    @property
    def bottleneck(self) -> str:
        """Link, or `STAGING`, that set the pace of copies the longest; '' if nothing moved."""
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
        """Say what was copied and when, which link held it up, what every link carried: the first copies, the busiest
        links."""
        lines = [
            self.title,
            f"{counted(len(self.copies), 'copy')}, {byte_text(self.bytes)} in {self.time_us:,.1f} us",
            *self._held_up(),
            "",
            f"{'Copy':<28}{'bytes':>10}{'begins':>12}{'ends us':>12}{'GB/s':>8}  held up by",
        ]
        for copy in self.copies[:_MOST_COPIES]:
            row = aligned(
                (f"  {copy.name}", -28), (byte_text(copy.nbytes), 10), (f"{copy.began_us:,.1f}", 12),
                (f"{copy.ended_us:,.1f}", 12), (f"{copy.bandwidth_gb_s:.1f}", 8),
            )  # fmt: skip
            lines.append(f"{row}  {copy.bottleneck}")
        lines += _more(len(self.copies) - _MOST_COPIES)
        lines += ["", f"{'Link':<28}{'carried':>10}{'GB/s':>12}{'busy us':>12}{'of peak':>9}  over the run"]
        uses = sorted(self.links.values(), key=lambda use: (-use.held_us, -use.utilisation, use.name))
        for use in uses[:_MOST_LINKS]:
            bar = "".join(" .:-=+*#%@"[min(round(share * 9), 9)] for share in use.over_time(24))
            row = aligned(
                (f"  {use.name}", -28), (byte_text(use.bytes), 10), (f"{use.link.bandwidth_gb_s:.1f}", 12),
                (f"{use.busy_us:,.1f}", 12), (f"{use.utilisation:.1%}", 9),
            )  # fmt: skip
            lines.append(f"{row}  |{bar}|")
        return "\n".join(lines + _more(len(uses) - _MOST_LINKS))

    def _held_up(self) -> list[str]:
        """Say what held copies up, and how long they stood before copy engines."""
        if not self.bottleneck:
            return ["Nothing moved"]
        name = self.bottleneck
        total = sum(copy.duration_us for copy in self.copies)
        held = sum(copy.bottleneck == name for copy in self.copies)
        moving = sum(sum(copy.held_us.values()) for copy in self.copies)
        text = f"Bottleneck  {name}"
        if name in self.links:
            use = self.links[name]
            text += f" ({use.link.kind}, {use.link.bandwidth_gb_s:.1f} GB/s, "
            text += f"{use.utilisation:.0%} of it used over the run)"
        lines = [f"{text}: sets the pace of {counted(held, 'copy')} of {len(self.copies)}"]
        if total and moving < 0.5 * total:
            lines.append(f"            but {1 - moving / total:.0%} of the copies' time is start-up and latency")
        waits = {name: wait for name, wait in self.engine_waits_us.items() if wait > 0.01 * self.time_us}
        for name, wait in sorted(waits.items(), key=lambda item: (-item[1], item[0]))[:3]:
            lines.append(f"            copies wait {wait:,.1f} us in all for the copy engine {name}")
        return lines


def _more(count: int) -> list[str]:
    return [f"  ... and {count} more"] if count > 0 else []
