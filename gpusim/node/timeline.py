"""Timeline of one or several devices on their clock: kernels, copies, prefetches and calls of the host by stream,
migrations by page faults, and the use of each link."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpusim.engine.streams import Span
from gpusim.node.managed import FAULTS, ManagedSet
from gpusim.node.streams import StreamSet
from gpusim.tracing.perfetto import TrackWriter, write_packets

_NS = 1e3  # of a microsecond


@dataclass(frozen=True)
class StreamTimeline:
    """spans: of all streams, in the order of their ends, and of faults; in microseconds since the clock began.
    links: by name (microsecond, share of its capacity) at every change, of those that copies have used.
    """

    spans: tuple[Span, ...]
    links: dict[str, tuple[tuple[float, float], ...]]

    @classmethod
    def of(cls, streams: StreamSet, managed: Iterable[ManagedSet] = ()) -> StreamTimeline:
        """Return the timeline of what has happened so far."""
        per_us, mover = streams.clock.per_us, streams.mover
        done = streams.engines.spans + [span for each in managed for span in each.spans]
        spans = [each._replace(start=each.start / per_us, end=each.end / per_us) for each in done]
        links = {
            link.name: tuple((time, share) for time, _, share in steps)
            for link, steps in zip(mover.links, mover.flows.steps, strict=True)
            if steps
        }
        return cls(tuple(spans), links)

    def save(self, path: str | Path) -> Path:
        """Write it for ui.perfetto.dev: a track for each stream and for faults, below their GPU, and for each link."""
        writer, target, rows = TrackWriter(), Path(path), rows_of(self.spans)
        gpus = {gpu: writer.track(gpu) for gpu in dict.fromkeys(gpu for gpu, _ in rows)}
        tracks = {row: writer.track(row_name(row), gpus[row[0]], rank) for rank, row in enumerate(rows)}
        for span in self.spans:
            at = tracks[span.gpu, span.stream], round(_NS * span.start), round(_NS * span.end)
            writer.slice(*at, span.name, {"kind": span.kind})
        parent = writer.track("links", rank=len(gpus)) if self.links else 0
        for name, steps in self.links.items():
            track = writer.track(name, parent, counter="% of its capacity")
            for time, share in steps:
                writer.count(track, round(_NS * time), 100.0 * share)
        write_packets(writer.packets(), target)
        return target


def merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Times in which at least one of the spans, of which each is (start, end), goes on, one behind the other."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            start, end = found[-1][0], max(found.pop()[1], end)
        found.append((start, end))
    return found


def busy_time(spans: Iterable[tuple[float, float]]) -> float:
    """Time in which at least one of the spans goes on."""
    return sum(end - start for start, end in merged(spans))


def rows_of(spans: Iterable[Span]) -> list[tuple[str, int]]:
    """Rows of a picture: streams as (GPU, number), and behind those of a GPU its faults."""
    return sorted({(span.gpu, span.stream) for span in spans}, key=lambda row: (row[0], row[1] == FAULTS, row[1]))


def row_name(row: tuple[str, int]) -> str:
    """Return the name of what a row shows, without its GPU."""
    return "faults" if row[1] == FAULTS else f"stream {row[1]}"
