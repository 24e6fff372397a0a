"""A sweep: points to rows, each evaluated once, ever, here or by workers; and one table of all.

What has been evaluated is kept in memory, and in a journal where there is one: a sweep or a search that is
started again with its journal goes the same way without running anything twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpusim.errors import SimulationError
from gpusim.explore.evaluate import BOUNDS, check_points, empty_row, evaluate
from gpusim.explore.interrupt import interruptible, stop_if_interrupted
from gpusim.explore.journal import Journal, make_header
from gpusim.explore.point import Point
from gpusim.explore.workers import Ended, Workers
from gpusim.results.quantities import result_columns
from isa.folders import replacing

if TYPE_CHECKING:
    import pandas


RowOf = dict[str, Any]


def sweep(points: Iterable[Point], *, metrics: Sequence[str] = (), **options: Any) -> pandas.DataFrame:
    """Evaluate points and return a table, one row per point in their order; what failed is a row with its error.

    Takes the options of `collect`, and raises what it does, or TableError if pandas is missing.
    """

    return frame(collect(list(points), metrics=metrics, **options), metrics)


def collect(
    points: Sequence[Point],
    *,
    metrics: Sequence[str] = (),
    bound: bool | Literal["only"] = True,
    verify: bool = False,
    **how: Any,
) -> list[dict[str, Any]]:
    """Return the rows of which `sweep` makes its table, in the order of the points.

    Args:
        points: as `Space` makes them; one that comes twice runs once.
        metrics, bound, verify: as for `evaluate`, whose columns the rows have.
        how: workers, journal, resume, timeout_s, progress, announce and executor, as for `PointEvaluator`; but by
            default one worker per core, and no journal that exists.

    Raises:
        ConfigError: a name that does not exist, before anything runs.
        JournalError: the journal cannot be gone on with, or written.
        WorkerFailed: there is nobody to run points.
        KeyboardInterrupt: after Ctrl-C; what was finished is in the journal.
    """
    unique = list({point.key: point for point in points}.values())
    with PointEvaluator(**dict[str, Any]({"workers": None, "resume": False} | how)) as rows:
        check_points(unique, metrics)
        rows.ask_for(metrics, unique, bound, verify)
        return rows(unique)


@dataclass(eq=False)
class PointEvaluator(AbstractContextManager["PointEvaluator"]):
    """A function from points to their rows, in their order; a context manager.

    workers: processes; None takes one per core, 0 runs here. executor: evaluates points instead, and stays open; the
    time of a point is then noticed by the point alone. journal: file that keeps rows; resume: it may exist, and is
    gone on with. progress: called with (rows finished, of which failed, rows wanted) of each call, at its start and
    after every row. timeout_s: seconds that one run may take. announce: called once if the simulator's core has to be
    compiled first.
    evaluated, known: points that were run, and that were in the journal already. rows: all of them, by key. count: of
    the latest call, as for `progress`.
    """

    workers: int | None = 0
    journal: str | Path | None = None
    progress: Callable[[int, int, int], None] | None = None
    timeout_s: float | None = None
    announce: Callable[[], None] | None = None
    resume: bool = True
    executor: Executor | None = None

    def __post_init__(self) -> None:
        self.evaluated = self.known = 0
        self._asked: dict[str, Any] = {"metrics": [], "bound": False, "verify": False}
        self.count = [0, 0, 0]
        self._about: tuple[Point, ...] = ()
        self.rows: dict[str, RowOf] = {}
        self._bounds: dict[str, RowOf] = {}
        self._book: Journal | None = None
        self._workers: Workers | None = None

    def ask_for(
        self,
        metrics: Sequence[str],
        about: Sequence[Point],
        bound: bool | Literal["only"] = False,
        verify: bool = False,
    ) -> None:
        """Say before the first call what rows are to have, as for `evaluate`, and what they are about: the points, or
        bare ones with their programs and GPUs alone. That is what the journal is of."""
        asked = {"metrics": list(metrics), "bound": bound, "verify": verify}
        if self.rows or self._book:
            if asked != self._asked:
                raise SimulationError("rows were evaluated with other metrics")
            return
        self._asked, self._about = asked, tuple({point.key: point for point in about}.values())

    def __call__(self, points: Sequence[Point]) -> list[RowOf]:
        """Raises JournalError where the journal is not one of the same question, or cannot be written, WorkerFailed
        where there is nobody to run points, KeyboardInterrupt after Ctrl-C, with what was finished in the journal."""
        with interruptible():
            self._open()
            unique = {point.key: point for point in points}
            self.count = [0, 0, len(unique)]
            self._report([self.rows[key] for key in unique if key in self.rows])
            self._keep(self._run([point for key, point in unique.items() if key not in self.rows]))
        return [self.rows[point.key] for point in points]

    def bounds(self, points: Sequence[Point]) -> list[RowOf]:
        """Rows with the analytical bound only; nothing is simulated or kept."""
        for point in points:
            stop_if_interrupted()
            if point.key not in self._bounds:
                self._bounds[point.key] = evaluate(point, bound="only")
        return [self._bounds[point.key] for point in points]

    def close(self) -> None:
        """Let go of the journal, and of the processes."""
        if self._workers is not None:
            self._workers.close()
        if self._book is not None:
            self._book.close()
        self._workers = self._book = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        if self.journal is not None and self._book is None:
            self._book = Journal(self.journal, make_header(self._about, self._asked), self.resume)
            self.rows |= self._book.rows
            self.known = len(self._book.rows)

    def _run(self, points: Sequence[Point]) -> Iterator[RowOf]:
        options = self._asked | {"timeout_s": self.timeout_s}
        here = self.workers == 0 or (self._asked["bound"] == "only" and len(points) < 32)  # quicker than a process
        if not points or (here and self.executor is None):
            yield from (evaluate(point, **options) for point in points)
            return
        if self._workers is None:
            from gpusim.host.options import host_threads

            self._workers = Workers(host_threads(self.workers), self.announce, self.executor)
        for point, row in self._workers.run(partial(evaluate, **options), points, self.timeout_s):
            if isinstance(row, Ended):
                row = empty_row(point, self._asked["metrics"]) | {"seconds": round(row.seconds, 6), "error": row.how}
            yield row

    def _keep(self, finished: Iterable[RowOf]) -> None:
        for row in finished:
            row = json.loads(json.dumps(row))  # as the journal gives it back, so that resuming changes nothing
            if self._book is not None:
                self._book.append(row)
            self.rows[row["key"]] = row
            self.evaluated += 1
            self._report([row])
            stop_if_interrupted()

    def _report(self, finished: Sequence[RowOf]) -> None:
        done, failed, wanted = self.count
        self.count = [done + len(finished), failed + sum(row["error"] is not None for row in finished), wanted]
        if self.progress is not None:
            self.progress(*self.count)


# --- rows as a table --------------------------------------------------------------------------------------------------

FORMATS = (".parquet", ".csv")
HOST = "seconds"
"""The one column that is of the host, not of the points: two runs of a sweep agree in all others."""


class TableError(SimulationError):
    """A table that cannot be made or written here."""


def load_pandas() -> Any:
    """The package. Raises TableError where it is missing."""
    try:
        import pandas
    except ImportError:
        raise TableError("a table needs the package pandas: pip install 'gpusim[explore]'") from None
    return pandas


def frame(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str] = ()) -> pandas.DataFrame:
    """One row per point, in the order given: what the points are, in the order in which it appears, then what came out.
    Integers stay integers where some are missing; values of several kinds in one column become texts. Raises TableError
    without pandas."""
    pandas = load_pandas()
    last = dict.fromkeys([*result_columns(), *BOUNDS, *metrics, HOST, "error"])
    first = dict.fromkeys(name for row in rows for name in row if name not in last)
    names = [*sorted(first, key=lambda name: "." in name), *last]  # parameters before keys
    columns = {name: _column([row.get(name) for row in rows], name) for name in names}
    return pandas.DataFrame(columns, columns=names)


def write(table: pandas.DataFrame, path: str | Path) -> None:
    """Write a table as .parquet or .csv, whole or not at all. Raises TableError."""
    path = Path(path)
    if path.suffix not in FORMATS:
        raise TableError(f"{path}: a table is written as {' or '.join(FORMATS)}")
    try:
        with replacing(path) as part:
            if path.suffix == ".csv":
                table.to_csv(part, index=False)
            else:
                table.to_parquet(part, index=False)
    except ImportError:
        raise TableError("a .parquet file needs the package pyarrow: pip install 'gpusim[explore]'") from None
    except OSError as error:
        raise TableError(f"{path} cannot be written: {error.strerror or error}") from None


def _column(values: list[Any], name: str) -> Any:
    import pandas

    kinds = {type(value) for value in values if value is not None}
    missing = None in values
    if not kinds:
        dtype = "string" if name in ("error", "bound_by", "limited_by", "why") else "float64"
    elif kinds == {bool}:
        dtype = "boolean" if missing else "bool"
    elif kinds == {int}:
        dtype = "Int64" if missing else "int64"
    elif kinds <= {int, float}:
        dtype = "float64"
    else:
        values = [None if value is None else value if isinstance(value, str) else _text(value) for value in values]
        dtype = "string"
    return pandas.array(values, dtype=dtype)


def _text(value: Any) -> str:
    return ",".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)
