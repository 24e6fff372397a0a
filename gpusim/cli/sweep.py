"""`gpusim sweep`: many machines and programs, one table."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli.axes import AXIS_HELP, add_design_options, add_space_options, read_space
from gpusim.cli.options import add_command, add_json_option, add_workers_options
from gpusim.cli.outputs import columns, print_json, versioned

if TYPE_CHECKING:
    from gpusim.explore import Point
from gpusim.cli.parser import EXIT_FAILED_POINTS, EXIT_INTERRUPTED, EXIT_OK, UserError

RowOf = Mapping[str, Any]
_OUTPUTS = ("time_us", "cycles", "energy_j", "bound_cycles", "bound_by")
"""Columns of a result that are printed; --out writes the others too, and --metrics prints those of energy."""
_MOST_FAILURES = 5
_MOST_ROWS = 40
EXAMPLES = """\
examples:
  gpusim sweep vector_add matmul/tiled --set sm.count=66,132,264 --out sms.parquet
  gpusim sweep gemv --size 256,512 --set dram.bandwidth_gb_s=1200:9600:2:log --gpu h200,a100
  gpusim sweep waves/one --set sm.count=100:160 --design random --points 20 --seed 1
  gpusim sweep study.toml --out study.parquet --dry-run         how many points there are
  gpusim sweep study.toml --out study.parquet                   rows are kept in study.journal meanwhile
  gpusim sweep study.toml --out study.parquet --resume          goes on after an interrupt or a crash
  gpusim sweep study.toml --bound-only                          the analytical bound alone, milliseconds each
  gpusim sweep study.toml --screen 1.2                          simulate what the bound puts within 20 % of the best

"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands, "sweep", "run programs on many machines, into one table: docs/exploring.md", EXAMPLES + AXIS_HELP
    )
    add_space_options(parser)
    add_design_options(parser)
    add_workers_options(parser)
    parser.add_argument("--out", metavar="FILE", help="write the table as .parquet or .csv")
    parser.add_argument(
        "--journal", metavar="FILE", help="keep each row as it is finished (default: --out with the ending .journal)"
    )
    parser.add_argument("--resume", action="store_true", help="go on with a journal that exists")
    parser.add_argument("--metrics", default="", metavar="NAMES", help="metrics that become columns: a,b,c")
    parser.add_argument("--bound-only", action="store_true", help="the analytical bound, no simulation")
    parser.add_argument(
        "--screen",
        type=float,
        metavar="FACTOR",
        help="simulate only points whose bound is within this factor of the program's best, such as 1.2",
    )
    parser.add_argument(
        "--verify", action="store_true", help="compare outputs of bundled programs with their NumPy reference"
    )
    parser.add_argument("--all", action="store_true", help="print every row (default: the first 40; --out writes all)")
    parser.add_argument("--dry-run", action="store_true", help="check everything and print the number of points")
    add_json_option(parser)
    parser.set_defaults(command=execute)


def execute(options: argparse.Namespace) -> int:
    from gpusim.explore import table
    from gpusim.explore.evaluate import check_points

    sweep = read_space(options)
    design, number = options.design or sweep.design, options.points or sweep.points
    points = sweep.space.points(
        design, number if design in ("random", "lhs") else options.points,
        sweep.seed if options.seed is None else options.seed,
    )  # fmt: skip
    named = [name.strip() for name in options.metrics.split(",") if name.strip()]
    metrics = list(dict.fromkeys([*sweep.metrics, *named]))
    _check_options(options)
    if options.dry_run:
        check_points(points, metrics)
        print(f"{len(points):,} points")
        return EXIT_OK
    journal = options.journal or (Path(options.out).with_suffix(".journal") if options.out else None)
    if options.resume and journal is None:
        raise UserError("--resume needs --journal, or --out, to which the journal belongs")
    if options.out:
        table.check_writable(options.out)
    seen: list[tuple[int, int, int]] = []
    started = time.monotonic()
    try:
        rows = _collect(points, metrics, options, journal, seen)
    except KeyboardInterrupt:
        kept = f"; {seen[-1][0]:,} of {seen[-1][2]:,} points are in {journal}, --resume goes on"
        print(f"gpusim: interrupted{kept if journal and seen else ''}", file=sys.stderr)
        return EXIT_INTERRUPTED
    seconds = time.monotonic() - started
    if options.out:
        table.write(table.frame(rows, metrics), options.out)
    if options.json:
        print_json(versioned({"points": rows, "seconds": seconds, "resumed": seen[0][0]}))
    else:
        print_table(points, rows, metrics, options.all)
        print_summary(points, rows, seconds, seen[0][0])
        if options.out:
            print(f"table: {options.out}")
    return EXIT_FAILED_POINTS if any(row["error"] is not None for row in rows) else EXIT_OK


def _check_options(options: argparse.Namespace) -> None:
    for name, least in (("workers", 0), ("points", 1), ("timeout", 0), ("screen", 1)):
        value = getattr(options, name)
        if value is not None and not value >= least:
            raise UserError(f"--{name} must not be below {least}, got {value}")
    if options.bound_only and options.screen is not None:
        raise UserError("--bound-only and --screen exclude each other")


def _collect(
    points: list[Any],
    metrics: list[str],
    options: argparse.Namespace,
    journal: Path | str | None,
    seen: list[tuple[int, int, int]],
) -> list[dict[str, Any]]:
    """The rows. seen: points finished, failed and wanted, at the start and last, also after an interrupt."""
    from gpusim.cli.progress import say_compiling, show_points
    from gpusim.explore.sweep import collect
    from gpusim.explore.workers import dask_executor

    with show_points(options.progress) as show, dask_executor(options.dask) as executor:

        def progress(done: int, failed: int, total: int) -> None:
            seen[1:] = [(done, failed, total)]
            if show is not None:
                show(done, failed, total)

        return collect(
            points,
            metrics=metrics,
            bound="only" if options.bound_only else True,
            verify=options.verify,
            workers=options.workers,
            journal=journal,
            resume=options.resume,
            timeout_s=options.timeout,
            screen=options.screen,
            progress=progress,
            announce=say_compiling,
            executor=executor,
        )


def print_table(points: Sequence[Point], rows: Sequence[RowOf], metrics: Sequence[str], whole: bool) -> None:
    """The rows with what varies in them and what came out: all of them if they are few, or the `whole` table is asked
    for. rows: of each point, once."""
    unique = {point.key: point for point in points}
    order = list(dict.fromkeys((point.program, point.parameters) for point in unique.values()))
    rows = sorted(rows, key=lambda row: order.index((unique[row["key"]].program, unique[row["key"]].parameters)))
    chosen = rows if whole else rows[:_MOST_ROWS]
    varied = _choices(list(unique.values()))
    sizes = any(row.get("size") is not None for row in rows)
    names = ["program", *(["size"] if sizes else []), *varied, *_OUTPUTS, *metrics]
    names = [name for name in dict.fromkeys(names) if any(row.get(name) is not None for row in rows)]
    outputs = {*_OUTPUTS, *metrics} - {"bound_by"}
    lines = [["failed" if name == "time_us" and row["error"] else _cell(row.get(name), name in outputs)
              for name in names] for row in chosen]  # fmt: skip
    sides = "".join("<" if name in ("program", "gpu", "bound_by") else ">" for name in names)
    print(columns([names, *lines], sides))
    if len(chosen) < len(rows):
        print(f"{len(chosen):,} of {len(rows):,} rows, all with --all; --out FILE writes them")
    print()


def _cell(value: Any, is_output: bool) -> str:
    if value is None:
        return "-"
    if is_output and not isinstance(value, str):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if abs(value) >= 0.1 else f"{value:.3g}"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def print_summary(points: Sequence[Point], rows: Sequence[RowOf], seconds: float, resumed: int) -> None:
    """Best and worst point of each program that has several, failures, and the rate of this run. rows: as above."""
    unique = {point.key: point for point in points}
    # Without a simulation, what the bound says.
    by = "time_us" if any(row["time_us"] is not None for row in rows) else "bound_cycles"
    kinds: dict[Any, list[RowOf]] = {}
    for point, row in zip(unique.values(), rows, strict=True):
        if row[by] is not None:
            kinds.setdefault((point.program, point.parameters), []).append(row)
    several = [members for members in kinds.values() if len(members) > 1]
    if several:
        varied = _choices(list(unique.values()))
        lines = [_line(members, varied, by) for members in several[:_MOST_ROWS]]
        print(columns([("program", "points", "best", "with", "worst", "with"), *lines]))
    if len(several) > _MOST_ROWS:
        print(f"and {len(several) - _MOST_ROWS:,} more")
    wrong = _failures(rows)
    for error, members in list(wrong.items())[:_MOST_FAILURES]:
        print(f"{len(members):,} failed: {error}\n  such as {unique[members[0]['key']]}")
    if len(wrong) > _MOST_FAILURES:
        print(f"and {len(wrong) - _MOST_FAILURES:,} more errors, in the table's column error")
    text = f"{len(rows):,} points, {sum(map(len, wrong.values())):,} failed"
    if resumed > 0:
        text += f", {resumed:,} of them from the journal"
    new = len(rows) - resumed
    if new:
        minutes, rest = divmod(round(seconds), 60)
        text += f"; {seconds:.1f} s" if seconds < 100 else f"; {minutes} min {rest} s"
        text += f", {new / max(seconds, 1e-9):.1f} points/s"
        # Which of the rows are new is not told apart: with a journal, the mean of all counts.
        instructions = sum(row["warp_instructions"] or 0 for row in rows) * new / len(rows)
        if instructions:
            text += f", {instructions / max(seconds, 1e-9) / 1e6:.2f} Minstructions/s"
    print(text)


def _choices(points: Sequence[Point]) -> list[str]:
    """Names of what is not the same in all points, but for the program and its size."""
    from gpusim.explore.evaluate import BOUNDS, result_columns

    fixed = {"key", "program", "size", "seconds", "error", *result_columns(), *BOUNDS}
    seen: dict[str, list[Any]] = {}
    for point in points:
        for name, value in point.columns().items():
            if name not in fixed:
                seen.setdefault(name, []).append(value)
    return [name for name, values in seen.items() if len(set(values)) > 1 or len(values) < len(points)]


def _failures(rows: Sequence[RowOf]) -> dict[str, list[RowOf]]:
    """Rows with an error, by the text of the first such one, the most frequent first. Numbers tell no errors apart."""
    kinds: dict[str, list[RowOf]] = {}
    for row in rows:
        if row["error"] is not None:
            kinds.setdefault(re.sub(r"\d[\d,.]*", "#", row["error"]), []).append(row)
    return {members[0]["error"]: members for members in sorted(kinds.values(), key=len, reverse=True)}


def _line(members: Sequence[RowOf], varied: Sequence[str], by: str) -> tuple[str, ...]:
    order = sorted(members, key=lambda row: row[by])
    size = order[0].get("size")
    cells = [order[0]["program"] + (f" {size:,}" if size is not None else ""), f"{len(members):,}"]
    if order[0][by] == order[-1][by]:
        return (*cells, _of(order[0], by), "all alike", "", "")
    for row in (order[0], order[-1]):
        cells.append(_of(row, by))
        names = [name for name in varied if row.get(name) is not None]
        cells.append(" ".join(row[name] if name == "gpu" else f"{name}={row[name]}" for name in names) or "-")
    return tuple(cells)


def _of(row: RowOf, by: str) -> str:
    return f"{row[by]:,.2f} us" if by == "time_us" else f"{row[by]:,} cycles at least"
