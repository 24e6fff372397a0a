"""One direction of a link."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Link:
    """One direction of a link, or of a bundle of links side by side.

    name: such as `gpu0.nvlink>switch0`, which reports use; start, end: the devices; kind: nvlink, pcie, infiniband,
    socket (TCP), memory, upi (between processors). bandwidth_gb_s: payload of whole packets, after everything that
    packets carry beside it. reverse: payload's worth of the opposite direction that each byte takes.
    """

    name: str
    start: str
    end: str
    kind: str
    bandwidth_gb_s: float
    latency_us: float
    reverse: float = 0.0

    def scaled(self, factor: float) -> Link:
        """The same link with its bandwidth multiplied."""
        return replace(self, bandwidth_gb_s=self.bandwidth_gb_s * factor)
