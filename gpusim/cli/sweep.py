"""`gpusim sweep`: many machines and programs, one table."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli import EXIT_FAILED_POINTS, EXIT_INTERRUPTED, EXIT_OK, UserError
from gpusim.cli.parser import add_command, add_json_option

if TYPE_CHECKING:
    from gpusim.explore.point import Point

EXAMPLES = """\
examples:
  gpusim sweep vector_add matmul/tiled --set sm.count=66,132,264 --out sms.parquet
  gpusim sweep gemv --size 256,512 --set dram.bandwidth_gb_s=1200:9600:2:log --gpu h200,a100
  gpusim sweep waves/one --set sm.count=100:160 --design random --points 20 --seed 1
  gpusim sweep study.toml --out study.parquet --dry-run         how many points, and for how long
  gpusim sweep study.toml --out study.parquet                   rows are kept in study.journal meanwhile
  gpusim sweep study.toml --out study.parquet --resume          goes on after an interrupt or a crash
  gpusim sweep study.toml --bound-only                          the analytical bound alone, milliseconds each
  gpusim sweep study.toml --screen 1.2                          simulate what the bound puts within 20 % of the best
  gpusim sweep study.toml --dask tcp://scheduler:8786           on a Dask cluster

"""


def add(commands) -> None:
    """Declare the command."""
    from gpusim.cli.axes import AXIS_HELP, add_design_options, add_space_options

    parser = add_command(
        commands, "sweep", "run programs on many machines, into one table: docs/sweeps.md", EXAMPLES + AXIS_HELP
    )
    add_space_options(parser)
    add_design_options(parser)
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per core)")
    parser.add_argument("--dask", metavar="ADDRESS", help="run on a Dask cluster instead, such as tcp://host:8786")
    parser.add_argument("--out", metavar="FILE", help="write the table as .parquet or .csv")
    parser.add_argument(
        "--journal",
        metavar="FILE",
        help="append each row as it is finished (default: --out with the ending .journal)",
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
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds that one point may take")
    parser.add_argument(
        "--verify", action="store_true", help="compare outputs of bundled programs with their NumPy reference"
    )
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="show progress and time left (default: if standard error is a terminal)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the number of points and an estimate of time")
    add_json_option(parser)
    parser.set_defaults(command=execute)


@dataclass
class _Count:
    """Points at the start and now, for the summary and for an interrupt."""

    before: int = -1
    done: int = 0
    total: int = 0


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    from gpusim.cli.axes import read_space
    from gpusim.explore import table
    from gpusim.explore.check import check_points

    sweep = read_space(options)
    design, number = options.design or sweep.design, options.points or sweep.points
    points = sweep.space.points(
        design, number if design in ("random", "lhs") else options.points,
        sweep.seed if options.seed is None else options.seed,
    )  # fmt: skip
    named = [name.strip() for name in options.metrics.split(",") if name.strip()]
    metrics = list(dict.fromkeys([*sweep.metrics, *named]))
    _check_options(options)
    asked = {"metrics": metrics, "bound": "only" if options.bound_only else True, "verify": options.verify}
    if options.dry_run:
        check_points(points, metrics)
        return _dry_run(points, options, asked)
    journal = options.journal or (Path(options.out).with_suffix(".journal") if options.out else None)
    if options.resume and journal is None:
        raise UserError("--resume needs --journal, or --out, to which the journal belongs")
    if options.out:
        table.check_writable(options.out)
    count, started = _Count(), time.monotonic()
    try:
        rows = _collect(points, options, asked, journal, count)
    except KeyboardInterrupt:
        kept = f"; {count.done:,} of {count.total:,} points are in {journal}, --resume goes on" if journal else ""
        print(f"gpusim: interrupted{kept}", file=sys.stderr)
        return EXIT_INTERRUPTED
    seconds = time.monotonic() - started
    if options.out:
        table.write(table.frame(rows, metrics), options.out)
    if options.json:
        print(json.dumps({"points": rows, "seconds": seconds, "resumed": count.before}))
    else:
        from gpusim.cli.sweep_report import print_summary

        print_summary(points, rows, seconds, count.before)
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
    points: list[Point],
    options: argparse.Namespace,
    asked: dict[str, Any],
    journal: Path | str | None,
    count: _Count,
) -> list[dict[str, Any]]:
    from gpusim.cli.progress import COMPILING, show_points
    from gpusim.explore.pool import collect

    with show_points(options.progress) as show:

        def progress(done: int, failed: int, total: int) -> None:
            if count.before < 0:
                count.before = done
            count.done, count.total = done, total
            if show is not None:
                show(done, failed, total)

        return collect(
            points,
            **asked,
            workers=options.workers,
            dask=options.dask,
            journal=journal,
            resume=options.resume,
            timeout_s=options.timeout,
            screen=options.screen,
            progress=progress,
            announce=lambda: print(COMPILING, file=sys.stderr, flush=True),
        )


def _dry_run(points: list[Point], options: argparse.Namespace, asked: dict[str, Any]) -> int:
    from gpusim.cli.sweep_report import duration
    from gpusim.explore.plan import estimate
    from gpusim.host.options import host_threads

    workers = 1 if options.workers == 0 else host_threads(options.workers)
    plan = estimate(points, workers, asked)
    if options.json:
        print(json.dumps(asdict(plan)))
        return EXIT_OK
    print(f"{plan.points:,} points")
    if plan.invalid:
        of = "" if plan.checked == plan.points else f" of the first {plan.checked:,}"
        print(f"{plan.invalid:,}{of} are of a machine that cannot be, and will be rows with an error")
    if plan.seconds is not None:
        many = "1 point was" if plan.sampled == 1 else f"{plan.sampled:,} points were"
        processes = "1 process" if plan.workers == 1 else f"{plan.workers} processes"
        print(f"about {duration(plan.seconds)} in {processes}: {many} run for this estimate")
    return EXIT_OK
