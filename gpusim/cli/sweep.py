"""`gpusim sweep`: many machines and programs, one table."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from gpusim.cli.axes import AXIS_HELP, add_design_options, add_space_options, read_space
from gpusim.cli.exits import EXIT_FAILED_POINTS, EXIT_INTERRUPTED, EXIT_OK, UserError
from gpusim.cli.options import add_command, add_json_option, add_workers_options
from gpusim.cli.outputs import print_json, versioned

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
        "--journal",
        metavar="FILE",
        help="keep each row as it is finished (default: --out with the ending .journal)",
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
        from gpusim.cli.sweep_report import print_summary, print_table

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
