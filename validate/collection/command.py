"""The parts of `python -m validate collection`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from validate.collection import listing
from validate.collection.worker import MANIFEST
from validate.foreign.recording import text_of

EXIT_OK, EXIT_WRONG, EXIT_USAGE = 0, 1, 2


def chosen(options: argparse.Namespace) -> list[listing.ListedProgram]:
    """The programs that `--only` and `--split` name."""
    return [
        each
        for name, each in listing.read().items()
        if (not options.only or {name, name.rpartition("/")[2]} & {*options.only})
        and options.split in ("all", each.split)
    ]


def keep(options: argparse.Namespace) -> int:
    """Write the stored recording anew."""
    from validate.collection import recording

    document = recording.keep(
        options.folder,
        _manifest(options.folder),
        options.recording or [recording.RAW],
        options.timeout,
        print,
    )
    recording.FILE.write_text(text_of(document), "utf-8")
    splits = [listing.split(point["program"]) for point in document["points"].values()]
    counts = ", ".join(f"{splits.count(each)} {each}" for each in ("train", "judge"))
    print(f"{len(splits)} points in {recording.FILE.name}: {counts}")
    return EXIT_OK


def compare(options: argparse.Namespace) -> int:
    """The status: 0 if every point could be compared and every exact counter is equal."""
    from gpusim.explore.journal import JournalError
    from validate import score
    from validate.collection import recording
    from validate.scoring import documents, text

    if not recording.FILE.exists():
        print(
            "validate: error: 'validate collection keep FOLDER' has to say first which launches are compared",
            file=sys.stderr,
        )
        return EXIT_USAGE
    wanted = {program.name for program in chosen(options)}
    points = {key: point for key, point in recording.load()["points"].items() if point["program"] in wanted}
    if not points:
        print("validate: error: no such point was recorded", file=sys.stderr)
        return EXIT_USAGE
    out = sys.stderr if options.json else sys.stdout
    print(score.TIMED_HEAD, file=out)
    rows: dict[str, score.Row] = {}
    try:
        for row in _rows(options, points):
            rows[str(row.point)] = row
            print(score.timed_line(row), file=out, flush=True)
    except JournalError as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    ordered = [rows[key] for key in points]
    report = text.report(ordered) if text.done(ordered) else ""
    print(f"\n{report}", file=out)
    if options.docs:
        documents.put("accuracy.md", "scores collection", report)
    if options.json:
        print(json.dumps(score.document(ordered), indent=1))
    return EXIT_OK if score.ok(ordered) else EXIT_WRONG


def _rows(options: argparse.Namespace, points: dict[str, Any]) -> Iterator[Any]:
    """The rows of all points: first those of the journal, then new ones, program by program."""
    from gpusim.explore.interrupt import interruptible
    from gpusim.explore.workers import Ended, Pool
    from gpusim.host.options import host_threads
    from validate import score
    from validate.collection import recording
    from validate.collection.compare import ProgramTask, point_of, rows
    from validate.journal import line_of, open_journal
    from validate.replay import Failure

    built = _manifest(options.folder)["programs"]
    book = open_journal(options.resume, options.gpu, "", (), [recording.FILE]) if options.resume else None
    known = {
        key: score.row_of(line, point_of)
        for key, line in (book.rows if book else {}).items()
        if key in points
    }
    yield from known.values()
    tasks = []
    threads = max(1, host_threads(None) // options.jobs)
    for name in dict.fromkeys(each["program"] for each in points.values()):
        mine = {key: each for key, each in points.items() if each["program"] == name}
        symbols = tuple(sorted({each["symbol"] for each in mine.values()}))
        left = {key: each for key, each in mine.items() if key not in known}
        if left:
            task = ProgramTask(
                options.folder, name, built.get(name), left, symbols, options.gpu, options.timeout, threads
            )
            tasks.append(task)
    with interruptible(), closing(Pool(options.jobs)) as pool:
        done = pool.run(rows, tasks) if options.jobs > 1 else ((task, rows(task)) for task in tasks)
        for task, found in done:
            if isinstance(found, Ended):
                found = [Failure(point_of(key), found.how) for key in task.points]
            for row in found:
                if book:
                    book.append(line_of(row))
                yield row


def _manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
    return found
