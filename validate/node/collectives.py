"""Recorded collectives of real GPUs beside the simulated ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpusim.collectives import NAMES, collective
from gpusim.collectives.choice import choose
from gpusim.collectives.group import group_of
from gpusim.node import load_node
from validate.compared import Compared
from validate.gpu import read_json
from validate.node.copies import recordings

BANDS = ((16 << 20, 0.13), (64 << 10, 0.25), (0, 0.30))
"""From which size on, and the greatest error that is allowed there."""

CALIBRATED_BYTES = (16 << 20, 256 << 20)
"""Sizes whose calls on two GPUs the model's constants were looked at with, besides those of one channel and of 4 KiB
that gpusim/collectives/nccl.toml names; the others judge."""


def compare(paths: Sequence[Path] | None = None, node: str = "hgx_h200") -> list[Compared]:
    """Every recorded call (ranks, collective, bytes), from its begin to the last rank's end, and what the simulated
    node makes of it."""
    rows = []
    for path in paths or recordings("collectives"):
        for ranks, name, nbytes, last_us, *_ in read_json(path)["calls"]:
            least, limit = next(each for each in BANDS if nbytes >= each[0])
            rows.append(Compared(
                group=f"{name}, {f'from {least >> 10:,} KiB' if least else 'less'}",
                case=f"{ranks} GPUs, {name}, {nbytes:,} bytes", point=(ranks, name, nbytes), measured=last_us,
                simulated=collective(name, nbytes // (4 * ranks) * 4 * ranks, ranks, node).time_us,
                limit=limit, calibrated=ranks == 2 and nbytes in CALIBRATED_BYTES,
            ))  # fmt: skip
    return sorted(rows, key=lambda row: (NAMES.index(row.point[1]), -row.point[2]))


def wrong_choices(node: str = "hgx_h200") -> tuple[int, list[str]]:
    """Return how many choices NCCL logged, and those that the simulated one makes otherwise, a line each."""
    count, wrong = 0, []
    for path in recordings("collectives"):
        recorded = read_json(path)
        group = group_of(load_node(node, recorded["about"]["gpus"])).communicator
        for name, nbytes, *logged in recorded["choices"]:
            made = choose(name, nbytes, group)
            count += 1
            if [made.algorithm, made.protocol, made.channels] != logged:
                wrong.append(f"{group.ranks} GPUs, {name}, {nbytes:,} bytes: {made.algorithm} {made.protocol} "
                             f"{made.channels}, NCCL {logged}")  # fmt: skip
    return count, wrong
