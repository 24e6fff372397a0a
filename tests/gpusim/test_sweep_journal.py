"""A journal's lines are whole or absent, and it is gone on with by its own sweep only."""

import json
import os
import subprocess
import sys

import pytest

from gpusim.explore import Point
from gpusim.explore.journal import Journal, JournalError, make_header

POINTS = [Point("saxpy", "tiny", {"sm.count": count}) for count in (1, 2, 3)]
OPTIONS = {"metrics": [], "bound": True}


def header(points=POINTS, **options):
    return make_header(points, OPTIONS | options)


def row(point, **more):
    return point.columns() | {"cycles": 5, "error": None} | more


@pytest.fixture
def journal(tmp_path):
    """A journal of three rows, closed."""
    path = tmp_path / "sweep.journal"
    with Journal(path, header()) as book:
        for point in POINTS:
            book.append(row(point))
    return path


def test_what_was_written_is_read_back(journal):
    with Journal(journal, header(), resume=True) as book:
        assert book.rows == {point.key: row(point) for point in POINTS}
        assert not book.dropped


def test_a_torn_line_is_dropped_wherever_it_was_torn(journal, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)  # some hundred journals
    whole = journal.read_bytes()
    first, *rest = whole.splitlines(keepends=True)
    last = len(whole) - len(rest[-1])
    for length in range(len(first), len(whole) + 1):
        journal.write_bytes(whole[:length])
        kept = whole[:length].count(b"\n") - 1
        with Journal(journal, header(), resume=True) as book:
            assert list(book.rows) == [point.key for point in POINTS[:kept]]
            for point in POINTS[kept:]:
                book.append(row(point))
        assert journal.read_bytes() == whole
    journal.write_bytes(whole[:last] + b"\0" * 40 + b"\n")  # what a loss of power may leave
    with Journal(journal, header(), resume=True) as book:
        assert len(book.rows) == 2 and book.dropped


def test_a_torn_header_starts_anew(journal, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)
    whole = journal.read_bytes()
    for length in range(whole.index(b"\n") + 1):
        journal.write_bytes(whole[:length])
        with Journal(journal, header()) as book:
            assert book.rows == {}
        assert journal.read_bytes() == whole[: whole.index(b"\n") + 1]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"key,program\n1,2\n", "is not the journal"),
        (b"a text without an end", "is not the journal"),
        (b'{"some": "json"}\n', "is not the journal"),
    ],
)
def test_another_file_is_left_as_it_is(journal, content, told):
    journal.write_bytes(content)
    with pytest.raises(JournalError, match=told):
        Journal(journal, header(), resume=True)
    assert journal.read_bytes() == content


@pytest.mark.parametrize("line", [b"{torn\n", b'{"no": "key"}\n', b"[]\n"])
def test_a_line_damaged_in_the_middle_is_told(journal, line):
    first, second, *rest = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([first, line, *rest]))
    with pytest.raises(JournalError, match="damaged in line 2"):
        Journal(journal, header(), resume=True)
    journal.write_bytes(b"".join([first, second, second, *rest]))
    with pytest.raises(JournalError, match="damaged in line 3"):
        Journal(journal, header(), resume=True)


def test_a_journal_that_exists_is_not_overwritten(journal):
    before = journal.read_bytes()
    with pytest.raises(JournalError, match="exists already"):
        Journal(journal, header())
    assert journal.read_bytes() == before


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (header(POINTS[:2]), "of another sweep, of 3 points, and this one has 2"),
        (header(metrics=["dram__bytes_read.sum"]), "of another sweep"),
        (header() | {"sources": "0" * 32}, "another version of gpusim"),
        (header() | {"format": 99}, "has format 1, this version writes"),
    ],
)
def test_rows_of_another_sweep_or_version_are_not_mixed_in(journal, changed, told):
    before = journal.read_bytes()
    with pytest.raises(JournalError, match=told):
        Journal(journal, changed, resume=True)
    assert journal.read_bytes() == before


def test_a_changed_file_is_another_sweep(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base = "tiny"\n')
    points = [Point("saxpy", str(path))]
    before = header(points)
    assert header(points) == before
    path.write_text('base = "tiny"\nsm.count = 1\n')
    assert header(points)["space"] != before["space"]


def test_two_sweeps_do_not_share_a_journal(journal):
    code = (
        "import sys, json; from gpusim.explore.journal import Journal\n"
        "Journal(sys.argv[1], json.loads(sys.argv[2]), resume=True)"
    )
    command = [sys.executable, "-c", code, str(journal), json.dumps(header())]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with Journal(journal, header(), resume=True):
        with pytest.raises(JournalError, match="another sweep is writing"):
            Journal(journal, header(), resume=True)
        told = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert "another sweep is writing" in told.stderr
    told = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert told.returncode == 0, told.stderr


def test_a_full_disk_leaves_whole_lines(journal, monkeypatch):
    before = journal.read_bytes()
    with Journal(journal, header(), resume=True) as book:
        real = os.write
        monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:20]))
        with pytest.raises(JournalError, match="disk is full"):
            book.append(row(POINTS[0]))
        monkeypatch.undo()
    assert journal.read_bytes() == before


def test_a_journal_without_rows_starts_anew(tmp_path):
    path = tmp_path / "x.journal"
    Journal(path, header(POINTS[:2])).close()
    Journal(path, header()).close()
    assert [json.loads(line)["points"] for line in path.read_text().splitlines()] == [3]


def test_a_journal_needs_a_folder(tmp_path):
    with pytest.raises(JournalError, match="cannot be written: No such file"):
        Journal(tmp_path / "absent" / "x.journal", header())
