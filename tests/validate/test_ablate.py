"""What mechanisms are worth: the table, the command, and that every mechanism can be taken away."""

from __future__ import annotations

import re

import pytest

from gpusim.config import diff, load_config
from validate import __main__ as command
from validate import ablate, mechanisms, replay
from validate.baseline import Spread
from validate.mechanisms import MECHANISMS, Mechanism
from validate.points import select
from validate.replay import Comparison, Failure, Pair
from validate.scoring import documents, stalls

POINTS = [point for point in select(["reduction", "scan"], "small") if point.split == "train"][:4]


def row(point, predicted):
    """Memory as measured, and one stall reason too much."""
    reasons = {name: f"{stalls.PREFIX}{name}{stalls.SUFFIX}" for name in ("wait", "selected")}
    modelled = {"dram__bytes_read.sum": Pair(64_000, 64_000), "dram__bytes_write.sum": Pair(0, 0)}
    modelled |= {reasons["wait"]: Pair(1, 2), reasons["selected"]: Pair(1, 1)}
    spread = Spread(median=1000, min=1000, max=1000, count=3)
    return Comparison(point, 5, Pair(1000, predicted), spread, {}, modelled, None, 0.1)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)
def test_every_mechanism_changes_the_configuration_and_nothing_else(mechanism):
    changed = diff(load_config("h200"), load_config("h200", mechanism.overrides))
    # A value that is the shipped one already would switch nothing off.
    assert set(changed) == {each.partition("=")[0] for each in mechanism.overrides}
    assert mechanism.meaning


def test_names_are_unique_and_unknown_ones_refused():
    assert len({each.name for each in MECHANISMS}) == len(MECHANISMS)
    assert [each.name for each in mechanisms.choose(["dram-rows"])] == ["dram-rows"]
    assert mechanisms.choose([]) == list(MECHANISMS)
    with pytest.raises(KeyError, match="dram-rows"):
        mechanisms.choose(["dram"])


def test_effects_are_differences_on_the_same_points():
    change = Mechanism("m", "none of it", ("a.b=1",))
    rows = {
        (): [row(POINTS[0], 1100), row(POINTS[1], 900), row(POINTS[2], 1000), Failure(POINTS[3], "no")],
        ("a.b=1",): [row(POINTS[0], 1210), row(POINTS[1], 954), Failure(POINTS[2], "no"), row(POINTS[3], 1)],
    }
    whole, without = ablate.effects([change], rows)
    assert (whole.points, whole.failed, whole.better, whole.worse) == (3, 1, 0, 0)
    assert whole.mean == pytest.approx(0.2 / 3) and whole.bias == pytest.approx(0) and whole.affected == ()
    # The last point has no whole model to be compared with.
    assert (without.points, without.failed, without.better, without.worse) == (2, 2, 1, 1)
    assert without.mean == pytest.approx((0.21 + 0.046) / 2) and without.p90 == pytest.approx(0.21)
    assert without.affected == ((POINTS[0], pytest.approx(0.1)), (POINTS[1], pytest.approx(0.06)))
    text = ablate.text([whole, without])
    assert re.search(rf"^m +12\.8% +\+6\.1pp +21\.0% +\+8\.2% +1 +1  {POINTS[0]} \+10%", text, re.MULTILINE)
    assert re.search(r"^m +- +- +- +- +0\.0% +0\.0%$", text, re.MULTILINE) and without.stalls == 0
    assert "(2 FAILED)" in text and re.search(r"^m +none of it$", text, re.MULTILINE)
    with pytest.raises(ValueError, match="without m"):
        ablate.effects([change], rows | {("a.b=1",): [Failure(point, "no") for point in POINTS]})


def test_the_command_resumes_and_renews_the_documents(tmp_path, monkeypatch, capsys):
    done = []

    def compare(points, **options):
        (point,) = points
        done.append((point, options["overrides"]))
        yield row(point, 1300 if "l2.near_copy=false" in options["overrides"] else 1200)

    monkeypatch.setattr(replay, "compare", compare)
    (tmp_path / "validation.md").write_text("a\n<!-- ablation -->\n<!-- /ablation -->\nb\n")
    monkeypatch.setattr(documents, "DOCS", tmp_path)
    journal = str(tmp_path / "journal.jsonl")
    line = ["ablate", "--mechanism", "l2-near-copies", "--resume", journal, "--jobs", "1", "--set", "sm.count=66"]
    assert command.main([*line, "--only", "reduction", "scan", "--docs"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^l2-near-copies +30\.0% +\+10\.0pp", text, re.MULTILINE)
    # Only families that may be looked at while modelling, and every point with both configurations.
    assert {point.split for point, _ in done} == {"train"}
    assert {overrides for _, overrides in done} == {("sm.count=66",), ("sm.count=66", "l2.near_copy=false")}
    assert "l2-near-copies" in (tmp_path / "validation.md").read_text()
    count = len(done)
    assert command.main([*line, "--only", "reduction", "scan"]) == 0 and len(done) == count
    assert capsys.readouterr().out == text
    assert command.main([*line, "--only", "scan"]) == 2  # a family that judges, and no other
    assert command.main(["ablate", "--mechanism", "magic"]) == 2
    assert command.main(["ablate", "--list"]) == 0
    assert "issue.policy=lrr" in capsys.readouterr().out
