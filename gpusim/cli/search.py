"""`gpusim search`: the best machines of a space, under limits of area, power or anything else."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli import EXIT_OK, UserError
from gpusim.cli.parser import add_command, add_json_option
from gpusim.cli.run import check_writable

if TYPE_CHECKING:
    from gpusim.explore.search import Candidate, Found

EXAMPLES = """\
examples:
  gpusim search space.toml --goal time_us --limit "area_mm2 <= h200" --trials 60
  gpusim search space.toml --goal time_us --goal area_mm2 --sampler nsga2 --plot front.png
  gpusim search space.toml --journal search.jsonl         killed, and started again: nothing runs twice

space.toml is the file of a sweep, and may have a table [search] with the same options; docs/search.md describes it:

  program = ["gemv", "matmul/tiled"]
  gpu = "h200"
  axes.sm.count = [66, 99, 132, 165, 198]
  axes.dram.channels = [96, 192, 288]
  [search]
  goals = ["time_us"]
  limits = ["area_mm2 <= h200"]
  derived.dram.bandwidth_gb_s = "dram.channels"
"""


def add(commands) -> None:
    """Declare the command."""
    summary = "search a space of machines for the best under a budget: docs/search.md"
    parser = add_command(commands, "search", summary, EXAMPLES)
    parser.add_argument("file", metavar="FILE.toml", help="the space, and with [search] what is looked for")
    parser.add_argument(
        "--goal", action="append", metavar="COLUMN",
        help="what is to be small: time_us, cycles, energy_j, area_mm2, power_w or a metric (may be repeated; 'max "
        "COLUMN' for what is to be large; default: time_us)",
    )  # fmt: skip
    parser.add_argument(
        "--limit", action="append", metavar="'COLUMN <= X'",
        help="what must be kept; X is a number, or for area_mm2 and power_w a configuration (may be repeated)",
    )  # fmt: skip
    parser.add_argument("--trials", type=int, metavar="N", help="machines to try (default: 100)")
    parser.add_argument("--sampler", choices=("tpe", "nsga2", "random"), help="who proposes them (default: tpe)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the proposals (default: 0)")
    parser.add_argument("--no-screen", action="store_true", help="also run machines whose analytical bound is beaten")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per core)")
    parser.add_argument("--batch", type=int, metavar="N", help="machines proposed at once (default: 1)")
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds that one run may take")
    parser.add_argument("--journal", type=Path, metavar="FILE", help="keep finished runs here and do not repeat them")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write all machines as .parquet or .csv")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the machines and their front")
    parser.add_argument("--progress", action=argparse.BooleanOptionalAction, help="on standard error (default: on a "
                        "terminal)")  # fmt: skip
    add_json_option(parser)
    parser.set_defaults(command=execute)


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    from gpusim.explore import table
    from gpusim.explore.rows import Rows
    from gpusim.explore.search import search
    from gpusim.explore.search_file import read_search

    asked = read_search(options.file)
    settings = dict(asked.options)
    for name, given in (
        ("goals", options.goal), ("limits", options.limit), ("trials", options.trials), ("sampler", options.sampler),
        ("seed", options.seed), ("batch", options.batch),
    ):  # fmt: skip
        if given is not None:
            settings[name] = given
    if options.table:
        table.check_writable(options.table)
    if options.plot:
        check_writable(str(options.plot))
    wanted = sys.stderr.isatty() if options.progress is None else options.progress
    with Rows(options.workers, options.journal, timeout_s=options.timeout) as rows:
        progress = _Progress() if wanted else None
        found = search(asked.space, rows=rows, screen=not options.no_screen, progress=progress, **settings)
    best = found.best
    if options.table:
        table.write(found.frame(), options.table)
    if options.plot:
        _draw(found, options.plot)
    if options.json:
        document: dict[str, Any] = {
            "goals": [str(goal) for goal in found.goals], "limits": [str(limit) for limit in found.limits],
            "runs": found.runs, "front": found.rows(front=True), "candidates": found.rows(),
        }  # fmt: skip
        print(json.dumps(document, indent=2))
        return EXIT_OK
    print("\n".join(_text(found, best)))
    return EXIT_OK


def _draw(found: Found, path: Path) -> None:
    from gpusim import plot

    try:
        plot.save(plot.pareto(found), path)
    except (plot.MatplotlibMissing, OSError, ValueError) as error:
        raise UserError(f"--plot {path}: {error}") from None


def _text(found: Found, best: Candidate) -> list[str]:
    """What was found, as lines."""
    count = {
        "not run, over a limit": sum(each.pruned not in (None, "bound") for each in found.candidates),
        "not run, its bound is beaten": sum(each.pruned == "bound" for each in found.candidates),
        "no machine or failed": sum(each.error is not None for each in found.candidates),
    }
    told = "".join(f"; {number} {what}" for what, number in count.items() if number)
    distinct = len({tuple(each.machine.items()) for each in found.candidates})
    lines = [f"{len(found.candidates)} machines, {distinct} of them different, {found.runs} runs{told}"]
    errors = [each.error for each in found.candidates if each.error]
    lines += [f"the first error: {errors[0]}"] if errors else []
    front = found.front()
    shown = [name for name in best.machine if len({str(each.machine.get(name)) for each in found.candidates}) > 1]
    columns = list(dict.fromkeys([*(g.name for g in found.goals), *(x.name for x in found.limits), "area_mm2"]))
    rows = [[*(f"{each.values[name]:.4g}" for name in columns), *(_short(each.machine[name]) for name in shown)]
            for each in front]  # fmt: skip
    widths = [max(len(name), *(len(row[k]) for row in rows)) for k, name in enumerate([*columns, *shown])]
    what = "the best" if len(found.goals) == 1 else f"the front of {len(front)}"
    lines += ["", f"{what} ({', '.join(str(goal) for goal in found.goals)}):"]
    for row in ([*columns, *shown], *rows):
        lines.append("  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)))
    return lines


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


class _Progress:
    """A line on standard error after each machine, with the time that is left."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.best: float | None = None

    def __call__(self, done: int, wanted: int, candidate: Candidate | None) -> None:
        if candidate is None:
            return
        left = (time.monotonic() - self.started) / done * (wanted - done)
        state = candidate.error or (f"not run: {candidate.pruned}" if candidate.pruned else None)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in candidate.values.items())
        print(f"{done} of {wanted}, {left:.0f} s left: {state or shown}", file=sys.stderr, flush=True)
