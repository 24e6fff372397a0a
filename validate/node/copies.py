"""Recorded copies of real GPUs beside the same calls on the simulated node."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.node import Event, Node, Stream, System, load_node
from validate.compared import Compared
from validate.node.measure_copies import jobs

RESULTS = Path(__file__).parent / "results"
LARGE_BYTES, LARGE_LIMIT, SMALL_LIMIT = 16 << 20, 0.05, 0.30
"""From 16 MB on bandwidth decides and the model is held to 5 %, below latency does and it is held to 30 %."""

PYTHON_US = 26.0
"""What torch's Python takes between two copies beside the driver's calls: peer_both_ways of 4 KB on two GPUs, 71.6 us
of the host, less peer's 32.0 and the calls' own 13.8."""
AROUND_US = 25.0
"""What the host takes before the first event and after the last: peer of 256 MB on two GPUs, 714.4 us less 689.0."""

CALIBRATED = {
    (2, "device", 256 << 10), (2, "device", LARGE_BYTES << 4), (2, "device", LARGE_BYTES << 6),
    (2, "peer", 4 << 10), (2, "peer", LARGE_BYTES << 4), (2, "peer", LARGE_BYTES << 6),
    (2, "peer_both_ways", 4 << 10), (2, "peer_both_ways", LARGE_BYTES << 6),
    *((2, f"to_{way}_pinned", size << 10) for way in ("device", "host") for size in (256, 256 << 10, 1 << 20)),
    (2, "to_host_pinned", 4 << 10), (2, "to_device_and_back_pinned", LARGE_BYTES << 4),
    *((2, "to_device_pageable", size << 10) for size in (16, 64, 4 << 10, 16 << 10, 256 << 10)),
    *((2, "to_host_pageable", size << 10) for size in (1 << 10, 4 << 10, 16 << 10, 256 << 10)),
    *((4, f"{way}_all_devices_pinned", LARGE_BYTES << 4) for way in ("to", "from")),
}  # fmt: skip
"""Points (GPUs, kind, bytes) that the values of `gpusim/node/hgx_h200.toml` are taken from; the others judge."""

_L2 = "a copy within a GPU that its L2 holds in part; the model has memory's bandwidth alone"
GAPS = {
    ("device", LARGE_BYTES): _L2,
    ("device", LARGE_BYTES << 2): _L2,
    ("to_device_pageable", LARGE_BYTES << 2): "the size at which memory leaves the host's cache varies by machine: "
    "5,867 us on one, 4,474 on the other",
    ("to_device_pageable", LARGE_BYTES << 6): "the host's copying varies: 116.9 ms on one machine, 128.0 on another",
}
"""Points (kind, bytes) that may be outside, and why."""


@dataclass(frozen=True, kw_only=True)
class ComparedCopy(Compared):
    """One kind of one size. recorded_us and simulated_us: means over its copies of the time between their events."""

    gpus: int
    kind: str
    nbytes: int
    recorded_wall_us: float
    simulated_wall_us: float

    @property
    def wall_error(self) -> float:
        """The error of the host's time until all copies have ended."""
        return self.simulated_wall_us / self.recorded_wall_us - 1

    def __str__(self) -> str:
        return f"{self.gpus} GPUs, {self.kind}, {self.nbytes:,} bytes"


def load(path: Path) -> dict[str, Any]:
    """A recording: {"about": ..., "copies": [{"kind", "nbytes", "wall_us", "event_us"}]}; or of collectives {"about",
    "columns", "calls", "choice_columns", "choices"}."""
    return json.loads(path.read_text("utf-8"))  # type: ignore[no-any-return]


def recordings(what: str = "copies") -> list[Path]:
    """Those that are kept of copies, collectives or training."""
    return sorted(RESULTS.glob(f"{what}_*.json"))


def compare(paths: Sequence[Path] | None = None, node: str | Path | Node = "hgx_h200") -> list[ComparedCopy]:
    """Every recorded point and what the simulated node makes of it."""
    rows = []
    for path in paths or recordings():
        recorded = load(path)
        world = recorded["about"]["gpus"]
        machine = load_node(node, world)
        for entry in recorded["copies"]:
            kind, nbytes = entry["kind"], entry["nbytes"]
            events, wall = simulate(machine, kind, nbytes, world)
            rows.append(
                ComparedCopy(
                    gpus=world, kind=kind, nbytes=nbytes, recorded_us=statistics.mean(entry["event_us"]),
                    simulated_us=statistics.mean(events), recorded_wall_us=entry["wall_us"], simulated_wall_us=wall,
                    limit=LARGE_LIMIT if nbytes >= LARGE_BYTES else SMALL_LIMIT, gap=GAPS.get((kind, nbytes)),
                    calibrated=(world, kind, nbytes) in CALIBRATED,
                )
            )  # fmt: skip
    return rows


def simulate(node: Node, kind: str, nbytes: int, world: int) -> tuple[list[float], float]:
    """Microseconds between the events of every copy, and of the host's wait for all of them."""
    system = System(node)
    defaults = {gpu: system.stream(gpu) for gpu in node.gpus}
    marks = []
    for number, job in enumerate(jobs(kind, world)):
        if number:
            system.pause(PYTHON_US)
        marks.append(_copy(system, defaults, *job, nbytes))
    total = system.run().time_us
    return [first.elapsed_ms(last) * 1e3 for first, last in marks], total + AROUND_US


def _copy(
    system: System, defaults: Mapping[str, Stream], destination: str, source: str, nbytes: int
) -> tuple[Event, Event]:
    """A copy as torch makes it: between two GPUs the default stream of the target takes part on both sides."""
    # What one thread of the host allocates lies in the memory of its socket, whichever GPU it is for.
    to, of = ("host0" if end in ("pinned", "pageable") else end for end in (destination, source))
    stream = system.stream(source if source.startswith("gpu") else destination)
    pinned = "pageable" not in (destination, source)
    first = system.event(stream)
    if "host0" in (to, of) or to == of:
        system.copy(to, of, nbytes, stream, pinned=pinned)
        last = system.event(stream)
    else:
        system.event(defaults[destination]).wait(stream)
        system.copy(to, of, nbytes, stream)
        system.event(stream).wait(defaults[destination])
        last = system.event(stream)
    return first, last


def judged(rows: Iterable[ComparedCopy]) -> dict[str, list[ComparedCopy]]:
    """The points that the model has nothing from, by what they are about. Copies within one GPU are a group of their
    own, since nothing of the node is in them."""
    groups: dict[str, list[ComparedCopy]] = {}
    for row in rows:
        if not row.calibrated:
            group = "within a GPU" if row.kind == "device" else "between GPUs" if "peer" in row.kind else "host, pinned"
            group = "host, pageable" if "pageable" in row.kind else group
            groups.setdefault(f"{group}, {'16 MB and more' if row.nbytes >= LARGE_BYTES else 'less'}", []).append(row)
    return groups


def summary(rows: Iterable[ComparedCopy]) -> str:
    """Errors by group: how many within their limit, mean, median, the 90th percentile and the worst."""
    lines = [f"{'judged':<34}{'points':>7}{'within':>8}{'mean':>8}{'median':>8}{'p90':>8}{'worst':>8}"]
    for group, found in sorted(judged(rows).items()):
        errors = sorted(abs(row.error) for row in found)
        within = sum(abs(row.error) <= row.limit for row in found)
        p90 = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
        lines.append(
            f"{group:<34}{len(found):>7}{within:>8}{statistics.mean(errors):>8.1%}{statistics.median(errors):>8.1%}"
            f"{p90:>8.1%}{errors[-1]:>8.1%}"
        )
    return "\n".join(lines)


def table(rows: Iterable[ComparedCopy]) -> str:
    """A line for every point."""
    lines = [f"{'GPUs':>4} {'copy':<28}{'bytes':>12}{'recorded us':>13}{'simulated':>12}{'error':>8}{'wall':>8}"]
    for row in rows:
        note = "  calibrates" if row.calibrated else "" if abs(row.error) <= row.limit else "  OUTSIDE"
        lines.append(
            f"{row.gpus:>4} {row.kind:<28}{row.nbytes:>12,}{row.recorded_us:>13,.1f}{row.simulated_us:>12,.1f}"
            f"{row.error:>+8.1%}{row.wall_error:>+8.1%}{note}"
        )
    return "\n".join(lines)
