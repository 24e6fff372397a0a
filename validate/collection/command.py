"""The parts of `python -m validate collection`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gpusim.host.options import host_threads
from validate import comparing
from validate.baseline import compact_text
from validate.collection import recording
from validate.collection.compare import ProgramTask, listed, point_of, rows, split
from validate.collection.worker import MANIFEST
from validate.commands import EXIT_OK, UsageError
from validate.journal import open_journal
from validate.scoring import documents, text


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
        raise UsageError("no such point was recorded")
    built = _manifest(options.folder)["programs"]
    book = open_journal(options.resume, options.gpu, "", (), [recording.FILE]) if options.resume else None
    known, tasks = comparing.known_rows(book, point_of), []
    how = options.gpu, options.timeout, max(1, host_threads(None) // options.jobs)
    for name in dict.fromkeys(each["program"] for each in points.values()):
        mine = {point: each for point, each in points.items() if each["program"] == name}
        symbols = tuple(sorted({each["symbol"] for each in mine.values()}))
        if left := {point: each for point, each in mine.items() if point not in known}:
            tasks.append(ProgramTask(options.folder, name, built.get(name), left, symbols, *how))
    found = comparing.rows([*points], known, tasks, rows, options.jobs, book)
    status, kept = comparing.show(found, options, text.report_of_done)
    if options.docs:
        documents.put("accuracy.md", "scores collection", text.report_of_done(kept))
    return status


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} has no {MANIFEST} of built programs: {error}") from None
    return found
