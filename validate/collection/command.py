"""The parts of `python -m validate collection`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from gpusim.explore.interrupt import interruptible
from gpusim.explore.workers import Ended, Workers
from gpusim.host.options import host_threads
from validate import score
from validate.collection import listing, recording
from validate.collection.compare import ProgramTask, point_of, rows
from validate.collection.worker import MANIFEST
from validate.commands import EXIT_OK, EXIT_WRONG, UsageError
from validate.foreign.recording import text_of
from validate.journal import line_of, open_journal
from validate.replay import Failure
from validate.scoring import documents, text


def keep(options: argparse.Namespace) -> int:
    """Write the stored recording anew."""
    manifest, raw = _manifest(options.folder), options.recording or [recording.RAW]
    document = recording.keep(options.folder, manifest, raw, options.timeout, print)
    recording.FILE.write_text(text_of(document), "utf-8")
    splits = [listing.split(point["program"]) for point in document["points"].values()]
    counts = ", ".join(f"{splits.count(each)} {each}" for each in ("train", "judge"))
    print(f"{len(splits)} points in {recording.FILE.name}: {counts}")
    return EXIT_OK


def compare(options: argparse.Namespace) -> int:
    """The status: 0 if every point could be compared and every exact counter is equal."""
    wanted = {
        name
        for name, each in listing.read().items()
        if (not options.only or {name, name.rpartition("/")[2]} & {*options.only})
        and options.split in ("all", each.split)
    }
    points = {key: point for key, point in recording.load()["points"].items() if point["program"] in wanted}
    if not points:
        raise UsageError("no such point was recorded")
    out = sys.stderr if options.json else sys.stdout
    print(score.TIMED_HEAD, file=out)
    found: dict[str, score.Row] = {}
    for row in _rows(options, points):
        found[str(row.point)] = row
        print(score.timed_line(row), file=out, flush=True)
    ordered = [found[key] for key in points]
    report = text.report(ordered) if text.done(ordered) else ""
    print(f"\n{report}", file=out)
    if options.docs:
        documents.put("accuracy.md", "scores collection", report)
    if options.json:
        print(json.dumps(score.document(ordered), indent=1))
    return EXIT_OK if score.ok(ordered) else EXIT_WRONG


def _rows(options: argparse.Namespace, points: dict[str, Any]) -> Iterator[score.Row]:
    """The rows of all points: first those of the journal, then new ones, program by program."""
    built = _manifest(options.folder)["programs"]
    book = open_journal(options.resume, options.gpu, "", (), [recording.FILE]) if options.resume else None
    known = {key: score.row_of(line, point_of) for key, line in (book.rows if book else {}).items() if key in points}
    yield from known.values()
    tasks = []
    threads = max(1, host_threads(None) // options.jobs)
    for name in dict.fromkeys(each["program"] for each in points.values()):
        mine = {key: each for key, each in points.items() if each["program"] == name}
        symbols = tuple(sorted({each["symbol"] for each in mine.values()}))
        if left := {key: each for key, each in mine.items() if key not in known}:
            how = options.gpu, options.timeout, threads
            tasks.append(ProgramTask(options.folder, name, built.get(name), left, symbols, *how))
    with ExitStack() as stack:
        stack.enter_context(interruptible())
        pool = stack.enter_context(closing(Workers(options.jobs)))
        done = pool.run(rows, tasks) if options.jobs > 1 else ((task, rows(task)) for task in tasks)
        for task, found in done:
            made = [Failure(point_of(key), found.how) for key in task.points] if isinstance(found, Ended) else found
            for row in made:
                if book:
                    book.append(line_of(row))
                yield row


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} has no {MANIFEST} of built programs: {error}") from None
    return found
