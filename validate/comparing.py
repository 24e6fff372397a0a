"""A comparison of many points: on all cores, from where an earlier run stopped, with progress; and how it is shown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from gpusim.cli.parser import EXIT_INTERRUPTED, EXIT_MISMATCH, EXIT_OK
from gpusim.cli.progress import show_points
from gpusim.config import load_config
from gpusim.explore.interrupt import interruptible
from gpusim.explore.journal import Journal, JournalError
from gpusim.explore.workers import Ended, Workers
from gpusim.host.options import host_threads
from validate import baseline, compared, replay, score
from validate.journal import open_journal
from validate.points import ProgramPoint, select
from validate.replay import Failure
from validate.scoring import text


def compare(
    points: Sequence[ProgramPoint], *, gpu: str = "h200", baseline_of: str = "h200", overrides: Sequence[str] = (),
    journal: Path | None = None, jobs: int | None = None, threads: int | None = None, warm: bool = False,
) -> Iterator[score.Row]:  # fmt: skip
    """The row of every point, in their order, as soon as it can be told.

    journal: file of rows; what it holds is not done again, and every new row is in it at once. A process that died says
    nothing about its point, so that is not written down. jobs: processes, one per core by default. warm: also of the
    launch after the same one, where that was measured.

    Most points are small: they end before a second host thread of the engine has helped. So the cores are given points,
    not parts of points.

    Raises JournalError, and gpusim.errors.ConfigError for a configuration that does not hold together, before the first
    row is asked for.
    """
    load_config(gpu, overrides)
    book = open_journal(journal, gpu, baseline_of, overrides, warm=warm) if journal else None
    found = known_rows(book)
    tasks = {each: (each,) for each in points if each not in found}
    jobs = min(jobs or host_threads(None), len(tasks))
    threads = threads or (max(1, host_threads(None) // jobs) if jobs > 1 else None)
    how = {"gpu": gpu, "baseline_of": baseline_of, "overrides": tuple(overrides), "threads": threads, "warm": warm}
    return rows(points, found, tasks, partial(_rows_of, **how), jobs, book)


def _rows_of(point: ProgramPoint, **how: Any) -> list[score.Row]:
    return list(replay.compare((point,), **how))


def known_rows(
    book: Journal | None, point_of: Callable[[str], ProgramPoint] = ProgramPoint.parse
) -> dict[ProgramPoint, score.Row]:
    """Return the rows of a journal. Raises JournalError."""
    try:
        found = [score.row_of(line, point_of) for line in (book.rows.values() if book else ())]
    except (ValueError, KeyError, TypeError):
        raise JournalError(f"{book and book.path} is the journal of something else") from None
    return {row.point: row for row in found}


# many parameters: what is known, what is left, who does it, and where it is kept
def rows(
    points: Sequence[ProgramPoint], known: dict[ProgramPoint, score.Row], tasks: Mapping[Any, Iterable[ProgramPoint]],
    work: Callable[[Any], Iterable[score.Row]], jobs: int = 1, book: Journal | None = None,
) -> Iterator[score.Row]:  # fmt: skip
    """The row of every point, in their order: those that are known, and what `work` gives of tasks, each of some
    points, in so many processes, or here if that is one."""
    found = {point: known[point] for point in points if point in known}
    told = failed = 0
    with ExitStack() as stack:
        if book:
            stack.enter_context(book)
        progress = stack.enter_context(show_points(None))
        stack.enter_context(interruptible())
        done: Iterator[tuple[Any, Any]] = ((task, work(task)) for task in tasks)
        if jobs > 1:
            done = stack.enter_context(closing(Workers(jobs))).run(work, tasks)
        while True:
            while told < len(points) and points[told] in found:
                yield found[points[told]]
                told += 1
            if progress:
                progress(len(found), failed, len(points))
            if (answer := next(done, None)) is None:
                return
            task, made = answer
            died = isinstance(made, Ended)
            for row in [Failure(each, made.how) for each in tasks[task]] if died else made:
                found[row.point] = row
                failed += isinstance(row, Failure)
                if book and not died:
                    book.append(score.plain(row))


def show(found: Iterable[score.Row], report: Callable[[list[score.Row]], str]) -> tuple[int, list[score.Row]]:
    """Print a table that grows, and a report; (exit status, the rows)."""
    kept = compared.show(found, score.TIMED_HEAD, partial(score.line, timed=True), report)
    return EXIT_OK if score.ok(kept) else EXIT_MISMATCH, kept


def points_of(options: argparse.Namespace) -> list[ProgramPoint]:
    """The points that a command's options choose. Raises programs.registry.UnknownProgram."""
    return [point for point in select(options.only, options.size) if options.split in (point.split, "all")]


def command(options: argparse.Namespace) -> int:
    """`validate compare`: status 1 if an exact counter differs."""
    try:
        found = compare(
            points_of(options),
            gpu=options.gpu,
            baseline_of=options.baseline or baseline.gpu_of(options.gpu),
            overrides=options.set,
            journal=options.resume,
            jobs=options.jobs,
            threads=options.threads,
            warm=options.warm,
        )
        return show(found, partial(text.report, full=True) if options.full else text.cycles_text)[0]
    except KeyboardInterrupt:
        resume = f"; the same command goes on from {options.resume}" if options.resume else ""
        print(f"\ninterrupted{resume}", file=sys.stderr)
        return EXIT_INTERRUPTED
