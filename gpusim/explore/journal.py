"""The journal of a sweep: one line of JSON per finished point, each whole or absent, so that a killed sweep goes on.

The first line says what the journal is of: format, version of gpusim, a digest of its sources, and a digest of the
points and of what is asked about them. A line is written with one call, so that a killed process leaves it whole; it
reaches the disk within a second and at the end, so that a loss of power costs a second of work. What a full disk or a
loss of power left of a last line is cut off when the journal is opened again. The file is locked while a sweep writes.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gpusim
from gpusim.errors import SimulationError
from gpusim.explore.lock import lock
from gpusim.explore.point import Point

FORMAT = 1
_SYNC_S = 1.0
_SOURCES = (("isa", "**/*.py"), ("gpusim", "**/*.py"), ("gpusim/config", "*.toml"), ("programs", "**/*.py"))
"""What rows depend on, as (folder, files in it)."""


class JournalError(SimulationError):
    """A journal that cannot be gone on with: of another sweep, of another version, in use, or damaged."""


class Journal:
    """An open journal. `rows`: what it held when it was opened, by key; dropped: whether a torn line was cut off."""

    def __init__(self, path: str | Path, header: Mapping[str, Any], resume: bool = False) -> None:
        """Create a journal, or with `resume` open one of the same header. Raises JournalError."""
        self.path = Path(path)
        self.rows: dict[str, dict[str, Any]] = {}
        self.dropped = False
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._file = os.open(self.path, flags, 0o666)
        except OSError as error:
            raise JournalError(f"the journal {self.path} cannot be written: {error.strerror}") from None
        try:
            if not lock(self._file, wait=False):
                raise JournalError(f"another sweep is writing to the journal {self.path}")
            self._open(header, resume)
        except BaseException:
            os.close(self._file)
            raise
        self._synced = time.monotonic()

    def _open(self, header: Mapping[str, Any], resume: bool) -> None:
        data = _read(self._file)
        lines, length = whole_lines(data, self.path)
        if len(lines) == 1:  # a sweep that has not finished a point is nothing to go on from
            lines, length = [], 0
        self.dropped = length < len(data)
        if lines and not resume:
            raise JournalError(f"the journal {self.path} exists already; resume it, or name another one")
        if lines:
            _same(lines[0], header, self.path)
            for number, row in enumerate(lines[1:], 2):
                if not isinstance(row.get("key"), str) or row["key"] in self.rows:
                    raise JournalError(f"the journal {self.path} is damaged in line {number}")
                self.rows[row["key"]] = row
        if self.dropped:
            os.ftruncate(self._file, length)
        if not lines:
            self._write(_line(header))
            self._sync()

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one row. Raises JournalError if the disk does not take it; the journal is then whole without it."""
        self._write(_line(row))
        if time.monotonic() - self._synced >= _SYNC_S:
            self._sync()

    def _write(self, text: str) -> None:
        data = text.encode()
        before = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, data)
            reason = "the disk is full" if written < len(data) else None
        except OSError as error:
            reason = str(error.strerror)
        if reason:
            os.ftruncate(self._file, before)
            raise JournalError(f"the journal {self.path} cannot be written: {reason}")

    def _sync(self) -> None:
        os.fsync(self._file)
        self._synced = time.monotonic()

    def close(self) -> None:
        """Bring what was written to the disk and let go of the file."""
        try:
            os.fsync(self._file)
        finally:
            os.close(self._file)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_header(points: Sequence[Point], options: Mapping[str, Any]) -> dict[str, Any]:
    """The first line for these points and what is asked about them (metrics, bound, verify)."""
    files = {name: _digest_of(Path(name)) for name in sorted(set(_files_of(points)))}
    asked = json.dumps([sorted(point.key for point in points), dict(options), files], sort_keys=True)
    return {
        "journal": "gpusim sweep",
        "format": FORMAT,
        "gpusim": gpusim.__version__,
        "sources": sources_digest(),
        "points": len(points),
        "space": hashlib.blake2b(asked.encode(), digest_size=16).hexdigest(),
    }


def whole_lines(data: bytes, path: Path) -> tuple[list[dict[str, Any]], int]:
    """The lines of a journal, and their bytes: behind them stands a torn one. Raises JournalError for another file."""
    lines: list[dict[str, Any]] = []
    length = 0
    pieces = data.split(b"\n")
    torn = pieces.pop() != b""  # what follows the last end of a line
    for number, piece in enumerate(pieces, 1):
        try:
            value = json.loads(piece)
            if not isinstance(value, dict):
                raise ValueError
        except ValueError:
            if number == len(pieces) and not torn and lines:
                break
            if number == 1:
                raise JournalError(f"{path} is not the journal of a sweep") from None
            raise JournalError(f"the journal {path} is damaged in line {number}") from None
        lines.append(value)
        length += len(piece) + 1
    if lines and lines[0].get("journal") != "gpusim sweep":
        raise JournalError(f"{path} is not the journal of a sweep")
    if torn and not lines and not b'{"journal": "gpusim sweep"'.startswith(data[:26]):
        raise JournalError(f"{path} is not the journal of a sweep")
    return lines, length


def _same(found: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    """That a journal's header is the one wanted. Raises JournalError."""
    if found.get("format") != wanted["format"]:
        raise JournalError(f"the journal {path} has format {found.get('format')}, this version writes {FORMAT}")
    if (found.get("gpusim"), found.get("sources")) != (wanted["gpusim"], wanted["sources"]):
        old, new = ((each.get("gpusim"), str(each.get("sources"))[:8]) for each in (found, wanted))
        raise JournalError(
            f"the journal {path} was written by another version of gpusim, {old[0]} ({old[1]}); this is {new[0]} "
            f"({new[1]}), whose rows may differ: finish it with that version, or start another journal"
        )
    if found.get("space") != wanted["space"]:
        raise JournalError(
            f"the journal {path} is of another sweep, of {found.get('points')} points, and this one has "
            f"{wanted['points']}: its points, metrics, options or files are not the same; start another journal"
        )


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, allow_nan=False) + "\n"


def _read(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _files_of(points: Iterable[Point]) -> Iterable[str]:
    """Files that points name: kernels of the user's, and configurations."""
    for point in points:
        program = point.program.rpartition(":")[0]
        yield from (name for name in (program, point.program, point.gpu) if Path(name).suffix and Path(name).is_file())


def _digest_of(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


@cache
def sources_digest() -> str:
    """A digest of everything in gpusim that a row depends on, as it lies on the disk."""
    digest = hashlib.blake2b(digest_size=16)
    for folder, pattern in _SOURCES:
        package, _, rest = folder.partition("/")
        spec = find_spec(package)
        for root in (spec.submodule_search_locations or [] if spec else []):
            for path in sorted((Path(root) / rest).glob(pattern)):
                if path.is_file():
                    digest.update(f"{folder}/{path.name}".encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
