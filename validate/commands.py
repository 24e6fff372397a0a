"""The commands of `python -m validate` that compare and score; `__main__` has the others."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpusim.errors import ConfigError

EXIT_OK, EXIT_WRONG, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


def add(commands: Any, command: Callable[..., argparse.ArgumentParser], choose_points: Callable[..., None]) -> None:
    """Declare the commands, with the helpers that all commands are declared with."""
    summary = "simulate the recorded points and compare; status 1 if an exact counter differs"
    compare = command(commands, "compare", _compare, summary, "--only reduction --size large --resume journal.jsonl")
    choose_points(compare)
    _choose_machine(compare)
    _choose_pace(compare)
    compare.add_argument("--full", action="store_true", help="also how counters and stall reasons compare")
    compare.add_argument("--json", action="store_true", help="everything as JSON; the table goes to standard error")

    summary = "score a comparison that has been made; status 1 if an exact counter differs or a point is missing"
    scoring = command(commands, "score", _score, summary, "journal.jsonl --html score.html --plots plots")
    scoring.add_argument("file", type=Path, metavar="FILE", help="journal of compare --resume, or what --json printed")
    choose_points(scoring)
    scoring.add_argument("--points", action="store_true", help="also the table of points")
    scoring.add_argument("--full", action="store_true", help="also every modelled counter by itself")
    scoring.add_argument("--json", action="store_true", help="everything as JSON instead")
    scoring.add_argument("--html", type=Path, metavar="FILE", help="write a page with everything")
    scoring.add_argument("--plots", type=Path, metavar="DIR", help="write the pictures as SVG and PNG")
    scoring.add_argument(
        "--accept", action="store_true", help="from now on the tests hold the model to this score (all points needed)"
    )
    scoring.add_argument(
        "--docs", action="store_true", help="renew docs/accuracy.md and its pictures (all points needed)"
    )


def _choose_machine(command: argparse.ArgumentParser) -> None:
    command.add_argument("--gpu", default="h200", help="configuration to simulate (default: %(default)s)")
    command.add_argument("--baseline", default="h200", help="GPU to compare with (default: %(default)s)")
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the configuration")


def _choose_pace(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--resume", type=Path, metavar="FILE", help="journal: write every point down, and go on where it stops"
    )
    command.add_argument("--jobs", type=int, metavar="N", help="points at a time (default: one per core)")
    command.add_argument(
        "--threads", type=int, metavar="N", help="host threads of each (default: the cores, shared out)"
    )


def _compare(options: argparse.Namespace) -> int:
    from validate import comparing, score
    from validate.points import select
    from validate.pool import Task
    from validate.scoring import text

    # The table grows as points are done; with --json it is progress, and goes to where progress goes.
    out = sys.stderr if options.json else sys.stdout
    changes = tuple(options.set)
    tasks = [Task(point, options.gpu, options.baseline, changes) for point in select(options.only, options.size)]
    rows = _guarded(
        lambda: comparing.compare(
            tasks,
            journal=options.resume,
            jobs=options.jobs,
            threads=options.threads,
            head=lambda: print(score.HEAD, file=out, flush=True),
            say=lambda _, row: print(score.line(row), file=out, flush=True),
        ),
        options,
    )
    if isinstance(rows, int):
        return rows
    print(score.summary_text(rows), file=out)
    if options.full:
        print(f"\n{text.report(rows, full=True)}", file=out)
    if options.json:
        print(json.dumps(score.document(rows), indent=1))
    return EXIT_OK if score.ok(rows) else EXIT_WRONG


def _guarded(work: Callable[[], Any], options: argparse.Namespace) -> Any:
    """What the work gives; an exit status, with what is wrong on standard error, where it cannot be done."""
    from validate.journal import JournalError

    try:
        return work()
    except (JournalError, ConfigError) as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        resume = f"; the same command goes on from {options.resume}" if options.resume else ""
        print(f"\ninterrupted{resume}", file=sys.stderr)
        return EXIT_INTERRUPTED


def _score(options: argparse.Namespace) -> int:
    from validate import journal, score
    from validate.points import select
    from validate.scoring import text

    try:
        found = {row.point: row for row in journal.rows_of(options.file)}
    except journal.JournalError as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    rows = score.complete(found, select(options.only, options.size))
    if options.json:
        print(json.dumps(score.document(rows), indent=1))
    else:
        if options.points:
            print("\n".join([score.HEAD, *map(score.line, rows), ""]))
        print(text.report(rows, full=options.full))
    return EXIT_OK if _write(rows, options) and score.ok(rows) else EXIT_WRONG


def _write(rows: Sequence[Any], options: argparse.Namespace) -> bool:
    """The files that were asked for; False, with the reason on standard error, if there is not enough to write."""
    from validate.scoring import text

    if not text.done(rows):
        print("validate: error: no point was compared, so there is nothing to draw", file=sys.stderr)
        return False
    if options.plots:
        from validate.scoring import plots

        for path in plots.write(rows, options.plots):
            print(f"wrote {path}", file=sys.stderr)
    if options.html:
        from validate.scoring import page

        options.html.write_text(page.page(rows), "utf-8")
        print(f"wrote {options.html}", file=sys.stderr)
    return True
