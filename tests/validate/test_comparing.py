"""Comparisons that are resumed, in several processes, and what is left of them when they are killed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpusim.explore.journal import JournalError, read_journal
from validate import __main__ as command
from validate import comparing, journal, replay, score
from validate.baseline import Spread
from validate.points import select
from validate.replay import Comparison, Failure, Pair

ROOT = Path(__file__).resolve().parents[2]
POINTS = select(["reduction"], "small")


def row(point, predicted=110):
    spread = Spread(median=100, min=95, max=105, count=3)
    exact = {"smsp__inst_executed.sum": Pair(7, 7)}
    modelled = {"dram__bytes_read.sum": Pair(0, 32), "sm__cycles_active.avg": Pair(10.5, 11)}
    return Comparison(point, 7, Pair(100, predicted), spread, exact, modelled, "argument 0 differs", 0.25, "atomics")


@pytest.fixture
def simulated(monkeypatch):
    """Tasks whose comparison was really made, and no simulation."""
    done = []

    def compare(points, **options):
        (point,) = points
        done.append((point, options["overrides"]))
        yield row(point)

    monkeypatch.setattr(replay, "compare", compare)
    return done


def test_rows_survive_being_written_down():
    for each in (row(POINTS[0]), Failure(POINTS[1], "too large")):
        assert score.row_of(json.loads(json.dumps(score.plain(each)))) == each


def test_a_second_run_does_nothing_and_says_the_same(tmp_path, simulated):
    path = tmp_path / "folder" / "journal"
    first = list(comparing.compare(POINTS[:3], journal=path, jobs=1))
    second = list(comparing.compare(POINTS, journal=path, jobs=1))
    assert second[:3] == first and [row.point for row in second] == POINTS
    assert [point for point, _ in simulated] == POINTS  # each of them once
    for some in (slice(None), slice(3, 4)):
        assert list(comparing.compare(POINTS[some], journal=path, jobs=1)) == second[some]
    assert len(simulated) == len(POINTS)
    assert journal.rows_of(path) == (second, "")


def test_a_journal_is_of_one_configuration_and_version(tmp_path, simulated, monkeypatch):
    path = tmp_path / "journal"
    list(comparing.compare(POINTS[:1], overrides=["sm.count=66"], journal=path, jobs=1))
    assert journal.rows_of(path)[1] == "configuration h200 sm.count=66"
    assert journal.rows_of(path, "h200 sm.count=66")[1] == ""
    for others in ({}, {"gpu": "h100"}, {"overrides": ["sm.count=67"]}):
        with pytest.raises(JournalError, match="another sweep"):
            comparing.compare(POINTS[:1], journal=path, jobs=1, **others)
    monkeypatch.setattr(journal, "sources_digest", lambda: "another")
    with pytest.raises(JournalError, match="another version"):
        comparing.compare(POINTS[:1], overrides=["sm.count=66"], journal=path, jobs=1)
    assert journal.rows_of(path)[1].endswith("; made with other sources of the simulator than there are now")
    assert len(simulated) == 1


def test_a_gpu_is_compared_with_its_own_baselines(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(comparing, "compare", lambda points, **options: asked.append(options["baseline_of"]) or [])
    mine = tmp_path / "mine.toml"
    mine.write_text('base = "h100"\n')
    for more in ([], ["--gpu", "h100"], ["--gpu", str(mine)], ["--gpu", str(mine), "--baseline", "h100"]):
        command.main(["compare", "--only", "saxpy", *more])
    assert asked == ["h200", "h100", "h200", "h100"]


def test_a_strange_file_is_refused(tmp_path, simulated):
    path = tmp_path / "journal"
    for foreign in (b"point,cycles\nreduction,5\n", b"[1, 2]\n"):
        path.write_bytes(foreign)
        with pytest.raises(JournalError):
            comparing.compare(POINTS[:3], journal=path, jobs=1)
        assert path.read_bytes() == foreign
    with pytest.raises(JournalError, match="not the journal"):
        journal.rows_of(path)
    with pytest.raises(JournalError, match="cannot be read"):
        journal.rows_of(tmp_path / "absent")


@pytest.mark.usefixtures("simulated")
def test_a_journal_can_be_scored(tmp_path, capsys):
    rows = [row(point) for point in select()]
    path = tmp_path / "journal"
    assert list(comparing.compare(select()[:-1], journal=path, jobs=1)) == rows[:-1]
    assert journal.rows_of(path) == (rows[:-1], "")
    assert command.main(["score", str(path)]) == 1
    assert f"{len(rows) - 1}/{len(rows)}" in capsys.readouterr().out
    assert command.main(["score", str(path), "--split", "judge"]) == 1
    out = capsys.readouterr().out
    judging = sum(each.split == "judge" for each in select())
    assert f"{judging}/{judging}" in out and "judge" in out and "train" not in out
    assert command.main(["score", str(path), "--accept"]) == 2
    assert "1 points are missing" in capsys.readouterr().err
    assert command.main(["score", str(tmp_path / "absent")]) == 2


def test_an_interrupted_comparison_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def compare(points, **options):
        if points != (POINTS[0],):
            raise KeyboardInterrupt
        yield row(POINTS[0])

    monkeypatch.setattr(replay, "compare", compare)
    path = tmp_path / "journal"
    line = ["compare", "--only", "reduction", "--size", "small", "--jobs", "1", "--resume", str(path)]
    assert command.main(line) == 130
    assert f"goes on from {path}" in capsys.readouterr().err
    assert len(journal.rows_of(path)[0]) == 1
    assert command.main([*line, "--set", "sm.coutn=5"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "sm.count" in err
    assert command.main(["compare", "--only", "reduction/shufle"]) == 2
    assert "no program named 'reduction/shufle'" in capsys.readouterr().err
    path.write_text("what is this")
    assert command.main(line) == 2 and "is not the journal" in capsys.readouterr().err


def test_a_process_that_dies_costs_its_point(tmp_path, monkeypatch):
    monkeypatch.setattr(comparing, "_rows_of", die_at_the_first)
    path = tmp_path / "journal"
    rows = list(comparing.compare(POINTS[:3], journal=path, jobs=2))
    assert [type(each) for each in rows] == [Failure] * 3
    assert "exit code 3" in rows[0].reason
    assert len(read_journal(path)[1]) == 2  # that point is tried again


def die_at_the_first(point, **how):
    if point == POINTS[0]:
        os._exit(3)
    return [Failure(point, "no")]
