"""The list of programs, and which of them judge; simulate the counted launches of one, and compare.

`programs.toml` has them by collection and name, with their arguments. Whether one is train or judge follows from its
name alone, so that nobody has chosen it.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import time
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.cli.parser import EXIT_OK, UserError
from gpusim.errors import SimulationError
from gpusim.host.options import host_threads
from validate import comparing
from validate.collection import recording, saving
from validate.collection.worker import MANIFEST
from validate.gpu import compact_text, read_json
from validate.journal import open_journal
from validate.metrics import CYCLES
from validate.points import NamedPoint
from validate.replay import Failure, against
from validate.score import Row
from validate.scoring import documents, text

LIST = Path(__file__).with_name("programs.toml")
JUDGE_SHARE = 0.45


def split(name: str) -> str:
    """'train' or 'judge', by the digest of a program's name: 'adam' of 'hecbench/adam'."""
    digest = hashlib.sha256(name.rpartition("/")[2].encode()).digest()
    return "judge" if int.from_bytes(digest[:4], "big") < JUDGE_SHARE * 2**32 else "train"


def listed() -> dict[str, tuple[str, ...]]:
    """Arguments of all programs by name ('hecbench/adam'), in the order of the list."""
    return {
        f"{collection}/{key}": tuple(shlex.split(entry if isinstance(entry, str) else entry.get("arguments", "")))
        for collection, programs in tomllib.loads(LIST.read_text("utf-8")).items()
        for key, entry in programs.items()
    }


@dataclass(frozen=True, eq=False)
class ProgramTask:
    """A program, and those of its points that are to be compared. built: its entry in the manifest, None if it was not
    built. points: with what `recording.load` has of them; symbols: of all its points, whose launches are saved
    together."""

    folder: Path
    name: str
    built: dict[str, Any] | None
    points: dict[NamedPoint, dict[str, Any]]
    symbols: tuple[str, ...]
    gpu: str = "h200"
    seconds: float = 300.0
    threads: int | None = None


def point_of(key: str) -> NamedPoint:
    """The point of that name; whether it judges follows from the program's."""
    return NamedPoint(key, 0, judging=split(key.partition(":")[0]) == "judge")


def rows(task: ProgramTask) -> list[Row]:
    """The rows of a program's points; what cannot be compared is a failure that says why."""
    try:
        if task.built is None:
            raise saving.NotSaved("not built here")
        path = saving.saved(task.folder, task.built, task.symbols, task.seconds)
        launches = saving.launches(path)
    except (saving.NotSaved, SimulationError) as error:
        return [Failure(point, str(error)) for point in task.points]
    return [_row(task, point, recorded, path, launches) for point, recorded in task.points.items()]


def _row(
    task: ProgramTask, point: NamedPoint, recorded: Mapping[str, Any], path: Path, found: Mapping[str, Any]
) -> Row:
    launch, code_sha256 = found.get(recorded["symbol"], (None, ""))
    if launch is None:
        return Failure(point, "the program does not launch it here")
    shape = [[*launch.grid], [*launch.block], launch.shared_bytes]
    if shape != [recorded[each] for each in ("grid", "block", "shared_bytes")]:
        return Failure(point, "the program launches it otherwise here")
    if code_sha256 != recorded["code_sha256"]:
        return Failure(point, "other machine code than was counted: another nvcc")
    began = time.perf_counter()
    try:
        result = saving.simulate(path, launch.number, task.gpu, threads=task.threads)
    except SimulationError as error:
        return Failure(point, str(error))
    counters = {**recorded["counters"], CYCLES: recorded["cycles"]}
    return against(point, result, counters, None, time.perf_counter() - began)


# --- the commands -----------------------------------------------------------------------------------------------------


def keep(options: argparse.Namespace) -> int:
    """Write the stored recording anew."""
    manifest, raw = _manifest(options.folder), options.recording or [recording.RAW]
    document = recording.keep(options.folder, manifest, raw, options.timeout, print)
    recording.FILE.write_text(compact_text(document), "utf-8")
    splits = [split(point["program"]) for point in document["points"].values()]
    counts = ", ".join(f"{splits.count(each)} {each}" for each in ("train", "judge"))
    print(f"{len(splits)} points in {recording.FILE.name}: {counts}")
    return EXIT_OK


def compare(options: argparse.Namespace) -> int:
    """The status: 0 if every point could be compared and every exact counter is equal."""
    wanted = {
        name
        for name in listed()
        if (not options.only or {name, name.rpartition("/")[2]} & {*options.only})
        and options.split in ("all", split(name))
    }
    recorded = recording.load()["points"].items()
    points = {point_of(key): point for key, point in recorded if point["program"] in wanted}
    if not points:
        raise UserError("no such point was recorded")
    built = _manifest(options.folder)["programs"]
    book = open_journal(options.resume, options.gpu, "", (), [recording.FILE]) if options.resume else None
    known, tasks = comparing.known_rows(book, point_of), dict[ProgramTask, Iterable[NamedPoint]]()
    how = options.gpu, options.timeout, max(1, host_threads(None) // options.jobs)
    for name in dict.fromkeys(each["program"] for each in points.values()):
        mine = {point: each for point, each in points.items() if each["program"] == name}
        symbols = tuple(sorted({each["symbol"] for each in mine.values()}))
        if left := {point: each for point, each in mine.items() if point not in known}:
            tasks[ProgramTask(options.folder, name, built.get(name), left, symbols, *how)] = left
    found = comparing.rows([*points], known, tasks, rows, options.jobs, book)
    status, kept = comparing.show(found, text.report)
    if options.docs:
        documents.put("accuracy.md", "scores collection", text.report(kept))
    return status


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        return read_json(folder / MANIFEST)  # type: ignore[no-any-return]
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} has no {MANIFEST} of built programs: {error}") from None
