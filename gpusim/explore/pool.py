"""Run all points of a sweep: in worker processes, here, or on a Dask cluster, with a journal to go on from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from gpusim.explore.check import check_points
from gpusim.explore.evaluate import evaluate
from gpusim.explore.journal import Journal, make_header
from gpusim.explore.point import Point
from gpusim.explore.screen import screened

if TYPE_CHECKING:
    import pandas

Progress = Callable[[int, int, int], None]


class Runner(Protocol):
    """Who evaluates points."""

    def rows(self, points: Sequence[Point], options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Each point's row as it is finished; options: of `evaluate`."""

    def close(self) -> None:
        """End whatever still runs."""


def run(
    points: Iterable[Point],
    *,
    metrics: Sequence[str] = (),
    bound: bool | Literal["only"] = True,
    workers: int | None = None,
    dask: str | None = None,
    journal: str | Path | None = None,
    resume: bool = False,
    timeout_s: float | None = None,
    verify: bool = False,
    screen: float | None = None,
    progress: Progress | None = None,
) -> pandas.DataFrame:
    """Evaluate points and return a table, one row per point in their order; what failed is a row with its error.

    Args:
        points: as `Space` makes them; one that comes twice runs once.
        metrics, bound, verify: as for `evaluate`, whose columns the table has.
        workers: processes; None takes one per core, 0 runs everything in this process.
        dask: address of a Dask scheduler, instead of processes on this machine.
        journal: file to which every row is appended as it is finished. resume: it may exist; what it has is not run
            again. Both as in docs/sweeps.md.
        timeout_s: seconds that one point may take.
        screen: bound all points, and simulate those whose bound is within this factor of the best one of the same
            program and parameters; the others' rows have the bound alone.
        progress: called with (points finished, of which failed, points in all) at the start and after every point.

    Raises:
        ConfigError: a name that does not exist, before anything runs.
        JournalError: the journal cannot be gone on with, or written.
        WorkerFailed, ClusterFailed: there is nobody to run points.
        TableError: pandas is missing.
    """
    from gpusim.explore.table import frame

    rows = collect(
        list(points), metrics=metrics, bound=bound, workers=workers, dask=dask, journal=journal, resume=resume,
        timeout_s=timeout_s, verify=verify, screen=screen, progress=progress,
    )  # fmt: skip
    return frame(rows, metrics)


def collect(
    points: Sequence[Point],
    *,
    metrics: Sequence[str] = (),
    bound: bool | Literal["only"] = True,
    workers: int | None = None,
    dask: str | None = None,
    journal: str | Path | None = None,
    resume: bool = False,
    timeout_s: float | None = None,
    verify: bool = False,
    screen: float | None = None,
    progress: Progress | None = None,
    announce: Callable[[], None] | None = None,
) -> list[dict[str, Any]]:
    """What `run` makes its table of: the rows in the order of the points, each point once.

    announce: called once if the simulator's core has to be compiled first.
    """
    # The processes first: they load the simulator while names are checked here.
    with closing(_runner(len(points), workers, dask, announce)) as runner:
        check_points(points, metrics)
        asked = {"metrics": list(metrics), "bound": bound, "verify": verify}
        options = asked | {"timeout_s": timeout_s}
        header = make_header(points, asked | {"screen": screen}) if journal else {}
        with Journal(journal, header, resume) if journal else nullcontext() as book:
            return _collect(points, runner, options, screen, book, progress)


def _collect(
    points: Sequence[Point],
    runner: Runner,
    options: Mapping[str, Any],
    screen: float | None,
    book: Journal | None,
    progress: Progress | None,
) -> list[dict[str, Any]]:
    unique = {point.key: point for point in points}
    rows = {key: row for key, row in (book.rows if book else {}).items() if key in unique}
    failed = sum(row["error"] is not None for row in rows.values())

    def report() -> None:
        if progress is not None:
            progress(len(rows), failed, len(unique))

    def keep(finished: Iterable[dict[str, Any]]) -> None:
        nonlocal failed
        for row in finished:
            row = json.loads(json.dumps(row))  # as the journal gives it back, so that resuming changes nothing
            if book:
                book.append(row)
            rows[row["key"]] = row
            failed += row["error"] is not None
            report()

    report()
    left = [point for key, point in unique.items() if key not in rows]
    if screen is not None and left:
        left, rest = screened(unique, rows, runner.rows(left, {**options, "bound": "only"}), screen)
        keep(rest)
    keep(runner.rows(left, options))
    return [rows[key] for key in unique]


class _Here:
    """Points one after the other in this process: no start to wait for, and no protection from what a point does."""

    def rows(self, points: Iterable[Point], options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        return (evaluate(point, **options) for point in points)

    def close(self) -> None:
        pass


def _runner(points: int, workers: int | None, dask: str | None, announce: Callable[[], None] | None) -> Runner:
    """Who runs so many points. Closing it ends what it does."""
    if dask is not None:
        from gpusim.explore.cluster import Cluster

        return Cluster(dask)
    if workers == 0:
        return _Here()
    from gpusim.explore.workers import Pool
    from gpusim.host.options import host_threads

    return Pool(min(host_threads(workers), max(points, 1)), announce)
