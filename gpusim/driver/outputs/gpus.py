"""What the GPUs of a program did, each by itself and all together: its part of the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gpusim.config import GPUConfig
from gpusim.driver.outputs.log import table
from gpusim.driver.work.launches import JointCall, Observer
from gpusim.node.timeline import busy_time
from gpusim.node.work import COLLECTIVE
from gpusim.units import byte_text

if TYPE_CHECKING:
    from rich.table import Table

    from gpusim.device import Device


@dataclass(frozen=True)
class GpuUse:
    """What one GPU did, in microseconds: time in which kernels run, from the hand-out of their first blocks, in which
    copies do, and in which it is in a collective, waiting for other GPUs or moving data. exposed_us: of the last, what
    no kernel runs beside. peak_bytes: of its memory, that were allocated at once."""

    gpu: str
    peak_bytes: int
    kernels_us: float
    copies_us: float
    collectives_us: float
    exposed_us: float


@dataclass
class CollectiveUse:
    """Calls of one collective, by its name, ranks, bytes, algorithm and protocol. link: the busiest. calls: of all
    ranks together. time_us: their sum, from the time when the last rank has come; waited_us: that before it."""

    name: str
    ranks: int
    nbytes: int
    how: str
    link: str
    calls: int = 0
    time_us: float = 0.0
    waited_us: float = 0.0


class GpuLog(Observer):
    """Hears what GPUs do together; what each did is known when the program has ended."""

    def __init__(self, config: GPUConfig, devices: Sequence[Device]):
        self._config, self._devices = config, devices
        self.collectives: dict[Any, CollectiveUse] = {}

    def joined(self, call: JointCall, cycle: int, came: int, began: int) -> None:
        what = call.name, call.ranks, call.nbytes, call.how, call.link
        found = self.collectives.setdefault(what[:4], CollectiveUse(*what))
        found.calls += 1
        found.time_us += self._config.time_us(cycle - began)
        found.waited_us += self._config.time_us(began - came)

    def gpus(self) -> Iterator[GpuUse]:
        """What each GPU has done so far."""
        for device in self._devices:
            own = [span for span in device.streams.engines.spans if span.gpu == device.name]
            kinds = [[span for span in own if span.kind == kind] for kind in ("kernel", "copy", COLLECTIVE)]
            kernels, copies, joint = (busy_time((span.start, span.end) for span in each) for each in kinds)
            either = busy_time((span.start, span.end) for span in kinds[0] + kinds[2])
            what = map(self._config.time_us, (kernels, copies, joint, either - kernels))
            yield GpuUse(device.name, device.memory.peak_bytes, *what)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "gpus": [asdict(each) for each in self.gpus()],
            "collectives": [asdict(each) for each in self.collectives.values()],
        }

    def tables(self, timed: bool) -> Iterator[Table]:
        """What was done together, and by each GPU."""
        if self.collectives:
            more = ("us each", "waited", "busiest link") if timed else ()
            found = table("collective", "GPUs", "bytes", "calls", *more)
            for each in self.collectives.values():
                row = [f"{each.name} {each.how}".strip(), str(each.ranks), f"{each.nbytes:,}"]
                row.append(f"{each.calls // (1 if each.name == 'send_recv' else each.ranks):,}")
                times = f"{each.time_us / each.calls:,.2f}", f"{each.waited_us / each.calls:,.2f}", each.link
                found.add_row(*row, *(times if timed else ()))
            yield found
        if timed:
            found = table("GPU", "kernels us", "copies us", "collectives us", "exposed us", "of all", "memory at most")
            for use in self.gpus():
                share = use.exposed_us / max(use.kernels_us + use.exposed_us, 1e-9)
                times = (f"{us:,.2f}" for us in (use.kernels_us, use.copies_us, use.collectives_us, use.exposed_us))
                found.add_row(use.gpu, *times, f"{share:.1%}", byte_text(use.peak_bytes))
            yield found
