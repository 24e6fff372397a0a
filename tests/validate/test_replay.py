"""The simulator against recordings of an H200: counters that must be equal, cycles, and who is faster.

Every test runs the machine code that the GPU ran, on the same inputs. Points are simulated once and shared by the
tests. The largest ones run only with GPUSIM_REPLAY=all; they are reported as skipped, with what it takes to run them.
"""

from __future__ import annotations

import os
from functools import cache

import pytest

from programs import registry
from validate import baseline, order, replay
from validate.points import Point, select

MAX_INSTRUCTIONS = 3_000_000
"""Warp instructions of a point that is simulated in every run of the tests."""

LARGE = {point.variant: point for point in select(sizes="large")}
HARRIS = (
    *("interleaved_divergent", "interleaved_conflicts", "sequential", "first_add"),
    *("unrolled_last_warp", "unrolled", "multiple"),
)
LADDERS = {
    "reduction": [LARGE[f"reduction/{name}"] for name in HARRIS],
    "transpose": select(["transpose"], "large"),
    "bank_conflict": select(["bank_conflict"], "large"),
    "divergence": select(["divergence"], "large"),
}


def wanted(point: Point) -> bool:
    """Whether a point is simulated; one without baseline is, so that it fails."""
    try:
        instructions = baseline.measured(point)["smsp__inst_executed.sum"]
    except baseline.MissingBaseline:
        return True
    needed = any(point in ladder for ladder in LADDERS.values())
    return needed or instructions <= MAX_INSTRUCTIONS or os.environ.get("GPUSIM_REPLAY") == "all"


def points() -> list:
    why = f"more than {MAX_INSTRUCTIONS:,} warp instructions: run with GPUSIM_REPLAY=all"
    return [
        pytest.param(point, id=str(point), marks=() if wanted(point) else pytest.mark.skip(why))
        for point in select()
    ]


@cache
def replayed(point: Point) -> replay.Comparison:
    return replay.replay_baseline(point)


def test_every_size_of_every_variant_is_a_point():
    every = [Point(name, size) for name in registry.names() for size in registry.get(name).sizes]
    assert [param.values[0] for param in points()] == every
    assert all(point.size == point.program.sizes[0] or point in LARGE.values() for point in every)


@pytest.mark.parametrize("point", points())
def test_outputs_are_right(point):
    assert replayed(point).mismatch is None


@pytest.mark.parametrize("point", points())
def test_exact_counters_are_exact(point):
    differing = replayed(point).differing
    assert {name: (pair.measured, pair.predicted) for name, pair in differing.items()} == {}


@pytest.mark.parametrize("point", points())
def test_cycles_are_within_a_factor_of_two(point):
    cycles = replayed(point).cycles
    assert cycles.measured / 2 < cycles.predicted < cycles.measured * 2


@pytest.mark.parametrize("family", LADDERS)
def test_programs_rank_as_on_the_hardware(family):
    rows = [replayed(point) for point in LADDERS[family]]
    # The recording tells most of a ladder apart, or the test would say nothing.
    assert len(order.separated(rows)) >= len(rows) - 1
    assert order.inversions(rows) == []
