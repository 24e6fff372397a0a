"""A comparison of many points: on all cores, from where an earlier run stopped, with progress."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from gpusim.cli.progress import show_points
from gpusim.config import load_config
from gpusim.explore.journal import JournalError
from gpusim.host.options import host_threads
from validate import baseline, pool, score
from validate.commands import EXIT_INTERRUPTED
from validate.journal import line_of, open_journal
from validate.points import ProgramPoint, select
from validate.replay import Failure
from validate.scoring import text


# many parameters: what the command line asks, each by its name
def compare(
    points: Sequence[ProgramPoint],
    *,
    gpu: str = "h200",
    baseline_of: str = "h200",
    overrides: Sequence[str] = (),
    journal: Path | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    head: Callable[[], None] = lambda: None,
    say: Callable[[score.Row], None] = lambda row: None,
) -> list[score.Row]:
    """The row of every point, in their order.

    `head` is called once all is well and the work begins, `say` with each row, in the same order, as soon as it can be.

    journal: file of rows; what it holds is not done again, and every new row is in it at once. A process that died says
    nothing about its point, so that is not written down. jobs: processes, one per core by default.

    Raises JournalError, and gpusim.errors.ConfigError for a configuration that does not hold together.
    """
    load_config(gpu, overrides)
    found: dict[ProgramPoint, score.Row] = {}
    said = failed = 0

    with ExitStack() as stack:
        book = stack.enter_context(open_journal(journal, gpu, baseline_of, overrides)) if journal else None
        for line in book.rows.values() if book else ():
            try:
                known = score.row_of(line)
            except (ValueError, KeyError, TypeError):
                raise JournalError(f"{journal} is the journal of something else") from None
            if known.point in points:
                found[known.point] = known
        head()
        progress = stack.enter_context(show_points(None))
        tasks = [pool.Task(each, gpu, baseline_of, tuple(overrides)) for each in points if each not in found]
        done = pool.run(tasks, jobs or host_threads(None), threads)
        while True:
            while said < len(points) and points[said] in found:
                say(found[points[said]])
                said += 1
            if progress:
                progress(len(found), failed, len(points))
            row = next(done, None)
            if row is None:
                break
            found[row.point] = row
            failed += isinstance(row, Failure)
            if book and not isinstance(row, pool.ProcessDied):
                book.append(line_of(row))
    return [found[point] for point in points]


def points_of(options: argparse.Namespace) -> list[ProgramPoint]:
    """The points that a command's options choose. Raises programs.registry.UnknownProgram."""
    return [point for point in select(options.only, options.size) if options.split in (point.split, "all")]


def command(options: argparse.Namespace) -> int:
    """`validate compare`: status 1 if an exact counter differs."""
    # The table grows as points are done; with --json it is progress, and goes to where progress goes.
    out = sys.stderr if options.json else sys.stdout
    try:
        rows = compare(
            points_of(options),
            gpu=options.gpu,
            baseline_of=options.baseline or baseline.gpu_of(options.gpu),
            overrides=options.set,
            journal=options.resume,
            jobs=options.jobs,
            threads=options.threads,
            head=lambda: print(score.TIMED_HEAD, file=out, flush=True),
            say=lambda row: print(score.timed_line(row), file=out, flush=True),
        )
    except KeyboardInterrupt:
        resume = f"; the same command goes on from {options.resume}" if options.resume else ""
        print(f"\ninterrupted{resume}", file=sys.stderr)
        return EXIT_INTERRUPTED
    print(f"\n{text.report(rows, full=True) if options.full else text.cycles_text(rows)}", file=out)
    if options.json:
        print(json.dumps(score.document(rows), indent=1))
    return 0 if score.ok(rows) else 1
