"""A journal's rows are whole or absent, and it is gone on with by its own sweep only."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from gpusim.explore import Point
from gpusim.explore.journal import Journal, JournalError, make_header, read_journal

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
    assert read_journal(journal) == (header(), [row(point) for point in POINTS])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"key,program\n1,2\n", "is not the journal"),
        (b"a text without an end", "is not the journal"),
        (b'{"journal": "gpusim sweep", "format": 1}\n', "is not the journal"),  # of an earlier version
    ],
)
def test_another_file_is_left_as_it_is(journal, content, told):
    journal.write_bytes(content)
    with pytest.raises(JournalError, match=told):
        Journal(journal, header(), resume=True)
    assert journal.read_bytes() == content


def test_damage_in_the_middle_is_told(journal, tmp_path):
    with closing(sqlite3.connect(journal)) as base, base:
        base.execute("UPDATE rows SET row = '{torn' WHERE rowid = 2")
    with pytest.raises(JournalError, match="is damaged"):
        Journal(journal, header(), resume=True)
    other = tmp_path / "other"
    with closing(sqlite3.connect(other)) as base, base:
        base.execute("CREATE TABLE mine (a)")
    with pytest.raises(JournalError, match="is not the journal"):
        Journal(other, header(), resume=True)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (header(POINTS[:2]), "of another sweep, of 3 points, and this one has 2"),
        (header(metrics=["dram__bytes_read.sum"]), "of another sweep"),
        (header() | {"sources": "0" * 32}, "another version of gpusim"),
        (header() | {"format": 99}, "has format 2, this version writes"),
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


def test_a_full_disk_leaves_whole_rows(journal):
    with Journal(journal, header(), resume=True) as book:
        book._base.execute("PRAGMA max_page_count = 1")
        with pytest.raises(JournalError, match="disk is full"):
            book.append(row(POINTS[0], key="another", more="x" * 10_000))
    assert read_journal(journal)[1] == [row(point) for point in POINTS]


def test_a_journal_without_rows_starts_anew(tmp_path):
    path = tmp_path / "x.journal"
    Journal(path, header(POINTS[:2])).close()
    Journal(path, header()).close()
    assert read_journal(path)[0]["points"] == 3
