"""Rows of points for those who choose the next points by the last ones: each point is evaluated once, ever.

What has been evaluated is kept in memory, and in a journal where there is one: a search or a screening that is started
again with its journal goes the same way without running anything twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.errors import SimulationError
from gpusim.explore.evaluate import evaluate
from gpusim.explore.journal import Journal, make_header
from gpusim.explore.point import Point

if TYPE_CHECKING:
    from gpusim.explore.workers import Pool


class Rows:
    """A function from points to their rows, in their order.

    workers: processes; None takes one per core, 0 runs here. journal: file that keeps rows; one that exists is gone on
    with. progress: called with (rows finished, of which failed, rows wanted) of each call. timeout_s: seconds that one
    run may take. announce: called once if the simulator's core has to be compiled first. evaluated, known: points that
    were run, and that were in the journal already.
    """

    def __init__(
        self,
        workers: int | None = 0,
        journal: str | Path | None = None,
        progress: Callable[[int, int, int], None] | None = None,
        timeout_s: float | None = None,
        announce: Callable[[], None] | None = None,
    ) -> None:
        self.workers, self.journal, self.progress, self.timeout_s = workers, journal, progress, timeout_s
        self._announce = announce
        self.metrics: tuple[str, ...] = ()
        self._about: tuple[Point, ...] = ()
        self.evaluated = self.known = 0
        self._rows: dict[str, dict[str, Any]] = {}
        self._bounds: dict[str, dict[str, Any]] = {}
        self._book: Journal | None = None
        self._pool: Pool | None = None

    def ask_for(self, metrics: Sequence[str], about: Sequence[Point]) -> None:
        """Say before the first call which metrics rows are to have, and which programs and GPUs it is about: what the
        journal is of, with the files that they name."""
        if self._rows or self._book:
            if tuple(metrics) != self.metrics:
                raise SimulationError("rows were evaluated with other metrics")
            return
        self.metrics = tuple(metrics)
        bare = {point.key: point for point in (Point(each.program, each.gpu) for each in about)}
        self._about = tuple(bare.values())

    def __call__(self, points: Sequence[Point]) -> list[dict[str, Any]]:
        """Raises JournalError where the journal is not one of the same question, or cannot be written."""
        self._open()
        unique = {point.key: point for point in points}
        failed = sum(self._rows[key]["error"] is not None for key in unique if key in self._rows)
        left = [point for key, point in unique.items() if key not in self._rows]
        self._report(len(unique) - len(left), failed, len(unique))
        with closing(self._finished(left)) as finished:
            for count, row in enumerate(finished, 1):
                row = json.loads(json.dumps(row))  # as the journal gives it back
                if self._book is not None:
                    self._book.append(row)
                self._rows[row["key"]] = row
                self.evaluated += 1
                failed += row["error"] is not None
                self._report(len(unique) - len(left) + count, failed, len(unique))
        return [self._rows[point.key] for point in points]

    def bounds(self, points: Sequence[Point]) -> list[dict[str, Any]]:
        """Rows with the analytical bound only; nothing is simulated or kept."""
        for point in points:
            if point.key not in self._bounds:
                self._bounds[point.key] = evaluate(point, bound="only")
        return [self._bounds[point.key] for point in points]

    def close(self) -> None:
        """Let go of the journal, and of the processes."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        if self._book is not None:
            self._book.close()
            self._book = None

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        if self.journal is None or self._book is not None:
            return
        header = make_header(self._about, {"metrics": list(self.metrics), "bound": False})
        self._book = Journal(self.journal, header, resume=True)
        self._rows |= self._book.rows
        self.known = len(self._book.rows)

    def _finished(self, points: Sequence[Point]) -> Generator[dict[str, Any], None, None]:
        options: dict[str, Any] = {"metrics": self.metrics, "bound": False, "timeout_s": self.timeout_s}
        if self.workers == 0 or not points:
            for point in points:
                yield evaluate(point, **options)
            return
        if self._pool is None:
            from gpusim.explore.workers import Pool
            from gpusim.host.options import host_threads

            self._pool = Pool(host_threads(self.workers), self._announce)
        yield from self._pool.rows(points, options)

    def _report(self, finished: int, failed: int, wanted: int) -> None:
        if self.progress is not None:
            self.progress(finished, failed, wanted)
