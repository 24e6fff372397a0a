"""The simulator against recordings of an H200 and an H100: counters that must be equal, cycles, and who is faster.

Every test runs the machine code that the GPU ran, on the same inputs. Points are simulated once and shared by the
tests: every variant at its small size, and the ladders at their large one; of the H100 one of each family.
`python -m validate compare` has all. A point without baseline fails. `accepted_h200.txt` and `accepted_h100.txt` in
`validate/scoring/` have the score of the last complete comparison that was accepted: the model may not get worse than
that, and a known gap may not close without anybody noticing.
"""

from __future__ import annotations

from functools import cache

import pytest

from programs import registry
from tests.validate import order
from validate import baseline, replay
from validate.points import ProgramPoint, select
from validate.scoring import accepted

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


ON_H100 = [select([variants[0].name], "small")[0] for variants in registry.families().values() if variants[0].recorded]
POINTS = select(sizes="small") + [point for points in LADDERS.values() for point in points]
of_points = pytest.mark.parametrize(
    "point", [pytest.param(each, marks=[pytest.mark.long] * (each in LARGE.values()), id=str(each)) for each in POINTS]
)
# Known gaps, by variant: counters that differ as yet. A variant whose counters have become equal must go from here.
NOT_YET: dict[str, str] = {}

ACCEPTED = accepted.load()
ACCEPTED_ON_H100 = accepted.load(accepted.path_of("h100"))


@cache
def replayed(point: ProgramPoint, gpu: str = "h200") -> replay.Comparison:
    return replay.replay(point, gpu, gpu)


def test_every_size_of_every_variant_is_a_point():
    assert [ProgramPoint(name, size) for name in registry.recorded() for size in registry.get(name).sizes] == select()


@of_points
def test_outputs_are_right(point):
    assert replayed(point).mismatch is None


@of_points
def test_exact_counters_are_exact(point):
    differing = replayed(point).differing
    if point.variant in NOT_YET:
        assert differing, f"{point.variant} counts as the hardware now: take it out of NOT_YET"
    else:
        assert {name: (pair.measured, pair.predicted) for name, pair in differing.items()} == {}


@of_points
def test_cycles_are_within_a_factor_of_two(point):
    cycles = replayed(point).cycles
    assert cycles.measured / 2 < cycles.predicted < cycles.measured * 2


@pytest.mark.long
@pytest.mark.parametrize("family", LADDERS)
def test_programs_rank_as_on_the_hardware(family):
    rows = [replayed(point) for point in LADDERS[family]]
    # The recording tells most of a ladder apart, or the test would say nothing.
    assert len(order.separated(rows)) >= len(rows) - 1
    assert order.inversions(rows) == []


@pytest.mark.parametrize(("gpu", "entries"), [("h200", ACCEPTED), ("h100", ACCEPTED_ON_H100)])
def test_every_point_has_been_accepted(gpu, entries):
    measured = {point: baseline.measured(point, gpu).cycles.median for point in select()}
    assert {point: entry.measured for point, entry in entries.items()} == measured


@pytest.mark.parametrize("point", ON_H100, ids=str)
def test_the_h100_is_met_too(point):
    found = replayed(point, "h100")
    assert found.mismatch is None and found.differing == {}
    assert accepted.worse_point(accepted.Entry.of(found), ACCEPTED_ON_H100[point]) is None


def test_the_score_on_the_h100_is_no_worse_than_accepted():
    entries = [accepted.Entry.of(replayed(point, "h100")) for point in ON_H100]
    assert len(entries) > 30 and accepted.worse_score(entries, ACCEPTED_ON_H100) == []


@of_points
def test_no_point_is_worse_than_accepted(point):
    assert accepted.worse_point(accepted.Entry.of(replayed(point)), ACCEPTED[point]) is None


@pytest.mark.long
@pytest.mark.parametrize("point", [point for point in POINTS if point in ACCEPTED and ACCEPTED[point].is_gap], ids=str)
def test_known_gaps_are_still_open(point):
    assert accepted.closed_gap(accepted.Entry.of(replayed(point)), ACCEPTED[point]) is None


@pytest.mark.long
def test_the_score_is_no_worse_than_accepted():
    assert len(POINTS) >= 40
    assert accepted.worse_score([accepted.Entry.of(replayed(point)) for point in POINTS], ACCEPTED) == []
