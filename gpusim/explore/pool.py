"""Run all points of a sweep, with a journal to go on from, and return one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpusim.explore.evaluate import check_points
from gpusim.explore.point import Point
from gpusim.explore.rows import Progress, Rows

if TYPE_CHECKING:
    import pandas


def run(points: Iterable[Point], *, metrics: Sequence[str] = (), **options: Any) -> pandas.DataFrame:
    """Evaluate points and return a table, one row per point in their order; what failed is a row with its error.

    Takes the options of `collect`, and raises what it does, or TableError if pandas is missing.
    """
    from gpusim.explore.table import frame

    return frame(collect(list(points), metrics=metrics, **options), metrics)


# many parameters: the options of a sweep, each by its name
def collect(
    points: Sequence[Point],
    *,
    metrics: Sequence[str] = (),
    bound: bool | Literal["only"] = True,
    workers: int | None = None,
    journal: str | Path | None = None,
    resume: bool = False,
    timeout_s: float | None = None,
    verify: bool = False,
    screen: float | None = None,
    progress: Progress | None = None,
    announce: Callable[[], None] | None = None,
) -> list[dict[str, Any]]:
    """What `run` makes its table of: the rows in the order of the points.

    Args:
        points: as `Space` makes them; one that comes twice runs once.
        metrics, bound, verify: as for `evaluate`, whose columns the rows have.
        workers, timeout_s, progress, announce: as for `Rows`; workers: None takes one per core.
        journal: file to which every row is appended as it is finished. resume: it may exist; what it has is not run
            again. Both as in docs/sweeps.md.
        screen: bound all points, and simulate those whose bound is within this factor of the best one of the same
            program and parameters; the others' rows have the bound alone.

    Raises:
        ConfigError: a name that does not exist, before anything runs.
        JournalError: the journal cannot be gone on with, or written.
        WorkerFailed: there is nobody to run points.
        KeyboardInterrupt: after Ctrl-C; what was finished is in the journal.
    """
    unique = list({point.key: point for point in points}.values())
    with Rows(workers, journal, progress, timeout_s, announce, resume) as rows:
        check_points(unique, metrics)
        rows.ask_for(metrics, unique, bound, verify, screen)
        return rows(unique)
