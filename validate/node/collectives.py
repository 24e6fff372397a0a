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

BANDS = ((16 << 20, 0.09), (64 << 10, 0.15), (0, 0.15))
"""From which size on, and the greatest error that is allowed there."""

CALIBRATED = {2: (256 << 10, 4 << 20, 16 << 20, 256 << 20), "all_to_all": (16 << 20, 256 << 20, 1 << 30)}
"""Sizes of calls on two GPUs, or of a collective on more, that constants are fitted to, besides 4 KiB; others judge."""


def compare(paths: Sequence[Path] | None = None, node: str = "hgx_h200") -> list[Compared]:
    """Every recorded call (ranks, collective, bytes), from its begin to the last rank's end, and what the simulated
    node makes of it. What the host took for a call is the recording's: the least time of small calls in a row."""
    rows = []
    for path in paths or recordings("collectives"):
        calls = read_json(path)["calls"]
        for ranks, name, nbytes, last_us, *_ in calls:
            host = min(call[5] for call in calls if call[:2] == [ranks, name] and call[2] <= 64 << 10)
            least, limit = next(each for each in BANDS if nbytes >= each[0])
            result = collective(name, nbytes // (4 * ranks) * 4 * ranks, ranks, node)
            rows.append(Compared(
                group=f"{name}, {f'from {least >> 10:,} KiB' if least else 'less'}",
                case=f"{ranks} GPUs, {name}, {nbytes:,} bytes", point=(ranks, name, nbytes), measured=last_us,
                simulated=result.time_us - result.launch_us + host, limit=limit,
                calibrated=nbytes in (4 << 10, *CALIBRATED.get(ranks if ranks == 2 else name, ())),
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
            if (found := [made.algorithm, made.protocol, made.channels]) != logged:
                wrong.append(f"{group.ranks} GPUs, {name}, {nbytes:,} bytes: {found}, NCCL {logged}")
    return count, wrong
