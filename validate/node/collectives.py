"""Recorded collectives of real GPUs beside the simulated ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from gpusim.collectives import NAMES, collective
from gpusim.collectives.choice import choose
from gpusim.collectives.group import group_of
from gpusim.node import load_node
from validate.compared import Compared
from validate.node.copies import load, recordings

#: From which size on, the mean and the greatest error that are allowed there.
BANDS = ((16 << 20, 0.05, 0.13), (64 << 10, 0.20, 0.25), (0, 0.30, 0.30))

CALIBRATED_BYTES = (16 << 20, 256 << 20)
"""Sizes whose calls on two GPUs the model's constants were looked at with, besides those of one channel and of 4 KiB
that gpusim/collectives/nccl.toml names; the others judge."""


@dataclass(frozen=True, kw_only=True)
class ComparedCall(Compared):
    """One collective of one size. recorded_us: from the call to the last rank's end."""

    ranks: int
    name: str
    nbytes: int


def compare(
    paths: Sequence[Path] | None = None, node: str = "hgx_h200", most_bytes: int | None = None
) -> list[ComparedCall]:
    """Every recorded call and what the simulated node makes of it. most_bytes: only so large ones."""
    rows = []
    for path in paths or recordings("collectives"):
        for ranks, name, nbytes, last_us, *_ in load(path)["calls"]:
            if most_bytes is None or nbytes <= most_bytes:
                result = collective(name, nbytes // (4 * ranks) * 4 * ranks, ranks, node)
                times = {"recorded_us": last_us, "simulated_us": result.time_us}
                known = ranks == 2 and nbytes in CALIBRATED_BYTES
                rows.append(ComparedCall(ranks=ranks, name=name, nbytes=nbytes, calibrated=known, **times))
    return rows


def wrong_choices(node: str = "hgx_h200") -> tuple[int, list[str]]:
    """How many choices NCCL logged, and those that the simulated one makes otherwise, a line each."""
    count, wrong = 0, []
    for path in recordings("collectives"):
        recorded = load(path)
        group = group_of(load_node(node, recorded["about"]["gpus"])).communicator
        for name, nbytes, *logged in recorded["choices"]:
            made = choose(name, nbytes, group)
            count += 1
            if [made.algorithm, made.protocol, made.channels] != logged:
                wrong.append(f"{group.ranks} GPUs, {name}, {nbytes:,} bytes: {made.algorithm} {made.protocol} "
                             f"{made.channels}, NCCL {logged}")  # fmt: skip
    return count, wrong


def choices(node: str) -> tuple[bool, list[str]]:
    """Whether a choice is another than NCCL's, and what to say of the choices."""
    count, wrong = wrong_choices(node)
    made = f"{count - len(wrong)} of {count} choices of algorithm, protocol and channels as NCCL made them"
    return bool(wrong), [made, *wrong]


def band(nbytes: int) -> tuple[int, float, float]:
    """The band of `BANDS` that a size is judged in."""
    return next(each for each in BANDS if nbytes >= each[0])


def table(rows: Sequence[ComparedCall]) -> str:
    """A line for every call."""
    times = (f"{row.recorded_us:>9,.1f} {row.simulated_us:>9,.1f} {row.error:+.1%}" for row in rows)
    calls = (f"{row.ranks} {row.name:15} {row.nbytes:>13,}" for row in rows)
    return "\n".join(map(" ".join, zip(calls, times, strict=True)))


def summary(rows: Sequence[ComparedCall]) -> str:
    """Mean and greatest error of each collective in each band, those that were calibrated with left out."""
    judged = [row for row in rows if not row.calibrated]
    heads = ["collective", *(f"from {start >> 10:,} KiB" if start else "below" for start, *_ in BANDS)]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for name in (*NAMES, "all"):
        cells = [name]
        for one in BANDS:
            errors = [abs(row.error) for row in judged if name in (row.name, "all") and band(row.nbytes) == one]
            cells.append(f"{mean(errors):.1%}, at most {max(errors):.1%} ({len(errors)})" if errors else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
