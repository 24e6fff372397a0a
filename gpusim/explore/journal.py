"""The journal of a sweep: an SQLite database with one row per finished point, so that a killed sweep goes on.

Its header says what the journal is of: format, a digest of gpusim's sources, and a digest of the points and of what is
asked about them. A row is one transaction of the write-ahead log: a killed process loses none, a loss of power may cost
the last ones. While a sweep runs, the file is locked, and its latest rows lie in FILE-wal beside it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpusim.errors import SimulationError
from gpusim.explore.point import Point

FORMAT = 2
_SOURCES = ("isa", "gpusim", "programs")
"""Packages that rows depend on: their code and the machines they describe."""


class JournalError(SimulationError):
    """A journal that cannot be gone on with: of another sweep, of another version, in use, or damaged."""


class Journal(AbstractContextManager["Journal"]):
    """An open journal. `rows`: what it held when it was opened, by key."""

    def __init__(self, path: str | Path, header: Mapping[str, Any], resume: bool = False) -> None:
        """Create a journal, or with `resume` open one of the same header. Raises JournalError."""
        self.path = Path(path)
        self.rows: dict[str, dict[str, Any]] = {}
        try:
            self.path.absolute().parent.stat()  # closing a file that was opened here would end the locks on it
        except OSError as error:
            raise JournalError(f"the journal {self.path} cannot be written: {error.strerror}") from None
        self._base = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            with _explained(self.path):
                self._open(header, resume)
        except BaseException:
            self._base.close()
            raise

    def _open(self, header: Mapping[str, Any], resume: bool) -> None:
        # Exclusive: one sweep at a time, and no shared memory, which network drives do not have.
        self._base.execute("PRAGMA locking_mode = EXCLUSIVE")
        found, self.rows = _content(self._base, self.path)
        if self.rows:  # a sweep that has not finished a point is nothing to go on from
            if not resume:
                reason = "exists already; go on with --resume (resume=True), or name another one"
                raise JournalError(f"the journal {self.path} {reason}")
            _same(found, header, self.path)
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = NORMAL")
        self._base.execute("BEGIN EXCLUSIVE")
        if not self.rows:
            self._base.execute("CREATE TABLE IF NOT EXISTS header (journal TEXT NOT NULL)")
            self._base.execute("CREATE TABLE IF NOT EXISTS rows (key TEXT PRIMARY KEY, row TEXT NOT NULL)")
            self._base.execute("DELETE FROM header")
            self._base.execute("INSERT INTO header VALUES (?)", (json.dumps(header),))
        self._base.execute("COMMIT")

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one row. Raises JournalError if the disk does not take it; the journal is then whole without it."""
        with _explained(self.path):
            self._base.execute("INSERT INTO rows VALUES (?, ?)", (row["key"], json.dumps(row, allow_nan=False)))

    def close(self) -> None:
        """Bring what was written into the file, and let go of it."""
        self._base.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def read_journal(path: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header of a journal, {} if it has none yet, and its rows in the order in which they were finished.

    Raises JournalError for another file, and OSError if it cannot be read.
    """
    Path(path).stat()
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as base, _explained(Path(path)):
        header, rows = _content(base, Path(path))
    return dict(header), list(rows.values())


def _content(base: sqlite3.Connection, path: Path) -> tuple[Mapping[str, Any], dict[str, dict[str, Any]]]:
    tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
    if not tables:
        return {}, {}
    if not {"header", "rows"} <= tables:
        raise JournalError(f"{path} is not the journal of a sweep")
    try:
        (header,) = [json.loads(text) for (text,) in base.execute("SELECT journal FROM header")]
        rows = {key: json.loads(text) for key, text in base.execute("SELECT key, row FROM rows ORDER BY rowid")}
    except ValueError:
        raise JournalError(f"the journal {path} is damaged") from None
    return header, rows


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Raise what SQLite raises as a JournalError."""
    known = {
        "locked": f"another sweep is writing to the journal {path}",
        "not a database": f"{path} is not the journal of a sweep",
        "malformed": f"the journal {path} is damaged",
    }
    try:
        yield
    except sqlite3.Error as error:
        told = (reason for sign, reason in known.items() if sign in str(error))
        raise JournalError(next(told, f"the journal {path} cannot be written: {error}")) from None


def make_header(points: Sequence[Point], options: Mapping[str, Any]) -> dict[str, Any]:
    """The first line for these points and what is asked about them (metrics, bound, verify)."""
    contents = {name: Path(name).read_bytes() for name in sorted(set(_files_of(points)))}
    files = {name: hashlib.blake2b(each, digest_size=16).hexdigest() for name, each in contents.items()}
    asked = json.dumps([sorted(point.key for point in points), dict(options), files], sort_keys=True)
    return {
        "journal": "gpusim sweep",
        "format": FORMAT,
        "sources": sources_digest(),
        "points": len(points),
        "space": hashlib.blake2b(asked.encode(), digest_size=16).hexdigest(),
    }


def _same(found: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    """Check that a journal's header is the one wanted. Raises JournalError."""
    reasons = {
        "format": f"has format {found.get('format')}, this version writes {FORMAT}",
        "sources": "was written by another version of gpusim, whose rows may differ: finish it there",
        "space": f"is of another sweep, of {found.get('points')} points, and this one has {wanted['points']}: its "
        "points, metrics, options or files are not the same",
    }
    for name, reason in reasons.items():
        if found.get(name) != wanted[name]:
            raise JournalError(f"the journal {path} {reason}, or start another journal")


def _files_of(points: Iterable[Point]) -> Iterable[str]:
    """Files that points name: kernels of the user's, and configurations."""
    for point in points:
        program = point.program.rpartition(":")[0]
        yield from (name for name in (program, point.program, point.gpu) if Path(name).suffix and Path(name).is_file())


@cache
def sources_digest() -> str:
    """A digest of everything that a row depends on, as it lies on the disk: what tells versions apart."""
    digest = hashlib.blake2b(digest_size=16)
    for package in _SOURCES:
        spec = find_spec(package)
        for root in map(Path, (spec.submodule_search_locations or []) if spec else []):
            for path in sorted(each for each in root.rglob("*") if each.suffix in (".py", ".toml")):
                digest.update(f"{package}/{path.relative_to(root).as_posix()}".encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
