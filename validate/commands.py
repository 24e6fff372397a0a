"""The commands of `python -m validate` that compare and score; `__main__` has the others."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.errors import ConfigError

if TYPE_CHECKING:
    from validate.points import ProgramPoint

EXIT_OK, EXIT_WRONG, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


def add(commands: Any, command: Callable[..., argparse.ArgumentParser], choose_points: Callable[..., None]) -> None:
    """Declare the commands, with the helpers that all commands are declared with."""
    summary = "simulate the recorded points and compare; status 1 if an exact counter differs"
    compare = command(commands, "compare", _compare, summary, "--only reduction --size large --resume journal.jsonl")
    choose_points(compare)
    _choose_split(compare)
    compare.add_argument("--gpu", default="h200", help="configuration to simulate (default: %(default)s)")
    compare.add_argument(
        "--baseline", metavar="GPU", help="GPU to compare with (default: that of --gpu, or h200 if it has no baselines)"
    )
    compare.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the configuration")
    compare.add_argument(
        "--resume", type=Path, metavar="FILE", help="journal: write every point down, and go on where it stops"
    )
    compare.add_argument("--jobs", type=int, metavar="N", help="points at a time (default: one per core)")
    compare.add_argument(
        "--threads", type=int, metavar="N", help="host threads of each (default: the cores, shared out)"
    )
    compare.add_argument("--full", action="store_true", help="also how counters and stall reasons compare")
    compare.add_argument("--json", action="store_true", help="everything as JSON; the table goes to standard error")

    summary = "score a comparison that has been made; status 1 if an exact counter differs or a point is missing"
    scoring = command(commands, "score", _score, summary, "journal.jsonl --full")
    scoring.add_argument("file", type=Path, metavar="FILE", help="journal of compare --resume, or what --json printed")
    choose_points(scoring)
    _choose_split(scoring)
    scoring.add_argument("--gpu", default="h200", help="configuration that was compared (default: %(default)s)")
    scoring.add_argument("--points", action="store_true", help="also the table of points")
    scoring.add_argument("--full", action="store_true", help="also every modelled counter by itself")
    scoring.add_argument("--json", action="store_true", help="everything as JSON instead")
    scoring.add_argument("--report", type=Path, metavar="FILE.html", help="also write the scores as one HTML file")
    scoring.add_argument(
        "--accept", action="store_true", help="from now on the tests hold the model to this score (all points needed)"
    )
    scoring.add_argument("--because", default="", metavar="TEXT", help="why a worse score than before is accepted")
    scoring.add_argument(
        "--docs", action="store_true", help="renew docs/accuracy.md and its pictures (all points needed)"
    )

    summary = "show how far predictions of a kind lie from a GPU, and store the points that say so"
    sure = command(commands, "intervals", _intervals, summary, "h200.jsonl h100.jsonl collection.jsonl")
    what = "journals of compare and of collection compare whose judging points are stored (default: only show)"
    sure.add_argument("journals", type=Path, nargs="*", metavar="JOURNAL", help=what)
    what = "journals of compare --set --baseline GPU of machines that a data sheet describes, stored as well"
    sure.add_argument("--described", type=Path, nargs="*", default=[], metavar="JOURNAL", help=what)
    what = "also run published microbenchmarks on GPUs described by specifications alone; needs the tool chain"
    sure.add_argument("--published", action="store_true", help=what)
    sure.add_argument("--docs", action="store_true", help="put the tables into docs/accuracy.md")


def _intervals(options: argparse.Namespace) -> int:
    from validate import intervals

    return intervals.run(options)


def _choose_split(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--split",
        choices=("train", "judge", "all"),
        default="all",
        help="families that may be looked at while modelling, those that judge, or all (default: %(default)s)",
    )


def _points(options: argparse.Namespace) -> list[ProgramPoint]:
    """The points that the options choose. Raises programs.registry.UnknownProgram."""
    from validate.points import select

    return [point for point in select(options.only, options.size) if options.split in (point.split, "all")]


def _compare(options: argparse.Namespace) -> int:
    from gpusim.explore.journal import JournalError
    from validate import baseline, comparing, score
    from validate.scoring import text

    # The table grows as points are done; with --json it is progress, and goes to where progress goes.
    out = sys.stderr if options.json else sys.stdout
    try:
        rows = comparing.compare(
            _points(options),
            gpu=options.gpu,
            baseline_of=options.baseline or baseline.gpu_of(options.gpu),
            overrides=options.set,
            journal=options.resume,
            jobs=options.jobs,
            threads=options.threads,
            head=lambda: print(score.TIMED_HEAD, file=out, flush=True),
            say=lambda row: print(score.timed_line(row), file=out, flush=True),
        )
    except (JournalError, ConfigError) as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        resume = f"; the same command goes on from {options.resume}" if options.resume else ""
        print(f"\ninterrupted{resume}", file=sys.stderr)
        return EXIT_INTERRUPTED
    print(f"\n{text.report(rows, full=True) if options.full else text.cycles_text(rows)}", file=out)
    if options.json:
        print(json.dumps(score.document(rows), indent=1))
    return EXIT_OK if score.ok(rows) else EXIT_WRONG


def _score(options: argparse.Namespace) -> int:
    from gpusim.explore.journal import JournalError
    from validate import journal, score
    from validate.scoring import text

    try:
        found, note = journal.rows_of(options.file, options.gpu)
    except JournalError as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    if note:
        print(f"validate: note: {note}", file=sys.stderr)
    rows = score.complete({row.point: row for row in found}, _points(options))
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
        print("validate: error: no point was compared, so there is nothing to write", file=sys.stderr)
        return False
    if options.report:
        from validate.scoring import page

        try:
            options.report.write_text(page.render_page(rows, options.gpu), "utf-8")
        except OSError as error:
            print(f"validate: error: --report {options.report}: {error.strerror}", file=sys.stderr)
            return False
    return _renew(rows, options) if options.accept or options.docs else True


def _renew(rows: Sequence[Any], options: argparse.Namespace) -> bool:
    """Renew what the repository keeps of the score; False, with the reason on standard error, if that is not right."""
    from validate import baseline
    from validate.points import select
    from validate.scoring import accepted, documents, text

    found = text.done(rows)
    missing = {*select()} - {row.point for row in found}
    if missing:
        print(f"validate: error: {len(missing)} points are missing, {min(map(str, missing))} for one", file=sys.stderr)
        return False
    gpu = options.gpu
    other = [row.point for row in found if row.cycles.measured != baseline.measured(row.point, gpu).cycles.median]
    if other:
        print(f"validate: error: {other[0]} was compared with another measurement than {gpu}'s", file=sys.stderr)
        return False
    if options.accept:
        file = accepted.path_of(gpu)
        entries = [accepted.Entry.of(row) for row in found]
        worse = accepted.worse_score(entries, accepted.load(file)) if file.exists() else []
        if worse and not options.because:
            print("validate: error: worse than what was accepted; say why with --because:", file=sys.stderr)
            print("\n".join(f"  {each}" for each in worse), file=sys.stderr)
            return False
        file.write_text(accepted.text_of(entries, options.because), "utf-8")
        print(f"wrote {file}", file=sys.stderr)
    if options.docs:
        try:
            written = documents.accuracy(rows, gpu)
        except documents.DocumentError as error:
            print(f"validate: error: {error}", file=sys.stderr)
            return False
        print(f"wrote {written}", file=sys.stderr)
    return True
