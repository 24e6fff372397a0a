"""Rows as a pandas DataFrame and as a file: the same for the same points, in whatever order they were finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.errors import SimulationError
from gpusim.explore.evaluate import BOUNDS
from gpusim.results.quantities import result_columns

if TYPE_CHECKING:
    import pandas

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
    part = path.with_name(path.name + ".part")
    try:
        if path.suffix == ".csv":
            table.to_csv(part, index=False)
        else:
            table.to_parquet(part, index=False)
        part.replace(path)
    except ImportError:
        raise TableError("a .parquet file needs the package pyarrow: pip install 'gpusim[explore]'") from None
    except OSError as error:
        raise TableError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


def _column(values: list[Any], name: str) -> Any:
    import pandas

    kinds = {type(value) for value in values if value is not None}
    missing = None in values
    if not kinds:
        dtype = "string" if name in ("error", "bound_by") else "float64"
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
