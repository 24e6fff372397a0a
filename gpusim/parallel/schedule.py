"""A training step: events of every stream, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpusim.node.timeline import busy_time

COMPUTE = ("forward", "backward", "recompute")
"""Kinds of events of the compute stream; the others are communication."""


@dataclass(frozen=True)
class StepEvent:
    """One thing that a stream of a GPU did. kind: forward, backward, recompute; reduce, gather, scatter, send.
    links: (name, bytes) of what it put on links."""

    gpu: int
    stream: str
    name: str
    start_us: float
    end_us: float
    kind: str
    links: tuple[tuple[str, float], ...] = field(default=(), repr=False)

    @property
    def time_us(self) -> float:
        """Duration."""
        return self.end_us - self.start_us


@dataclass(frozen=True)
class Schedule:
    """One training step.

    gpus: how many there are. timeline: events in order of their start, of the GPUs in `simulated`: all of them in a
    pipeline, one for all where every GPU does the same. compute_us: compute time of each simulated GPU's layers, each
    pass once and at full speed. memory_peak_bytes: of each simulated GPU; memory: its (microseconds, bytes) over time.
    link_gb_s: bandwidth of each link that was used.
    """

    kind: str
    node: str
    gpus: int
    simulated: tuple[int, ...]
    time_us: float
    timeline: tuple[StepEvent, ...]
    compute_us: Mapping[int, float]
    memory_peak_bytes: Mapping[int, int]
    memory: Mapping[int, tuple[tuple[float, float], ...]] = field(default_factory=dict, repr=False)
    link_gb_s: Mapping[str, float] = field(default_factory=dict, repr=False)

    def events(self, gpu: int, *kinds: str) -> tuple[StepEvent, ...]:
        """Events of a GPU, of some kinds or all."""
        return tuple(each for each in self.timeline if each.gpu == gpu and (not kinds or each.kind in kinds))

    @cached_property
    def exposed(self) -> Mapping[int, float]:
        """Microseconds in which a GPU's communication streams work and its compute stream does not."""
        busy = {gpu: (_length(self.events(gpu)), _length(self.events(gpu, *COMPUTE))) for gpu in self.simulated}
        return {gpu: max(whole - compute, 0.0) for gpu, (whole, compute) in busy.items()}

    @property
    def exposed_communication_us(self) -> float:
        """Of the GPU that has most."""
        return max(self.exposed.values())

    @property
    def communication_us(self) -> float:
        """Time in which a GPU communicates, of the one that does so longest."""
        return max(_length(e for e in self.events(gpu) if e.kind not in COMPUTE) for gpu in self.simulated)

    @property
    def utilisation(self) -> float:
        """Useful compute, each pass once and at full speed, of the GPUs' time; 0 to 1."""
        return sum(self.compute_us.values()) / (self.time_us * len(self.simulated)) if self.time_us else 0.0

    @cached_property
    def bubble(self) -> float:
        """Share of the GPUs' time in which nothing is computed; 0 to 1."""
        if not self.time_us:
            return 0.0
        busy = sum(e.time_us for e in self.timeline if e.kind in COMPUTE)
        return max(1 - busy / (self.time_us * len(self.simulated)), 0.0)

    @cached_property
    def link_bytes(self) -> Mapping[str, float]:
        """Bytes that each link carries in the step."""
        found: dict[str, float] = {}
        for event in self.timeline:
            for name, nbytes in event.links:
                found[name] = found.get(name, 0.0) + nbytes
        return found

    @property
    def link_utilisation(self) -> Mapping[str, float]:
        """Bytes of each link, of those that it could have carried."""
        return {name: n / (self.link_gb_s[name] * 1e3 * self.time_us) for name, n in self.link_bytes.items()}

    def link_timeline(self, name: str) -> tuple[tuple[float, float, float], ...]:
        """(start, end, share of bandwidth) of every event that uses a link."""
        return tuple(
            (e.start_us, e.end_us, nbytes / (self.link_gb_s[name] * 1e3 * e.time_us))
            for e in self.timeline
            for link, nbytes in e.links
            if link == name
        )

    def __str__(self) -> str:
        most = max(self.memory_peak_bytes, key=lambda gpu: (self.memory_peak_bytes[gpu], -gpu))
        lines = [
            f"{self.kind} on {self.gpus} GPUs of {self.node}: {self.time_us:,.1f} us",
            f"compute {self.utilisation:.1%} of the time, bubble {self.bubble:.1%}; communication "
            f"{self.communication_us:,.1f} us, of which {self.exposed_communication_us:,.1f} us exposed",
            f"memory at most {self.memory_peak_bytes[most] / 1e9:,.2f} GB (gpu{most})",
        ]
        if self.link_bytes:
            busiest = max(self.link_utilisation, key=lambda name: (self.link_utilisation[name], name))
            lines.append(
                f"busiest link {busiest}: {self.link_bytes[busiest] / 1e6:,.1f} MB, "
                f"{self.link_utilisation[busiest]:.0%} of what it could carry"
            )
        return "\n".join(lines)


def _length(events: Iterable[StepEvent]) -> float:
    """Time in which any of these goes on."""
    return busy_time((event.start_us, event.end_us) for event in events)
