"""`gpusim compare`: several machines for a program or a workload, side by side: time, energy, power, area, limits."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from gpusim.cli.axes import evaluator, fill_lines
from gpusim.cli.cost import RETICLE_MM2
from gpusim.cli.outputs import check_writable, columns, print_json, versioned
from gpusim.cli.parser import EXIT_FAILED_POINTS, EXIT_OK, UserError
from gpusim.cli.sensitivity import point_of
from gpusim.config import GPUConfig, load_config
from gpusim.units import counted, joule_text
from isa.errors import SimulationError
from isa.folders import replacing

Row = dict[str, Any]
_NAMES = ("time_us", "low_us", "high_us", "energy_j", "power_w", "limited_by", "why", "error")


def execute(options: argparse.Namespace) -> int:
    from gpusim.config.check import check
    from gpusim.explore.cost import cost
    from gpusim.explore.technology import ERRORS
    from gpusim.report_html import render_document
    from gpusim.results.interval import distance

    if (options.program is None) == (options.workload is None):
        raise UserError("compare takes either --program or --workload")
    if options.report:
        check_writable(options.report, "--report", ".html")
    machines = machines_of(options.machines)
    configs = [load_config(*each) for each in machines]
    saved = options.workload and not any(each.endswith(".toml") for each in options.workload)
    filled, launches = _replay(options.workload, configs) if saved else _simulate(machines, options)
    found, warnings = list[Row](), list[str]()
    for (gpu, changes), short, config, rows in zip(machines, _short(machines), configs, launches, strict=True):
        priced = cost(config)
        what = {"machine": " ".join([gpu, *changes]), "short": short, "gpu": config.gpu.name}
        what |= {"area_mm2": priced.area_mm2, "over_mask": priced.area_mm2 > RETICLE_MM2 * config.gpu.dies}
        what |= {"distance": distance(config), "tcgen05": priced.structure.tensor_bytes > 0}
        found.append(what | _sum(rows) | {"launches": rows})
        warnings += [f"{short}: warning: {each}" for each in check(gpu, changes).warnings]
    verdict, notes = _verdict(found), [*_unmeasured(found), *warnings]
    wide = [f"* a die of more than the {RETICLE_MM2} mm^2 that a mask has room for, so it takes more dies"]
    priced_by = wide * any(row["over_mask"] for row in found) + [f"errors: {ERRORS}"]
    if options.report:
        what = found[0]["launches"][0]["program"] if options.program else ", ".join(options.workload)
        title = f"{counted(len(found), 'machine')} for {what}"
        page = {"title": title, "what": what, "machines": found, "verdict": verdict}
        with replacing(options.report) as part:
            part.write_text(render_document(page | {"notes": filled + notes, "priced": priced_by}, "machines"), "utf-8")
    if options.json:
        print_json(versioned({"machines": found}))
    else:
        print("\n".join([*filled, *_table(found), *verdict, *notes, *priced_by]))
    return EXIT_FAILED_POINTS if any(row["error"] for row in found) else EXIT_OK


def machines_of(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Names of GPUs, each with the changes that follow it. Raises UserError."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if "=" in (word[0], word[-1]):
            raise UserError("a change is one word without spaces, such as sm.count=264")
        if "=" not in word:
            found.append((word, []))
        elif found and any(each.partition("=")[0] == word.partition("=")[0] for each in found[-1][1]):
            raise UserError(f"{word} changes once more what was changed: name the GPU again, {found[-1][0]} {word}")
        elif found:
            found[-1][1].append(word)
        else:
            raise UserError(f"{word} changes a GPU, whose name stands before it: h200 {word}")
    return found


def _short(machines: Sequence[tuple[str, list[str]]]) -> list[str]:
    """A name of each for columns and sentences; those that begin alike are numbered."""
    names = [textwrap.shorten(" ".join([gpu, *changes]), 36, placeholder=" ...") for gpu, changes in machines]
    alike = {name for name in names if name.endswith(" ...") and names.count(name) > 1}
    return [f"{name} ({names[: k + 1].count(name)})" if name in alike else name for k, name in enumerate(names)]


def _simulate(machines: list[tuple[str, list[str]]], options: argparse.Namespace) -> tuple[list[str], list[list[Row]]]:
    """Simulate a program, or those of a sweep's file, on each machine. Returns how much of it they fill, and rows."""
    from gpusim.explore import Point
    from gpusim.explore.evaluate import check_points
    from gpusim.explore.space import read_sweep

    if len(options.workload or ()) > 1:
        raise UserError("--workload takes one FILE.toml; several are for saved runs")
    space = read_sweep(options.workload[0]).space if options.workload else None
    if space and (others := [axis.name for axis in space.axes if axis.name != "gpu"]):
        raise UserError(f"{options.workload[0]} varies {', '.join(others)}; the machines are those of the command line")
    bare = [point_of(options, *machine) for machine in machines]
    programs = space.programs if space else [(options.program, bare[0].parameters)]
    points = [Point(name, own.gpu, own.config, given) for own in bare for name, given in programs]
    check_points(points)
    weights = [dict(point.parameters).get("weight", 1) for point in points]
    if wrong := [each for each in weights if not isinstance(each, int | float) or each <= 0]:
        raise UserError(f"a weight says how often a launch runs, a number above 0, not {wrong[0]!r}")
    with evaluator(options) as run:
        run.ask_for((), points)
        rows = run(points)
    made = [_launch(row["program"], row.get("size"), weight, row) for row, weight in zip(rows, weights, strict=True)]
    return fill_lines(rows), [made[k : k + len(programs)] for k in range(0, len(made), len(programs))]


def _replay(paths: Sequence[str], configs: Sequence[GPUConfig]) -> tuple[list[str], list[list[Row]]]:
    """Run saved launches on each machine: those of the file that was saved on a GPU of its architecture, if there is
    one, else of the first. Returns which of them were made for another architecture, and rows, one a kernel."""
    from gpusim.driver.outputs.outputs import Telling
    from gpusim.driver.outputs.replay import Replay
    from gpusim.driver.outputs.saved import SavedLaunches

    lines, rows = list[str](), list[list[Row]]()
    with ExitStack() as stack:
        runs = [(each := stack.enter_context(SavedLaunches(path)), each.config().gpu) for path in paths]
        for config in configs:
            gpu = config.gpu
            saved, own = max(runs, key=lambda run: (run[1].arch == gpu.arch, run[1].name == gpu.name))
            try:
                with Replay(saved, config, Telling()) as replay:
                    groups = replay.run().groups.values()
            except SimulationError as error:
                rows.append([{"program": str(saved.path), "error": str(error)}])
                continue
            made = []
            for each in groups:
                sums = {"cycles": each.cycles, "cycles_low": each.low_cycles, "cycles_high": each.high_cycles}
                sums |= {"time_us": config.time_us(each.cycles), "energy_j": each.energy_j}
                means: Row = {name: value / max(each.calls, 1) for name, value in sums.items()}
                means |= {"error": f"{counted(each.failed, 'launch')} failed" if each.failed else None}
                means |= {"limited_by": each.limiter, "why": each.limiter}
                made.append(_launch(each.kernel, None, each.calls, means))
            rows.append(made)
            if gpu.arch != own.arch:
                lines.append(f"{gpu.name} runs {saved.path}, whose kernels and grids were chosen for {own.name}")
    return list(dict.fromkeys(lines)), rows


def _launch(name: str, size: int | None, weight: float, row: Row) -> Row:
    """What a machine's row, the page and --json have of a launch. weight: how often it runs."""
    made: Row = {"program": name if size is None else f"{name} {size:,}", "weight": weight, "error": row["error"]}
    us = 0.0 if row["error"] else row["time_us"] / row["cycles"]
    spans = {f"{end}_us": row[f"cycles_{end}"] * us for end in ("low", "high")} if us else {}
    return made | {name: row.get(name) for name in ("time_us", "energy_j", "limited_by", "why")} | spans


def _sum(rows: Sequence[Row]) -> Row:
    """The launches of one machine as one row, limited by what limits the one that takes longest."""
    if wrong := [f"{row['program']}: {row['error']}" for row in rows if row["error"]]:
        return dict.fromkeys(_NAMES) | {"error": wrong[0]}

    def total(name: str) -> float:
        return sum(row["weight"] * row[name] for row in rows)

    time, energy = total("time_us"), total("energy_j")
    longest = max(rows, key=lambda row: row["weight"] * row["time_us"])
    share = 100 * longest["weight"] * longest["time_us"] / time
    why = (f"{longest['program']}, {share:.0f} % of the time: " if len(rows) > 1 else "") + longest["why"]
    values = (time, total("low_us"), total("high_us"), energy, 1e6 * energy / time, longest["limited_by"], why, None)
    return dict(zip(_NAMES, values, strict=True))


def _verdict(found: Sequence[Row]) -> list[str]:
    """Sentences that say which machines are told apart from the first one."""
    first, name, apart = found[0], found[0]["short"], dict[str, list[str]]()
    for row in [] if first["error"] else [row for row in found[1:] if not row["error"]]:
        what = f"Not told apart from {name}, since the intervals overlap"
        if row["high_us"] < first["low_us"] or row["low_us"] > first["high_us"]:
            how = "Faster" if row["time_us"] < first["time_us"] else "Slower"
            what = f"{how} than {name}, beyond both intervals"
        apart.setdefault(what, []).append(row["short"])
    return [f"{what}: {', '.join(machines)}" for what, machines in apart.items()]


def _unmeasured(found: Sequence[Row]) -> list[str]:
    """Sentences on machines whose times no measurement has tested, and on those that lack what matters most."""
    far = [f"{row['short']} ({row['distance']:.2f})" for row in found if row["distance"] and not row["error"]]
    steps = "in brackets: steps from a measured GPU, 1 for one part twice or half as large; they widen the interval"
    lines = [f"No measurement has tested the times of {', '.join(far)}; {steps}"] if far else []
    if new := [row["short"] for row in found if row["tcgen05"] and not row["error"]]:
        lines.append(f"Simulated without tensor memory (tcgen05), so that libraries multiply slower: {', '.join(new)}")
    return lines


def _table(found: Sequence[Row]) -> list[str]:
    rows: list[Sequence[str]] = [("", "time, us", "9 of 10 lie in", "ratio", "energy", "W", "mm^2", "limited by")]
    for row in found:
        cells = ["failed", *"----"]
        if row["error"] is None:
            ratio = f"{row['time_us'] / found[0]['time_us']:.2f}" if found[0]["time_us"] else "-"
            cells = [f"{row['time_us']:,.2f}", f"{row['low_us']:,.2f} to {row['high_us']:,.2f}", ratio,
                     joule_text(row["energy_j"]), f"{row['power_w']:.0f}"]  # fmt: skip
        rows.append((row["short"], *cells, f"{row['area_mm2']:.0f}{' *' * row['over_mask']}", row["limited_by"] or "-"))
    lines = ["", columns(rows, "<>>>>>><"), ""]
    return lines + [f"{row['machine']}: {row['error'] or row['why'].partition(';')[0].rstrip('.')}" for row in found]
