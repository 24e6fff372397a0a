"""`gpusim plot`: a picture of a sweep's table."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpusim.cli.exits import EXIT_OK, UserError
from gpusim.cli.options import add_command

EXAMPLES = """\
examples:
  gpusim plot heat-map sweep.parquet heat.png --x sm.count --y dram.bandwidth_gb_s
  gpusim plot scaling sweep.parquet scaling.svg --x sm.count --value cycles
  gpusim plot heat-map sweep.csv heat.png --x sm.count --y l2.bytes --where program=vector_add
"""
KINDS = ("heat-map", "scaling")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(commands, "plot", "draw the table of a sweep: docs/figures.md", EXAMPLES)
    parser.add_argument("kind", choices=KINDS, help="heat-map: a value over two axes; scaling: time against one")
    parser.add_argument("table", type=Path, metavar="TABLE", help="a .parquet or .csv file of rows")
    parser.add_argument("picture", type=Path, metavar="PICTURE", help="the file to write: .png, .svg or .pdf")
    parser.add_argument("--x", required=True, metavar="COLUMN", help="axis across")
    parser.add_argument("--y", metavar="COLUMN", help="axis up, of a heat map")
    parser.add_argument("--value", default="time_us", metavar="COLUMN", help="what is drawn (default: time_us)")
    parser.add_argument("--by", default="program", metavar="COLUMN", help="a curve for each (default: program)")
    parser.add_argument(
        "--where", action="append", default=[], metavar="COLUMN=VALUE", help="only such rows (may be repeated)"
    )
    parser.set_defaults(command=execute)


def execute(options: argparse.Namespace) -> int:
    from gpusim import plot

    if options.kind == "heat-map" and options.y is None:
        raise UserError("a heat map needs --y")
    if options.picture.suffix not in (".png", ".svg", ".pdf"):
        raise UserError(f"{options.picture}: a picture ends in .png, .svg or .pdf")
    rows = [row for row in read(options.table) if all(_holds(row, text) for text in options.where)]
    try:
        if options.kind == "heat-map":
            drawn = plot.heat_map(rows, options.x, options.y, options.value)
        else:
            drawn = plot.scaling_curves(rows, options.x, options.value, by=options.by)
        print(plot.save(drawn, options.picture))
    except (ValueError, plot.MatplotlibMissing, OSError) as error:
        raise UserError(str(error)) from None
    return EXIT_OK


def read(path: Path) -> list[dict[str, Any]]:
    """Rows of a table, as `gpusim sweep --out` writes one. Raises UserError if the file is none."""
    try:
        import pandas
    except ImportError:
        raise UserError("a table is read with pandas; pip install 'gpusim[explore]' adds it") from None
    readers: dict[str, Callable[[Path], Any]] = {".parquet": pandas.read_parquet, ".csv": pandas.read_csv}
    if path.suffix not in readers:
        raise UserError(f"{path}: a table ends in {' or '.join(readers)}")
    try:
        table = readers[path.suffix](path).astype(object)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UserError(f"{path} is not a table: {error}") from None
    rows: list[dict[str, Any]] = table.where(table.notna(), None).to_dict("records")
    return rows


def _holds(row: dict[str, Any], text: str) -> bool:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--where is spelled COLUMN=VALUE, not {text!r}")
    found = row.get(name)
    try:
        return str(found) == value or float(value) == found
    except ValueError:
        return False
