"""How long a sweep will take, from a few of its points."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusim.errors import ConfigError
from gpusim.explore.evaluate import evaluate, machine
from gpusim.explore.point import Pairs, Point

PATIENCE_S = 20.0
"""Samples are taken for so long; a program that had none counts as the mean of the others."""
_MOST_CONFIGURATIONS = 2000


@dataclass(frozen=True)
class Plan:
    """points: how many there are. seconds: estimate for `workers` processes, without their start; None if nothing could
    be sampled. sampled: points that were run for it. invalid: points of a machine that cannot be, of `checked`."""

    points: int
    workers: int
    seconds: float | None
    sampled: int
    invalid: int
    checked: int


def estimate(points: Sequence[Point], workers: int, options: Mapping[str, Any]) -> Plan:
    """Run one point of every program and parameters, the middle one, and count each for the others like it."""
    kinds: dict[tuple[str, Pairs], list[Point]] = {}
    for point in points:
        kinds.setdefault((point.program, point.parameters), []).append(point)
    started = time.monotonic()
    seconds: dict[tuple[str, Pairs], float] = {}
    for kind, members in kinds.items():
        left = PATIENCE_S - (time.monotonic() - started)
        if left <= 0:
            break
        if not seconds:  # the first run loads the simulator's core
            evaluate(members[0], **{**options, "timeout_s": left})
        row = evaluate(members[len(members) // 2], **{**options, "timeout_s": max(left, 1.0)})
        seconds[kind] = row["seconds"]
    mean = sum(seconds.values()) / len(seconds) if seconds else None
    total = None if mean is None else sum(seconds.get(kind, mean) * len(members) for kind, members in kinds.items())
    checked = points[:_MOST_CONFIGURATIONS]
    return Plan(
        points=len(points),
        workers=workers,
        seconds=None if total is None else total / max(workers, 1),
        sampled=len(seconds),
        invalid=sum(not _can_be(point) for point in checked),
        checked=len(checked),
    )


def _can_be(point: Point) -> bool:
    try:
        machine(point)
    except ConfigError:
        return False
    return True
