"""`gpusim search`: the best machines of a space, under limits of area, power or anything else."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpusim.cli.axes import evaluator, fill_lines, read_space
from gpusim.cli.outputs import cell, check_writable, columns, print_json, save_picture, versioned
from gpusim.units import counted

if TYPE_CHECKING:
    from gpusim.explore.search import Candidate, Found


def execute(options: argparse.Namespace) -> None:
    from gpusim.explore.search import search
    from gpusim.explore.space import SEARCH_KEYS
    from gpusim.explore.sweep import FORMATS, write

    asked = read_space(options)
    given = {name: value for name in SEARCH_KEYS if (value := getattr(options, name, None)) is not None}
    settings = {**asked.search, **given}
    if options.table:
        check_writable(options.table, "--table", *FORMATS)
    if options.plot:
        check_writable(options.plot, "--plot")
    with evaluator(options, "machines") as rows:
        progress, rows.progress = rows.progress, None  # of machines, not of runs
        found = search(asked.space, rows=rows, screen=not options.no_screen, progress=progress, **settings)
    best = found.best
    if options.table:
        write(found.frame(), options.table)
    if options.json:
        document: dict[str, Any] = {
            "goals": [str(goal) for goal in found.goals], "limits": [str(limit) for limit in found.limits],
            "runs": found.runs, "front": found.rows(front=True), "candidates": found.rows(),
        }  # fmt: skip
        print_json(versioned(document))
    else:
        print("\n".join([*fill_lines(rows.rows.values()), *_text(found, best)]))
    if options.plot:
        save_picture("pareto", found, options.plot)


def _text(found: Found, best: Candidate) -> list[str]:
    """Return the lines that say what was found."""
    count = {
        "not run, over a limit": sum(each.pruned not in (None, "bound") for each in found.candidates),
        "not run, its bound is beaten": sum(each.pruned == "bound" for each in found.candidates),
        "no machine or failed": sum(each.error is not None for each in found.candidates),
    }
    told = "".join(f"; {number} {what}" for what, number in count.items() if number)
    lines = [f"{counted(len(found.candidates), 'machine')}, {counted(found.runs, 'run')}{told}"]
    lines += [f"the first error: {each.error}" for each in found.candidates if each.error][:1]
    front = found.front()
    names = list(dict.fromkeys([*(g.name for g in found.goals), *(x.name for x in found.limits), "area_mm2"]))
    kept, shown = _apart([each.machine for each in found.candidates], list(best.machine))
    rows: list[dict[str, Any]] = [{**each.machine, **each.values} for each in front]
    alike, names = _apart(rows, [*names, *shown])
    lines += [f"in all of them: {kept}"] if kept else []
    what = "the best" if len(found.goals) == 1 else f"the front of {len(front)}"
    lines += ["", f"{what} ({', '.join(str(goal) for goal in found.goals)}){': ' + alike if alike else ''}"]
    lines.append(columns([names, *([row[name] for name in names] for row in rows)], ">"))
    return lines


def _apart(rows: Sequence[Mapping[str, Any]], names: list[str]) -> tuple[str, list[str]]:
    """Return the values that all rows share, as a text, and the names of those in which the rows differ."""
    differ = [name for name in names if len(rows) == 1 or len({str(row.get(name)) for row in rows}) > 1]
    same = [f"{name} = {cell(rows[0][name])}" for name in names if name not in differ and name in rows[0]]
    return ", ".join(same), differ
