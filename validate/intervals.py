"""`python -m validate intervals`: the points that say how sure a prediction is (`gpusim.results.interval`)."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gpusim.cli.parser import EXIT_OK
from gpusim.config import load_config
from gpusim.config.load import own_sources
from gpusim.explore.journal import JournalError
from gpusim.results import interval
from gpusim.results.interval import Judged, distance, span_of
from validate import journal, published, score
from validate.collection.compare import point_of
from validate.points import ProgramPoint
from validate.replay import Comparison
from validate.scoring import documents

_HEAD = """\
# Every point that judges the model: GPU, cycles measured and predicted, kind of kernel | point. Written by
# python -m validate intervals JOURNAL...
"""
_HEAD_DESCRIBED = """\
# The same of machines that are another measured one but for what the GPU's data sheet says. Written by
# python -m validate intervals --described JOURNAL...
"""
FILE = Path(__file__).with_name("described.txt")
DESCRIBED = {
    "h100": "h200 l2.bytes=52428800 l2.slices=80 dram.channels=160 dram.bandwidth_gb_s=3350",
    "h200": "h100 l2.bytes=62914560 l2.slices=96 dram.channels=192 dram.bandwidth_gb_s=4800",
}
"""A GPU as its data sheet makes it of the other one: its L2 and its memory; clock and SMs are the same."""


def run(options: argparse.Namespace) -> int:
    """The status of the command."""
    if options.journals:
        points = _read(options.journals, {gpu: gpu for gpu in interval.MEASURED})
        interval.FILE.write_text(text_of(points), "utf-8")
    if options.described:
        points = _read(options.described, {of: gpu for gpu, of in DESCRIBED.items()})
        FILE.write_text(text_of(points, _HEAD_DESCRIBED), "utf-8")
    interval.judged.cache_clear()
    known = interval.judged()
    tables = {"kinds": table(known), "described": table_described(interval.judged(FILE), known)}
    if options.published:
        tables["published"] = table_published()
    print("\n\n".join(tables.values()))
    for mark, text in tables.items() if options.docs else ():
        documents.put("accuracy.md", mark, text)
    return EXIT_OK


def _read(paths: Sequence[Path], gpus: Mapping[str, str]) -> list[Judged]:
    """The points of journals. gpus: GPU by the configurations that are asked for. Raises JournalError."""
    found = []
    for path in paths:
        # The point of a public program has its kernel behind a colon.
        header, rows = journal.read(path, lambda name: (point_of if ":" in name else ProgramPoint.parse)(name))
        of = header["of"]
        if of not in gpus:
            raise JournalError(f"{path} is of the configuration {of}, not one of {', '.join(gpus)}")
        found += judges(gpus[of], rows)
    return found


def judges(gpu: str, rows: Iterable[score.Row]) -> list[Judged]:
    """Select the rows whose points judge the model. Raises JournalError if one could not be compared."""
    found = []
    for row in rows:
        if row.point.split == "judge":
            if not isinstance(row, Comparison):
                raise JournalError(f"{row.point} could not be compared: {row.reason}")
            found.append(Judged(gpu, row.kind, row.cycles.measured, row.cycles.predicted, str(row.point)))
    return found


def text_of(points: Iterable[Judged], head: str = _HEAD) -> str:
    """The stored file."""
    lines = (f"{p.gpu} {p.measured:.10g} {p.predicted:.10g} {p.kind} | {p.point}" for p in points)
    return head + "".join(f"{line}\n" for line in sorted(lines))


def covered(points: Sequence[Judged]) -> list[bool]:
    """Return whether each point lies in the interval that the points of all other programs give."""
    found = []
    for point in points:
        low, high, _ = span_of(point.kind, [each for each in points if each.program != point.program])
        found.append(low <= point.ratio <= high)
    return found


def table(points: Sequence[Judged]) -> str:
    """A line for each kind: how many judge, their interval, how many of them lie in that of the other programs."""
    inside = covered(points)
    lines = [f"{'kind of kernel':34s} {'judge':>5s} {'from':>7s} {'to':>7s} {'covered':>8s}"]
    for kind in (*sorted({each.kind for each in points}), "all"):
        mine = [good for each, good in zip(points, inside, strict=True) if kind in (each.kind, "all")]
        low, high, _ = span_of(kind, points)
        lines.append(
            f"{kind:34s} {len(mine):5d} {math.expm1(low):+7.1%} {math.expm1(high):+7.1%} {sum(mine) / len(mine):8.0%}"
        )
    return "\n".join(lines)


def excess(point: Judged, points: Sequence[Judged]) -> float:
    """The half-width in logarithms, of a machine at distance 1, that has to be added for a described machine's point to
    lie in the interval that the other GPUs' points of all other programs give; 0 if it lies there already."""
    low, high, _ = span_of(point.kind, [p for p in points if p.gpu != point.gpu and p.program != point.program])
    beyond = (point.ratio - (low + high) / 2) ** 2 - ((high - low) / 2) ** 2
    return math.sqrt(max(beyond, 0.0) / away(point.gpu))


def away(gpu: str) -> float:
    """Distance of a described machine from the measured ones that it is not."""
    name, *overrides = DESCRIBED[gpu].split()
    return distance(load_config(name, overrides), tuple(each for each in interval.MEASURED if each != gpu))


def least_widening(excesses: Iterable[float]) -> float:
    """The least widening with which nine of ten more points are covered."""
    ordered = sorted(excesses)
    return ordered[min(-(-(len(ordered) + 1) * 9 // 10), len(ordered)) - 1]


def table_described(described: Sequence[Judged], points: Sequence[Judged]) -> str:
    """A line for each described GPU: how many of its points are covered with and without widening, and the least
    widening that covers nine of ten."""
    found = [(each.gpu, excess(each, points)) for each in described]
    used = f"with {interval.WIDENING}"
    lines = [f"{'described machine':18s} {'distance':>8s} {'judge':>5s} {'covered':>8s} {used:>10s} {'needed':>7s}"]
    for gpu in (*DESCRIBED, "all"):
        mine = [most for which, most in found if gpu in (which, "all")]
        shares = [sum(each <= most for each in mine) / len(mine) for most in (0, interval.WIDENING)]
        where = f"{away(gpu):8.2f}" if gpu in DESCRIBED else " " * 8
        lines.append(f"{gpu:18s} {where} {len(mine):5d} {shares[0]:8.0%} {shares[1]:10.0%} {least_widening(mine):7.2f}")
    return "\n".join(lines)


def by_data_sheet(gpu: str) -> tuple[str, ...]:
    """Overrides that make of the H200 what specifications say of a GPU, and the code that it takes."""
    values, name = dict(load_config(gpu).items()), gpu
    sources: dict[str, str] = {}
    while name != "h200":
        own, base = own_sources(name)
        sources, name = own | sources, base or "h200"
    numbers = {key for key, source in sources.items() if source.startswith("spec") and not isinstance(values[key], str)}
    return tuple(
        f"{key}={list(value) if isinstance(value := values[key], tuple) else value}"
        for key in sorted(numbers | {"gpu.arch", "l2.slices"})  # slices: so that L2's capacity can be shared out
    )


def table_published() -> str:
    """A line for each GPU that others measured with microbenchmarks and that is described by specifications alone: how
    far nine of ten published numbers lie off, in logarithms, and the widening that would cover them."""
    lines = [f"{'described machine':18s} {'distance':>8s} {'numbers':>7s} {'off by':>7s} {'needed':>7s}"]
    for gpu in ("a100", "v100", "t4"):
        overrides = by_data_sheet(gpu)
        apart = distance(load_config("h200", overrides))
        rows = [row for row in published.ROWS if row.gpu == gpu and not row.gap]
        machines = [dataclasses.replace(row, gpu="h200", overrides=(*overrides, *row.overrides)) for row in rows]
        off = least_widening([abs(math.log(published.measure(row) / row.published)) for row in machines])
        lines.append(f"{gpu:18s} {apart:8.2f} {len(rows):7d} {off:7.2f} {off / math.sqrt(apart):7.2f}")
    return "\n".join(lines)
