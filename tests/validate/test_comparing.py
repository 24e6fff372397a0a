"""Comparisons that are resumed, in several processes, and what is left of them when they are killed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from validate import __main__ as command
from validate import comparing, journal, pool, replay, score
from validate.baseline import Spread
from validate.journal import Journal, JournalError
from validate.points import Point, select
from validate.pool import ProcessDied, Task
from validate.progress import Progress
from validate.replay import Comparison, Failure, Pair

ROOT = Path(__file__).resolve().parents[2]
POINTS = select(["reduction"], "small")


def row(point, predicted=110):
    spread = Spread(median=100, min=95, max=105, count=3)
    exact = {"smsp__inst_executed.sum": Pair(7, 7)}
    modelled = {"dram__bytes_read.sum": Pair(0, 32), "sm__cycles_active.avg": Pair(10.5, 11)}
    return Comparison(point, 7, Pair(100, predicted), spread, exact, modelled, "argument 0 differs", 0.25)


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
    tasks, path = [Task(point) for point in POINTS], tmp_path / "folder" / "journal.jsonl"
    first = comparing.compare(tasks[:3], journal=path, jobs=1)
    said = []
    second = comparing.compare(tasks, journal=path, jobs=1, say=lambda task, row: said.append(task))
    assert second[:3] == first and said == tasks
    assert [point for point, _ in simulated] == POINTS  # each of them once
    assert comparing.compare(tasks, journal=path, jobs=1) == second and len(simulated) == len(POINTS)
    assert journal.rows_of(path) == second


def test_a_line_counts_only_for_what_it_was_made_with(tmp_path, simulated, monkeypatch):
    path, task = tmp_path / "journal.jsonl", Task(POINTS[0])
    others = [Task(POINTS[0], overrides=("sm.count=66",)), Task(POINTS[0], "h100"), Task(Point("reduction/shuffle", 5))]
    for each in (task, *others):
        comparing.compare([each], journal=path, jobs=1)
    assert len(simulated) == 4
    # The same values, said otherwise, are the same configuration.
    comparing.compare([Task(POINTS[0], overrides=("sm.count=132",))], journal=path, jobs=1)
    assert len(simulated) == 4
    assert journal.note_of(path) == "2 lines of other configurations or sources passed over"
    monkeypatch.setattr(journal, "code_version", lambda: "another")
    comparing.compare([task], journal=path, jobs=1)
    assert len(simulated) == 5 and [each.point for each in journal.rows_of(path)] == [POINTS[0]]
    comparing.compare([others[0]], journal=path, jobs=1)
    monkeypatch.setattr(journal, "code_version", lambda: "a third")
    note = journal.note_of(path)
    assert note.startswith("configuration h200 sm.count=66; made with other sources") and "5 lines" in note


def test_the_code_version_follows_the_sources(tmp_path, monkeypatch):
    for name in ("isa/a.py", "gpusim/config/b.toml", "validate/replay.py", "validate/metrics.py", "validate/plots.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(journal, "_ROOT", tmp_path)
    before = journal.code_version.__wrapped__()
    (tmp_path / "validate" / "plots.py").write_text("2")
    assert journal.code_version.__wrapped__() == before
    (tmp_path / "gpusim" / "config" / "b.toml").write_text("2")
    assert journal.code_version.__wrapped__() != before


def test_half_a_line_is_dropped_and_a_strange_file_refused(tmp_path, simulated):
    path = tmp_path / "journal.jsonl"
    tasks = [Task(point) for point in POINTS[:3]]
    comparing.compare(tasks, journal=path, jobs=1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])  # as a run leaves it that was killed while it wrote
    assert len(journal.rows_of(path)) == 2
    comparing.compare(tasks, journal=path, jobs=1)
    assert len(simulated) == 4 and len(path.read_bytes().splitlines()) == 3
    for foreign in ("point,cycles\nreduction,5\n", "[1, 2]"):
        path.write_text(foreign)
        with pytest.raises(JournalError, match=r"journal\.jsonl:1"):
            comparing.compare(tasks, journal=path, jobs=1)
        assert path.read_text() == foreign
    for broken in ("[]", "{}", '{"points": [{}]}'):
        path.write_text(broken)
        with pytest.raises(JournalError, match=r"neither|not a line"):
            journal.rows_of(path)
    with pytest.raises(JournalError, match="cannot be read"):
        journal.rows_of(tmp_path / "absent")


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there")
def test_one_run_at_a_time(tmp_path):
    with Journal(tmp_path / "journal.jsonl"), pytest.raises(JournalError, match="another run"):
        Journal(tmp_path / "journal.jsonl").__enter__()


def test_what_json_printed_can_be_scored(tmp_path, capsys):
    rows = [row(point) for point in select()]
    path = tmp_path / "score.json"
    path.write_text(json.dumps(score.document(rows[:-1])))
    assert journal.rows_of(path) == rows[:-1]
    assert command.main(["score", str(path)]) == 1
    assert "253/254" in capsys.readouterr().out
    assert command.main(["score", str(path), "--split", "judge"]) == 1
    out = capsys.readouterr().out
    assert "68/68" in out and "judge" in out and "train" not in out
    assert command.main(["score", str(path), "--accept"]) == 1
    assert "1 points are missing" in capsys.readouterr().err
    assert command.main(["score", str(tmp_path / "absent")]) == 2


def test_progress_tells_the_time_left():
    out, now = io.StringIO(), [0.0]
    progress = Progress(4, 10.0, out=out, clock=lambda: now[0])
    for work, at in ((1, 10.0), (1, 30.0), (6, 90.0), (2, 100.0)):
        now[0] = at
        progress.done(work)
    # The pace counts from the first point on, and nothing is said when all is done.
    assert out.getvalue() == "2 of 4 points, 0:30, about 2:40 left\n3 of 4 points, 1:30, about 0:22 left\n"
    short = Progress(3, 3.0, out=out, clock=lambda: now[0])
    short.done(1)
    assert len(out.getvalue().splitlines()) == 2  # nothing in the first two seconds


def test_an_interrupted_comparison_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def run(tasks, jobs, threads):
        yield tasks[0], row(tasks[0].point)
        raise KeyboardInterrupt

    monkeypatch.setattr(pool, "run", run)
    path = tmp_path / "journal.jsonl"
    line = ["compare", "--only", "reduction", "--size", "small", "--resume", str(path)]
    assert command.main(line) == 130
    assert f"goes on from {path}" in capsys.readouterr().err
    assert len(journal.rows_of(path)) == 1
    assert command.main([*line, "--set", "sm.coutn=5"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "sm.count" in err
    for name in ("compare", "ablate"):
        assert command.main([name, "--only", "reduction/shufle"]) == 2
        assert "no program named 'reduction/shufle'" in capsys.readouterr().err
    path.write_text("what is this")
    assert command.main(line) == 2 and "is not a line of a journal" in capsys.readouterr().err


def test_processes_find_what_one_finds():
    tasks = [Task(point) for point in select(["vector_add", "saxpy"], "small")]
    alone = dict(pool.run(tasks, 1))
    for task, found in pool.run(tasks, 2):
        assert (found.cycles, found.exact, found.modelled) == (
            *(alone[task].cycles, alone[task].exact),
            alone[task].modelled,
        )


def test_a_process_that_dies_costs_its_point(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "_serve", die_at_the_first)
    tasks = [Task(point) for point in POINTS]
    path = tmp_path / "journal.jsonl"
    rows = comparing.compare(tasks, journal=path, jobs=2)
    assert [type(each) for each in rows] == [ProcessDied, *[Failure] * (len(POINTS) - 1)]
    assert "status 3" in rows[0].reason
    assert len(path.read_bytes().splitlines()) == len(POINTS) - 1  # that point is tried again


def die_at_the_first(connection, threads):
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        if task.point == POINTS[0]:
            os._exit(3)
        connection.send(Failure(task.point, "no"))


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_a_killed_comparison_loses_and_repeats_nothing(tmp_path):
    """Killed as hard as can be while it works, then resumed: each point is there once, and no worker is left."""
    path = tmp_path / "journal.jsonl"
    line = [sys.executable, "-m", "validate", "compare", "--size", "small", "--resume", str(path), "--jobs", "2"]
    only = ["--only", "reduction", "transpose", "bank_conflict", "vector_add"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    first = subprocess.Popen([*line, *only], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and (not path.exists() or path.read_bytes().count(b"\n") < 3):
        time.sleep(0.02)
    workers = children(first.pid)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = path.read_bytes()
    kept = kept[: kept.rfind(b"\n") + 1]
    points = select(only[1:], "small")
    assert 3 <= kept.count(b"\n") < len(points)
    done = subprocess.run([*line, *only], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert f"{len(points)} of {len(points)} points" in done.stdout
    after = path.read_bytes()
    assert after.startswith(kept)  # nothing lost
    keys = [json.loads(each)["key"] for each in after.splitlines()]
    assert len(keys) == len(set(keys)) == len(points)  # nothing repeated
    assert [pid for pid in workers if alive(pid)] == []


def children(pid):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(path.parent.name))
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
