"""`gpusim compare`: several machines for a program or a workload, side by side: time, energy, power, area, limits."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import Any

from gpusim.cli.axes import evaluator, fill_lines
from gpusim.cli.cost import RETICLE_MM2
from gpusim.cli.outputs import columns, print_json, versioned
from gpusim.cli.parser import EXIT_FAILED_POINTS, EXIT_OK, UserError
from gpusim.cli.sensitivity import point_of
from gpusim.config import GPUConfig, load_config
from gpusim.units import counted, joule_text
from isa.errors import IsaError

Row = dict[str, Any]
_NAMES = ("time_us", "low_us", "high_us", "energy_j", "power_w", "limited_by", "why", "error")


def execute(options: argparse.Namespace) -> int:
    from gpusim.explore.cost import cost
    from gpusim.explore.technology import ERRORS

    if (options.program is None) == (options.workload is None):
        raise UserError("compare takes either --program or --workload")
    machines = machines_of(options.machines)
    configs = [load_config(*each) for each in machines]
    saved = options.workload and not options.workload.endswith(".toml")
    lines, launches = _replay(options.workload, configs) if saved else _simulate(machines, options)
    found = [
        {"machine": " ".join([gpu, *changes]), "gpu": config.gpu.name, "area_mm2": cost(config).area_mm2} | _sum(rows)
        for (gpu, changes), config, rows in zip(machines, configs, launches, strict=True)
    ]
    if options.json:
        print_json(versioned({"machines": found}))
    else:
        print("\n".join([*lines, *_table(found), f"mm^2 as gpusim cost has them: {ERRORS}"]))
    return EXIT_FAILED_POINTS if any(row["error"] for row in found) else EXIT_OK


def machines_of(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Names of GPUs, each with the changes that follow it. Raises UserError."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if "=" not in word:
            found.append((word, []))
        elif found:
            found[-1][1].append(word)
        else:
            raise UserError(f"{word} changes a GPU, whose name stands before it: h200 {word}")
    return found


def _simulate(machines: list[tuple[str, list[str]]], options: argparse.Namespace) -> tuple[list[str], list[list[Row]]]:
    """Simulate a program, or those of a sweep's file, on each machine. Returns how much of it they fill, and rows."""
    from gpusim.explore import Point
    from gpusim.explore.evaluate import check_points
    from gpusim.explore.space import read_sweep

    space = read_sweep(options.workload).space if options.workload else None
    if space and (others := [axis.name for axis in space.axes if axis.name != "gpu"]):
        raise UserError(f"{options.workload} varies {', '.join(others)}; the machines are those of the command line")
    bare = [point_of(options, *machine) for machine in machines]
    programs = space.programs if space else [(options.program, bare[0].parameters)]
    points = [Point(name, own.gpu, own.config, given) for own in bare for name, given in programs]
    check_points(points)
    weights = [dict(point.parameters).get("weight", 1) for point in points]
    if wrong := [each for each in weights if not isinstance(each, int | float) or each <= 0]:
        raise UserError(f"a weight says how often a launch runs, a number above 0, not {wrong[0]!r}")
    with evaluator(options) as run:
        run.ask_for((), points)
        rows = [row | {"weight": weight} for row, weight in zip(run(points), weights, strict=True)]
    return fill_lines(rows), [rows[k : k + len(programs)] for k in range(0, len(rows), len(programs))]


def _replay(path: str, configs: Sequence[GPUConfig]) -> tuple[list[str], list[list[Row]]]:
    """Run saved launches on each machine. Returns for which of them they were compiled anew, and rows, one a kernel."""
    from gpusim.driver.outputs.outputs import Telling
    from gpusim.driver.outputs.replay import Replay
    from gpusim.driver.outputs.saved import SavedLaunches

    lines, rows = list[str](), list[list[Row]]()
    with SavedLaunches(path) as saved:
        arch = saved.config().gpu.arch
        for config in configs:
            try:
                with Replay(saved, config, Telling()) as replay:
                    groups = replay.run().groups.values()
            except IsaError as error:
                rows.append([{"program": path, "error": str(error)}])
                continue
            own = []
            for each in groups:
                spans = {"cycles": each.cycles, "cycles_low": each.low_cycles, "cycles_high": each.high_cycles}
                what = {"program": each.kernel, "limited_by": each.limiter, "why": each.limiter, "weight": 1}
                error = f"{counted(each.failed, 'launch')} failed" if each.failed else None
                time = {"time_us": config.time_us(each.cycles), "energy_j": each.energy_j, "error": error}
                own.append(what | spans | time)
            rows.append(own)
            if config.gpu.arch != arch:
                lines.append(f"{config.gpu.name} runs the program's code or PTX for {config.gpu.arch}, not for {arch}")
    return list(dict.fromkeys(lines)), rows


def _sum(rows: Sequence[Row]) -> Row:
    """The launches of one machine as one row, limited by what limits the one that takes longest."""
    if wrong := [f"{row['program']}: {row['error']}" for row in rows if row["error"]]:
        return dict.fromkeys(_NAMES) | {"error": wrong[0]}

    def total(name: str) -> float:
        return sum(row["weight"] * row[name] * row["time_us"] / row["cycles"] for row in rows)

    time, energy = total("cycles"), sum(row["weight"] * row["energy_j"] for row in rows)
    longest = max(rows, key=lambda row: row["weight"] * row["time_us"])
    share = 100 * longest["weight"] * longest["time_us"] / time
    why = (f"{longest['program']}, {share:.0f} % of the time: " if len(rows) > 1 else "") + longest["why"]
    power, limit = 1e6 * energy / time, longest["limited_by"]
    values = (time, total("cycles_low"), total("cycles_high"), energy, power, limit, why, None)
    return dict(zip(_NAMES, values, strict=True))


def _table(found: Sequence[Row]) -> list[str]:
    rows: list[Sequence[str]] = [("", "time, us", "9 of 10 lie in", "ratio", "energy", "W", "mm^2", "limited by")]
    for row in found:
        cells = ["failed", *"----"]
        if row["error"] is None:
            ratio = f"{row['time_us'] / found[0]['time_us']:.2f}" if found[0]["time_us"] else "-"
            cells = [f"{row['time_us']:,.2f}", f"{row['low_us']:,.2f} to {row['high_us']:,.2f}", ratio,
                     joule_text(row["energy_j"]), f"{row['power_w']:.0f}"]  # fmt: skip
        name, area = textwrap.shorten(row["machine"], 36, placeholder=" ..."), row["area_mm2"]
        rows.append((name, *cells, f"{area:.0f}{' *' * (area > RETICLE_MM2)}", row["limited_by"] or "-"))
    lines = ["", columns(rows, "<>>>>>><"), ""]
    lines += [f"{row['machine']}: {row['error'] or row['why'].partition(';')[0].rstrip('.')}" for row in found]
    if any(row["area_mm2"] > RETICLE_MM2 for row in found):
        lines.append(f"* more than the {RETICLE_MM2} mm^2 that a mask has room for, so at least two dies")
    return lines
