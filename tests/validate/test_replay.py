"""The simulator against recordings of an H200 and an H100: counters that must be equal, cycles, and who is faster.

Every test runs the machine code that the GPU ran, on the same inputs. Points are simulated once and shared by the
tests: at its small size every other variant, and each with a reference of its own; some at their large one; of the H100
one of every sixth family.
`python -m validate compare` has all. A point without baseline fails. `accepted_h200.txt` and `accepted_h100.txt` in
`validate/scoring/` have the score of the last complete comparison that was accepted: the model may not get worse than
that, and a known gap may not close without anybody noticing.
"""

from __future__ import annotations

from functools import cache

import pytest

from programs import registry
from tests.validate import held, order
from validate import baseline, replay
from validate.points import ProgramPoint, select
from validate.scoring import accepted

LARGE = [ProgramPoint.parse(name) for name in ("transpose/naive@1024", "transpose/tiled@1024", "divergence/32@32768")]
LADDERS = {
    "reduction": [point for point in select(["reduction"], "small") if point.variant != "reduction/shuffle"],
    "transpose": LARGE[:2],
    "bank_conflict": select(["bank_conflict"], "small"),
    "divergence": select(["divergence"], "small"),
}
FAMILIES = [variants[0].name for variants in registry.families().values() if variants[0].recorded]
REFERENCES = {
    (each.reference.__code__, *(repr(cell.cell_contents) for cell in each.reference.__closure__ or ())): each.name
    for each in map(registry.get, registry.recorded())
}
RANKED = {point.variant for ladder in LADDERS.values() for point in ladder}
HELD = {*registry.recorded()[::2], *REFERENCES.values(), *RANKED}
POINTS = [point for point in select(sizes="small") if point.variant in HELD] + LARGE
ON_H100 = [select([name], "small")[0] for name in FAMILIES[::6]]
WARM_NAMES = "saxpy", "transpose/tiled", "bank_conflict/32", "reduction/shuffle", "matmul/tiled", "pointer_chase/l2"
WARM = select(WARM_NAMES, "small")
WARM_ERROR = 0.08
ACCEPTED = {gpu: accepted.load(accepted.path_of(gpu)) for gpu in ("h200", "h100")}


@cache
def replayed(gpu: str, point: ProgramPoint) -> replay.Comparison:
    return replay.replay(point, gpu, gpu)


def test_every_size_of_every_variant_is_a_point():
    assert [ProgramPoint(name, size) for name in registry.recorded() for size in registry.get(name).sizes] == select()


@pytest.mark.parametrize(
    ("gpu", "point"),
    [("h200", each) for each in POINTS] + [("h100", each) for each in ON_H100],
    ids=lambda each: str(each),
)
def test_a_point_is_what_the_hardware_made_of_it(gpu, point):
    """Outputs and exact counters are equal, and cycles no further off than was accepted."""
    found = replayed(gpu, point)
    assert found.mismatch is None
    assert {name: (pair.measured, pair.predicted) for name, pair in found.differing.items()} == {}
    assert found.cycles.measured / 2 < found.cycles.predicted < found.cycles.measured * 2
    now, then = accepted.Entry.of(found), ACCEPTED[gpu][point]
    assert held.worse_point(now, then) is None and held.closed_gap(now, then) is None


@pytest.mark.parametrize("point", WARM, ids=str)
def test_a_warm_launch_takes_as_long_as_on_the_hardware(point):
    """The first of two launches is what a launch alone is; the second finds in caches what an H200 finds there."""
    found = replay.replay(point, warm=True)
    assert (found.cycles, found.exact) == (replayed("h200", point).cycles, replayed("h200", point).exact)
    assert found.mismatch is None and found.warm is not None and found.warm.spread.count == 3
    assert abs(found.warm.error) < WARM_ERROR
    assert found.warm.cycles.predicted < found.cycles.predicted


@pytest.mark.parametrize("family", LADDERS)
def test_programs_rank_as_on_the_hardware(family):
    rows = [replayed("h200", point) for point in LADDERS[family]]
    # The recording tells most of a ladder apart, or the test would say nothing.
    assert len(order.separated(rows)) >= len(rows) - 1
    assert order.inversions(rows) == []


@pytest.mark.parametrize("gpu", ACCEPTED)
def test_every_point_has_been_accepted(gpu):
    measured = {point: baseline.measured(point, gpu).cycles.median for point in select()}
    assert {point: entry.measured for point, entry in ACCEPTED[gpu].items()} == measured


@pytest.mark.parametrize(("gpu", "points"), [("h200", POINTS), ("h100", ON_H100)], ids=("h200", "h100"))
def test_the_score_is_no_worse_than_accepted(gpu, points):
    assert accepted.worse_score([accepted.Entry.of(replayed(gpu, point)) for point in points], ACCEPTED[gpu]) == []
