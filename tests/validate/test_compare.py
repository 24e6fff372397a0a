"""Comparison and scores on a stand-in for the simulator."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from gpusim.errors import LaunchError
from gpusim.results.metrics import METRICS
from programs import registry
from tests.validate import order
from validate import __main__ as command
from validate import baseline, replay, score
from validate.baseline import Spread
from validate.metrics import CYCLES, EXACT, LAUNCH
from validate.points import ProgramPoint, select
from validate.replay import Comparison, Failure, Pair
from validate.scoring import text

POINT = ProgramPoint("saxpy", registry.get("saxpy").sizes[0])


def stand_in(change=None, factor=1.0, right=True):
    """A simulator that predicts what was measured, with one counter changed."""

    def simulate(program, grid, block, args, gpu, shared_bytes, *, overrides, threads):
        assert program.name.startswith("saxpy") and (gpu, shared_bytes) == ("h200", 0)
        measured = baseline.measured(POINT)
        if right:
            for index, want in zip((2,), POINT.program.reference(POINT.make()), strict=True):
                args[index][...] = want
        metrics = {name: measured[name] for name in measured.counters} | (change or {})
        return SimpleNamespace(cycles=round(measured.cycles.median * factor), metrics=metrics, kind="arithmetic")

    return simulate


def test_a_perfect_simulator_is_perfect():
    row = replay.replay(POINT, simulate=stand_in())
    assert row.ok and not row.differing and row.error == 0 and row.mismatch is None
    assert set(row.exact) == {*EXACT, *LAUNCH} and CYCLES not in row.modelled
    assert "lts__t_sectors_srcunit_tex.sum" in row.modelled and set(row.modelled) <= set(METRICS)
    assert score.ok([row]) and not score.ok([])


@pytest.mark.parametrize("name", EXACT)
def test_every_exact_counter_is_watched(name):
    measured = baseline.measured(POINT)[name]
    off = 1 if isinstance(measured, int) else 0.01
    row = replay.replay(POINT, simulate=stand_in({name: measured + off}))
    assert set(row.differing) == {name} and not row.ok and not score.ok([row])
    assert f"{name}: measured {score.number(measured)}, predicted" in score.line(row)


def test_ratios_are_compared_to_the_decimals_that_were_printed():
    assert Pair(31.97, 31.9679).equal and not Pair(31.97, 31.98).equal
    assert Pair(32, 31.9999).equal and not Pair(32, 31.99).equal
    assert Pair(7, 7).equal and not Pair(7, 8).equal


def test_wrong_outputs_fail_a_point():
    row = replay.replay(POINT, simulate=stand_in(right=False))
    assert not row.ok and "argument 2 differs" in row.mismatch and "wrong output" in score.line(row)


def test_a_failed_simulation_costs_one_point():
    def broken(*args, **options):
        raise LaunchError("too large", kernel="saxpy")

    rows = list(replay.compare(select(["saxpy"]), simulate=broken))
    assert [type(row) for row in rows] == [Failure, Failure] and "too large" in rows[0].reason
    assert not score.ok(rows) and score.Errors.of([]) is None
    assert "0/2 " in text.cycles_text(rows) and "FAILED" in score.line(rows[0])
    assert json.loads(json.dumps(score.plain(rows[0])))["reason"] == rows[0].reason


def test_a_point_without_baseline_or_with_other_inputs_fails(monkeypatch):
    other = ProgramPoint("saxpy", POINT.size, POINT.seed + 1)
    (row,) = replay.compare([other], simulate=stand_in())
    assert isinstance(row, Failure) and "seed" in row.reason
    monkeypatch.setattr(baseline, "measured", lambda *which: baseline.load("saxpy").at(POINT.size))
    with pytest.raises(baseline.BaselineError, match="inputs"):
        replay.replay(other, simulate=stand_in())


def test_code_that_was_not_measured_fails(monkeypatch):
    found = baseline.load("saxpy")
    code = found.code.model_copy(update={"code_sha256": "0"})
    monkeypatch.setattr(baseline, "load", lambda *which: found.model_copy(update={"code": code}))
    (row,) = replay.compare([POINT], simulate=stand_in())
    assert isinstance(row, Failure) and "record it again" in row.reason


def comparison(name, measured, predicted, *, spread=0, exact=None):
    around = Spread(median=measured, min=measured - spread, max=measured + spread, count=3)
    modelled = {"m": Pair(measured, predicted)}
    cycles = Pair(measured, predicted)
    return Comparison(ProgramPoint(name, 1), 5, cycles, around, exact or {}, modelled, None, 0.5, "arithmetic")


def test_scores():
    rows = [comparison(f"p{k}", 100, predicted) for k, predicted in enumerate((110, 80, 100, 150))]
    found = score.Errors.of([(row.point, row.error) for row in rows])
    assert found.points == 4 and found.mean == pytest.approx(0.2) and found.median == pytest.approx(0.15)
    assert found.p90 == found.worst == pytest.approx(0.5)
    assert found.worst_point == "p3@1" and found.bias == pytest.approx(0.1)
    line = text.cycles_text([*rows, Failure(ProgramPoint("q", 1), "no")]).splitlines()[1].split()
    assert line[:2] == ["all", "4/5"] and line[3] == "20.0%" and line[6:8] == ["50.0%", "+10.0%"] and line[-1] == "p3@1"


def test_orders():
    a, b = comparison("a", 100, 50, spread=2), comparison("b", 110, 49, spread=2)
    near = comparison("c", 112, 40, spread=1)
    assert [str(fast.point) for fast, _ in order.separated([b, a])] == ["a@1"]
    assert order.inversions([a, b]) == ["a@1 is faster than b@1 (100 and 110 cycles), predicted 50 and 49"]
    assert order.inversions([b, near]) == []  # the hardware does not tell them apart
    assert len(order.inversions([a, near, b])) == 2
    assert order.inversions([a, comparison("b", 110, 50)])  # a tie is no order


def test_the_command(monkeypatch, capsys):
    monkeypatch.setattr(replay, "gpusim", SimpleNamespace(simulate=stand_in(factor=1.5)))
    line = ["compare", "--only", "saxpy", "--size", "small"]
    assert command.main([*line, "--full"]) == 0
    text = capsys.readouterr().out
    assert f"{POINT}" in text and "+50.0%" in text and "dram__bytes_read.sum" in text
    monkeypatch.setattr(replay, "gpusim", SimpleNamespace(simulate=stand_in({EXACT[0]: 1})))
    assert command.main(line) == 1
    assert f"{EXACT[0]}: measured" in capsys.readouterr().out
