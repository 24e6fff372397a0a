"""`gpusim sweep`: many machines and programs, one table."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli.axes import evaluator, fill_lines, read_space
from gpusim.cli.outputs import check_writable, columns, print_json, versioned
from gpusim.cli.parser import EXIT_FAILED_POINTS, EXIT_INTERRUPTED, EXIT_OK, UserError, names_of
from gpusim.units import counted

if TYPE_CHECKING:
    from gpusim.explore import Point

RowOf = Mapping[str, Any]
_OUTPUTS = ("time_us", "cycles", "energy_j", "bound_cycles", "bound_by")
"""Columns of a result that are printed; --out writes the others too, and --metrics prints those of energy."""
_MOST_FAILURES = 5
_MOST_ROWS = 40


def execute(options: argparse.Namespace) -> int:
    from gpusim.explore.evaluate import check_points
    from gpusim.explore.sweep import FORMATS, frame, write

    sweep = read_space(options)
    points = sweep.space.grid()
    metrics = list(dict.fromkeys([*sweep.metrics, *names_of(options.metrics)]))
    for name in ("workers", "timeout"):
        if not ((value := getattr(options, name)) is None or value >= 0):
            raise UserError(f"--{name} must not be below 0, got {value}")
    check_points(points, metrics)
    if options.dry_run:
        print(counted(len(points), "point"))
        return EXIT_OK
    journal = options.journal or (Path(options.out).with_suffix(".journal") if options.out else None)
    if options.resume and journal is None:
        raise UserError("--resume needs --journal, or --out, to which the journal belongs")
    if options.out:
        check_writable(options.out, "--out", *FORMATS)
    started = time.monotonic()
    with evaluator(options, journal=journal, resume=options.resume) as run:
        run.ask_for(metrics, points, "only" if options.bound_only else True, options.verify)
        try:
            rows = run(points)
        except KeyboardInterrupt:
            done, _, wanted = run.count
            kept = f"; {done:,} of {counted(wanted, 'point')} kept in {journal}, --resume goes on"
            print(f"gpusim: interrupted{kept if journal and wanted else ''}", file=sys.stderr)
            return EXIT_INTERRUPTED
    seconds, resumed = time.monotonic() - started, run.known
    if options.out:
        write(frame(rows, metrics), options.out)
    if options.json:
        print_json(versioned({"points": rows, "seconds": seconds, "resumed": resumed}))
    else:
        print("".join(f"{line}\n" for line in fill_lines(rows)), end="")
        print_table(points, rows, metrics, options.all)
        print_summary(points, rows, seconds, resumed)
        if options.out:
            print(f"table: {options.out}")
    return EXIT_FAILED_POINTS if any(row["error"] is not None for row in rows) else EXIT_OK


def print_table(points: Sequence[Point], rows: Sequence[RowOf], metrics: Sequence[str], whole: bool) -> None:
    """The rows with what varies in them and what came out: all of them if they are few, or the `whole` table is asked
    for."""
    groups = [row for rows_of_one in _groups(points, rows).values() for row in rows_of_one]
    chosen = groups if whole else groups[:_MOST_ROWS]
    there = dict.fromkeys(["program", "size", *_choices(points), *_OUTPUTS, *metrics])
    names = [name for name in there if any(row.get(name) is not None for row in rows)]
    lines = [["failed" if name == "time_us" and row["error"] else row.get(name) for name in names] for row in chosen]
    sides = "".join("<" if name in ("program", "gpu", "bound_by") else ">" for name in names)
    print(columns([names, *lines], sides))
    if len(chosen) < len(rows):
        print(f"{len(chosen):,} of {len(rows):,} rows, all with --all; --out FILE writes them")
    print()


def _groups(points: Sequence[Point], rows: Sequence[RowOf]) -> dict[Any, list[RowOf]]:
    """The rows of each program with its parameters."""
    found: dict[Any, list[RowOf]] = defaultdict(list)
    for point, row in zip(points, rows, strict=True):
        found[point.program, point.parameters].append(row)
    return found


def print_summary(points: Sequence[Point], rows: Sequence[RowOf], seconds: float, resumed: int) -> None:
    """Best and worst point of each program that has several, failures, and the rate of this run."""
    # Without a simulation, what the bound says.
    by = "time_us" if any(row["time_us"] is not None for row in rows) else "bound_cycles"
    groups = ([row for row in each if row[by] is not None] for each in _groups(points, rows).values())
    several = [each for each in groups if len(each) > 1]
    if several:
        varied = _choices(points)
        lines = [_line(members, varied, by) for members in several[:_MOST_ROWS]]
        print(columns([("program", "points", "best", "with", "worst", "with"), *lines]))
    wrong = _failures(points, rows)
    for members in wrong[:_MOST_FAILURES]:
        print(f"{len(members):,} failed: {members[0][1]}\n  such as {members[0][0]}")
    known = f", {resumed:,} of them from the journal" if resumed > 0 else ""
    new = len(rows) - resumed
    rate = f"; {seconds:.1f} s, {new / max(seconds, 1e-9):.2g} points/s" if new else ""
    print(f"{counted(len(rows), 'point')}, {sum(map(len, wrong)):,} failed{known}{rate}")


def _choices(points: Sequence[Point]) -> list[str]:
    """Names of what is not the same in all points, but for the program and its size."""
    seen: dict[str, list[Any]] = defaultdict(list)
    for point in points:
        for name, value in (("gpu", point.gpu), *point.parameters, *point.config):
            seen[name].append(value)
    differ = [name for name, values in seen.items() if len(set(values)) > 1 or len(values) < len(points)]
    return [name for name in differ if name != "size"]


def _failures(points: Sequence[Point], rows: Sequence[RowOf]) -> list[list[tuple[Point, str]]]:
    """Points with their errors, alike ones together, the most frequent first. Numbers tell no errors apart."""
    kinds: dict[str, list[tuple[Point, str]]] = defaultdict(list)
    for point, row in zip(points, rows, strict=True):
        if row["error"] is not None:
            kinds[re.sub(r"\d[\d,.]*", "#", row["error"])].append((point, row["error"]))
    return sorted(kinds.values(), key=len, reverse=True)


def _line(members: Sequence[RowOf], varied: Sequence[str], by: str) -> tuple[str, ...]:
    order = sorted(members, key=lambda row: row[by])
    size = order[0].get("size")
    cells = [order[0]["program"] + (f" {size:,}" if size is not None else ""), f"{len(members):,}"]
    if order[0][by] == order[-1][by]:
        return (*cells, _of(order[0], by), "all alike", "", "")
    for row in (order[0], order[-1]):
        there = [(name, row[name]) for name in varied if row.get(name) is not None]
        cells += [_of(row, by), " ".join(v if name == "gpu" else f"{name}={v}" for name, v in there) or "-"]
    return tuple(cells)


def _of(row: RowOf, by: str) -> str:
    return f"{row[by]:,.2f} us" if by == "time_us" else f"{row[by]:,} cycles at least"
