"""Stall reasons: what share of the warps' time each takes, on the hardware and predicted.

A point is right if the three reasons that cost most on the hardware are each predicted within five percentage points
of the whole; eight of ten points are to be.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from validate.replay import Comparison, Pair

PREFIX = "smsp__average_warps_issue_stalled_"
SUFFIX = "_per_issue_active.ratio"
REASONS_THAT_COUNT = 3
WITHIN_POINTS = 5.0
TARGET = 0.80


@dataclass(frozen=True)
class Reason:
    """A reason over some points: mean shares (per cent), mean absolute difference (percentage points), and at how many
    points it is one of those that count and is off by more than is allowed."""

    name: str
    measured: float
    predicted: float
    difference: float
    misses: int


def shares(row: Comparison) -> dict[str, Pair]:
    """Share of every reason in all warp cycles, per cent, issues ("selected") among them; empty where either side has
    none at all."""
    pairs = {
        name.removeprefix(PREFIX).removesuffix(SUFFIX): pair
        for name, pair in row.modelled.items()
        if name.startswith(PREFIX)
    }
    measured = sum(pair.measured for pair in pairs.values())
    predicted = sum(pair.predicted for pair in pairs.values())
    if not measured or not predicted:
        return {}
    return {
        name: Pair(100 * pair.measured / measured, 100 * pair.predicted / predicted) for name, pair in pairs.items()
    }


def top(found: dict[str, Pair]) -> list[str]:
    """The reasons that count: those that cost most on the hardware."""
    return sorted(found, key=lambda name: -found[name].measured)[:REASONS_THAT_COUNT]


def worst_difference(row: Comparison) -> float | None:
    """Greatest difference among the reasons that count, percentage points; None where nothing was measured."""
    found = shares(row)
    return max(abs(found[name].difference) for name in top(found)) if found else None


def right(rows: Sequence[Comparison]) -> tuple[int, int]:
    """Return how many points are right, and how many have stall reasons."""
    worst = [off for off in map(worst_difference, rows) if off is not None]
    return sum(off <= WITHIN_POINTS for off in worst), len(worst)


def by_reason(rows: Sequence[Comparison]) -> list[Reason]:
    """Every reason over the points that have any, the costliest first; those that nobody ever saw are left out."""
    all_shares = [found for found in map(shares, rows) if found]
    reasons = []
    for name in dict.fromkeys(name for found in all_shares for name in found):
        mine = [found[name] for found in all_shares if name in found]
        counting = [found[name] for found in all_shares if name in top(found)]
        if any(share.measured or share.predicted for share in mine):
            reasons.append(Reason(
                name=name,
                measured=statistics.fmean(share.measured for share in mine),
                predicted=statistics.fmean(share.predicted for share in mine),
                difference=statistics.fmean(abs(share.difference) for share in mine),
                misses=sum(abs(share.difference) > WITHIN_POINTS for share in counting),
            ))  # fmt: skip
    return sorted(reasons, key=lambda reason: -reason.measured)
