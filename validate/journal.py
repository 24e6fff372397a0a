"""What a long comparison has done so far: a file with one line of JSON for each point, so that nothing is done twice.

A line is written whole, and flushed to the disk, when its point is done. A run that is killed loses at most the points
it was at; a line that it left half-written is dropped by the next run. A line counts only for the sources of the
simulator, the configuration, the machine code and the baseline that it was made with: whatever else the file holds
stays in it and is passed over, so several configurations can share a file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from gpusim.config import load_config
from programs import images
from validate import baseline, score
from validate.pool import Task

_ROOT = Path(__file__).resolve().parents[1]
_SOURCES = ("isa", "gpusim", "validate/replay.py", "validate/metrics.py")
"""What decides a row: the simulator, and which counters are compared."""

_BEGINNING = b'{"key": "'
"""How every line begins, so that what a killed run left of one can be told from somebody's file."""


class JournalError(ValueError):
    """A file is no journal, or another run is writing it."""


class Journal:
    """A journal that is open for adding to it; a context manager. Raises JournalError if the file is not a journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._done: dict[str, dict[str, Any]] = {}
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Journal:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a+b")
        _lock(self._file, self.path)
        self._file.seek(0)
        content = self._file.read()
        try:
            lines = _lines(content, self.path)
        except JournalError:
            self._file.close()
            raise
        self._file.truncate(content.rfind(b"\n") + 1)  # without what a killed run left of its last line
        self._done = {line["key"]: line["row"] for line in lines}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def find(self, task: Task) -> score.Row | None:
        """The row of a task that has been done with what there is now, else None."""
        found = self._done.get(key_of(task))
        return None if found is None else score.row_of(found)

    def add(self, task: Task, row: score.Row) -> None:
        """Write a row down; it is on the disk when this returns."""
        if self._file is None:
            raise ValueError("the journal is not open")
        state = {"code": code_version(), "config": _config_digest(task.gpu, task.overrides)}
        key, plain = key_of(task), score.plain(row)
        line = {"key": key, **state, "gpu": task.gpu, "set": list(task.overrides), "row": plain}
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._done[key] = plain


def rows_of(path: Path) -> list[score.Row]:
    """The rows of a journal, or of a document that `compare --json` printed.

    Of a journal: those that were made with the same sources and configuration as its last line.

    Raises JournalError.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror}") from None
    try:
        document = _document(content)
        if document is not None:
            return [score.row_of(each) for each in document["points"]]
        lines = _lines(content, path)
        last = {name: lines[-1][name] for name in ("code", "config")} if lines else {}
        mine = {line["key"]: line["row"] for line in lines if last.items() <= line.items()}
        return [score.row_of(row) for row in mine.values()]
    except (ValueError, KeyError, TypeError) as error:
        raise JournalError(f"{path} is neither a journal nor what compare --json prints: {error}") from None


def note_of(path: Path) -> str:
    """What is to be known of the rows that `rows_of` gives, '' if they are of the shipped H200 and today's sources.

    Raises JournalError.
    """
    content = path.read_bytes()
    if _document(content) is not None:
        return ""
    lines = _lines(content, path)
    if not lines:
        return "the journal is empty"
    last, notes = lines[-1], []
    if last["gpu"] != "h200" or last["set"]:
        notes.append(f"configuration {' '.join([last['gpu'], *last['set']])}")
    if last["code"] != code_version():
        notes.append("made with other sources of the simulator than there are now")
    others = sum((line["code"], line["config"]) != (last["code"], last["config"]) for line in lines)
    if others:
        notes.append(f"{others} lines of other configurations or sources passed over")
    return "; ".join(notes)


def _document(content: bytes) -> dict[str, Any] | None:
    """What `compare --json` printed; None for a journal, which is JSON line by line only."""
    try:
        found = json.loads(content)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "points" in found else None


def key_of(task: Task) -> str:
    """What a task's result depends on, as a digest."""
    parts = [code_version(), _config_digest(task.gpu, task.overrides), str(task.point), str(task.point.seed)]
    path = baseline.path_of(task.point.variant, task.baseline_of)
    parts.append(hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no baseline")
    parts.append(_image_digest(task.point.variant))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


@cache
def code_version() -> str:
    """Digest of the simulator's sources and of its shipped configurations."""
    digest = hashlib.sha256()
    for path in sorted(_source_files()):
        digest.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _source_files() -> Iterable[Path]:
    for name in _SOURCES:
        path = _ROOT / name
        inside = path.rglob("*") if path.is_dir() else [path]
        yield from (each for each in inside if each.suffix in (".py", ".toml"))


@cache
def _config_digest(gpu: str, overrides: tuple[str, ...]) -> str:
    values = json.dumps(load_config(gpu, overrides).to_dict(), sort_keys=True)
    return hashlib.sha256(values.encode()).hexdigest()[:16]


@cache
def _image_digest(variant: str) -> str:
    try:
        return images.image(variant).code_sha256
    except images.NoImage:
        return "no image"


def _lines(content: bytes, path: Path) -> list[dict[str, Any]]:
    """The whole lines of a journal. Raises JournalError if it is none, whole lines or not."""
    *texts, rest = content.split(b"\n")
    lines = []
    for number, text in enumerate(texts, 1):
        try:
            line = json.loads(text)
            if not {"key", "code", "config", "row"} <= line.keys():
                raise ValueError("not a line of a journal")
        except (ValueError, AttributeError):
            raise JournalError(f"{path}:{number} is not a line of a journal") from None
        lines.append(line)
    if not (rest.startswith(_BEGINNING) or _BEGINNING.startswith(rest)):
        raise JournalError(f"{path}:{len(texts) + 1} is not a line of a journal")
    return lines


def _lock(file: IO[bytes], path: Path) -> None:
    """Keep a second run from writing the same file, where the system can; given up when the process ends."""
    try:
        import fcntl
    except ImportError:  # Windows: two runs on one journal repeat work, but break nothing
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise JournalError(f"{path} is being written by another run") from None
