"""`gpusim sensitivity`: which parameter of a machine moves a program's time most."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpusim.cli.axes import evaluator, fill_lines
from gpusim.cli.outputs import cell, check_writable, columns, print_json, save_picture, versioned
from gpusim.units import counted

if TYPE_CHECKING:
    from gpusim.explore import Point
    from gpusim.explore.sensitivity import Sensitivity


def execute(options: argparse.Namespace) -> None:
    from gpusim.explore.evaluate import check_points
    from gpusim.explore.sensitivity import explain, one_at_a_time

    if options.plot:
        check_writable(options.plot, "--plot")
    points = [point_of(options, gpu) for gpu in (options.gpu, options.next) if gpu]
    check_points(points)
    keys = options.keys and ",".join(options.keys).split(",")
    with evaluator(options) as rows:
        found = [one_at_a_time(point, keys, step=options.step, rows=rows) for point in points]
    text = explain(*found)
    if options.plot:
        save_picture("tornado", found[0], options.plot)
    if options.json:
        following = {"next": found[1].to_dict()} if options.next else {}
        print_json(versioned(found[0].to_dict() | {"text": text} | following))
        return
    for each in found:
        print(_table(each, options.most), end="\n\n")
    print(textwrap.fill(text, 100))


def point_of(options: argparse.Namespace, gpu: str | None = None, overrides: Sequence[str] | None = None) -> Point:
    """The point that the options of a program and a GPU describe. overrides: in place of the options' own."""
    from gpusim.config import load_config
    from gpusim.explore import Point
    from gpusim.explore.keys import changes
    from gpusim.explore.point import PARAMETERS

    name = gpu or options.gpu
    config = changes(load_config(name), load_config(name, options.overrides if overrides is None else overrides))
    given = {each: value for each in PARAMETERS if (value := getattr(options, each, None)) is not None}
    return Point(options.program or "", name, config, tuple(given.items()))


def _table(found: Sensitivity, most: int) -> str:
    failed = f", {len(found.errors)} of them failed, first {found.errors[0]}" if found.errors else ""
    head = f"{found.program} on {found.gpu}: {found.time_us:.4g} us, {counted(found.runs, 'run')}{failed}"
    rows: list[tuple[str, ...]] = [("", "tried", "time, us", "elasticity", "better saves")]
    for each in found.effects[:most]:
        pairs = (each.low, each.high), (each.low_us, each.high_us)
        rows.append((each.key, *(" .. ".join(map(cell, pair)) for pair in pairs), f"{each.elasticity:.3f}",
                     f"{100 * each.gain:.1f} %"))  # fmt: skip
    return "\n".join([*fill_lines([vars(found)]), head, columns(rows, "<>")])
