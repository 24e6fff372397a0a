"""What the GPUs of a program did, each by itself and all together: its part of the table and of the pages."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim.config import GPUConfig
from gpusim.driver.outputs.log import table
from gpusim.driver.work.launches import JointCall, Observer
from gpusim.engine.streams import Span
from gpusim.node.timeline import busy_time, merged
from gpusim.node.work import COLLECTIVE
from gpusim.report_html.plain import Markup, PagePart
from gpusim.report_html.plain import table as page_table
from gpusim.units import byte_text

if TYPE_CHECKING:
    from rich.table import Table

    from gpusim.device import Device
_COLOURS = {"kernel": "#0072b2", "copy": "#e69f00", COLLECTIVE: "#56b4e9", "": "#a03000"}
"""Of kinds of spans, and of what of collectives is exposed."""


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
        self._traffic = defaultdict[str, np.ndarray](lambda: np.zeros(2))  # of collectives: bytes, microseconds

    def joined(self, call: JointCall, cycle: int, came: int, began: int) -> None:
        what = call.name, call.ranks, call.nbytes, call.how, call.link
        found = self.collectives.setdefault(what[:4], CollectiveUse(*what))
        found.calls += 1
        found.time_us += self._config.time_us(cycle - began)
        found.waited_us += self._config.time_us(began - came)
        for each in call.links:  # of which every rank tells
            busy_us = each.utilisation * self._config.time_us(cycle - began)
            self._traffic[each.name] += np.array([each.bytes, busy_us]) / call.ranks

    def gpus(self) -> Iterator[GpuUse]:
        """What each GPU has done so far."""
        for device in self._devices:
            kinds = (_spans(device, "kernel"), _spans(device, "copy"), _spans(device, COLLECTIVE), _exposed(device))
            times = (busy_time((span.start, span.end) for span in spans) for spans in kinds)
            yield GpuUse(device.name, device.memory.peak_bytes, *map(self._config.time_us, times))

    def links(self) -> list[tuple[str, float, float]]:
        """Each link that copies or collectives went over, as far as these tell: its name, bytes, and microseconds in
        which it was busy; the busiest first."""
        flows, found = self._devices[0].streams.mover.flows, dict(self._traffic)
        for link, nbytes, steps in zip(flows.links, flows.bytes, flows.steps, strict=True):
            if steps:
                busy_us = sum(after[0] - before[0] for before, after in pairwise(steps) if before[2] > 0)
                found[link.name] = found.get(link.name, np.zeros(2)) + np.array([nbytes, busy_us])
        uses = ((name, float(nbytes), float(busy_us)) for name, (nbytes, busy_us) in found.items())
        return sorted(uses, key=lambda each: (-each[2], each[0]))

    def page(self) -> list[PagePart]:
        """Parts of the page of all launches: a timeline, the tables, and one of links."""
        spans = self._devices[0].streams.engines.spans
        if not spans:
            return []
        begin, end = min(span.start for span in spans), max(span.end for span in spans)
        all_us = self._config.time_us(end - begin)
        about = f"Kernels, copies and collectives in {all_us:,.2f} us; no kernel ran beside what is dark of these"
        parts = [PagePart("timeline", "Timeline", [about], self._picture(begin, end))]
        links = table("link", "bytes", "busy us", "of all")
        for name, nbytes, busy_us in self.links():
            links.add_row(name, byte_text(nbytes), f"{busy_us:,.2f}", f"{busy_us / all_us:.1%}")
        for each in (*self.tables(True), links):
            head = [str(column.header) for column in each.columns]
            rows = zip(*(column.cells for column in each.columns), strict=True)
            parts.append(PagePart(f"by-{head[0].lower()}", f"By {head[0]}", (), page_table(head[0], head, rows)))
        return parts

    def _picture(self, begin: float, end: float) -> Markup:
        """A row for each GPU and kind of work, in tenths of a pixel."""
        shapes, y = [], 0
        for device in self._devices:
            for kind in ("kernel", "copy", COLLECTIVE):
                shapes.append(f'<text x="0" y="{y + 13}">{device.name} {kind}</text>')
                for name, spans in ((kind, _spans(device, kind)), ("", _exposed(device) if kind == COLLECTIVE else ())):
                    pixels = ([round(860 * (time - begin) / (end - begin), 1) for time in each[-2:]] for each in spans)
                    for x, until in merged((x, max(until, x + 0.5)) for x, until in pixels):
                        place = f'x="{130 + x:.1f}" y="{y}" width="{until - x:.1f}" height="17"'
                        shapes.append(f'<rect {place} fill="{_COLOURS[name]}"/>')
                y += 20 + 8 * (kind == COLLECTIVE)
        how = 'role="img" aria-label="Timeline" font-size="13" fill="currentColor" style="width: 100%"'
        return Markup(f'<svg viewBox="0 0 1000 {y}" {how}>{"".join(shapes)}</svg>')

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


def _spans(device: Device, kind: str) -> list[Span]:
    return [span for span in device.streams.engines.spans if (span.gpu, span.kind) == (device.name, kind)]


def _exposed(device: Device) -> Iterator[Span]:
    """Parts of collectives beside which no kernel of the GPU runs."""
    kernels = merged((span.start, span.end) for span in _spans(device, "kernel"))
    ends = [end for _, end in kernels]
    for span in _spans(device, COLLECTIVE):
        since = span.start
        for start, end in chain(islice(kernels, bisect_left(ends, since), None), [(span.end, span.end)]):
            if since < min(start, span.end):
                yield span._replace(start=since, end=min(start, span.end))
            since = max(since, end)
            if since >= span.end:
                break
