"""The time of a simulated collective, and the link that held it up."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

#: Bytes on the busiest link for each byte of the size, of n ranks in (n - 1) / n, by collective, as NCCL's tests define
#: "bus bandwidth"; others have one.
_BUS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}


@dataclass(frozen=True)
class LinkUse:
    """One direction of a link during a collective. utilisation: share of the time that it carried data, 0 to 1."""

    name: str
    bytes: float
    utilisation: float


@dataclass(frozen=True)
class Step:
    """One block's work on one slice: microseconds from when it could begin until it was handed on."""

    rank: int
    channel: int
    start_us: float
    end_us: float
    bytes: int
    receives: bool
    sends: bool


@dataclass(frozen=True)
class CollectiveResult:
    """A collective that has run once.

    time_us: of one call whose inputs are ready, from the call to the last rank's end, the launch included.
    launch_us, start_us: parts of it before any rank moves data, on the host and then; reach_us: of the latter that
    until blocks run on the GPUs, from where on a profiler counts. algorithm, protocol: as NCCL spells them, in lower
    case and as "Simple", "LL", "LL128"; channels: thread blocks of each rank.
    links: every link that carried data, the busiest first.
    utilisation: float64[links, bins] share of each link's bandwidth over time, with bin_us, where trace was asked for,
    of the links in `link_names`, which are all of the node's;
    steps: what each block did, likewise.
    """

    name: str
    nbytes: int
    ranks: int
    node: str
    algorithm: str
    protocol: str
    channels: int
    time_us: float
    launch_us: float
    start_us: float
    reach_us: float
    links: tuple[LinkUse, ...]
    events: int
    seconds: float
    steps: tuple[Step, ...] = ()
    utilisation: np.ndarray | None = field(default=None, repr=False)
    bin_us: float = 0.0
    link_names: tuple[str, ...] = field(default=(), repr=False)

    @property
    def bus_gb_s(self) -> float:
        """Bandwidth that each GPU's link must have had: comparable between collectives and numbers of ranks."""
        share = _BUS[self.name] * (self.ranks - 1) / self.ranks if self.name in _BUS else 1.0
        return self.nbytes / self.time_us / 1e3 * share

    @property
    def kernel_us(self) -> float:
        """Time of a rank's kernel, if all ranks' begin together."""
        return self.time_us - self.launch_us - self.reach_us

    @property
    def bottleneck(self) -> LinkUse:
        """The link that carried data for the greatest part of the time."""
        return self.links[0]

    def __str__(self) -> str:
        busy = self.bottleneck
        return (
            f"{self.name} of {self.nbytes:,} bytes on {self.ranks} GPUs of {self.node}: {self.time_us:,.1f} us, "
            f"{self.bus_gb_s:,.1f} GB/s bus bandwidth\n"
            f"{self.algorithm}, {self.protocol}, {self.channels} channels; launch {self.launch_us:.1f} us, "
            f"start {self.start_us:.1f} us\n"
            f"busiest link {busy.name}: {busy.bytes / 1e6:,.1f} MB, {busy.utilisation:.0%} of the time"
        )
