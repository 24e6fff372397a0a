"""`gpusim bound`: the least time that a program can take, on one GPU or several, without simulating it."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from gpusim.cli.outputs import columns, print_json, versioned
from gpusim.units import counted

if TYPE_CHECKING:
    from gpusim.bound import Bound


def execute(options: argparse.Namespace) -> None:
    from gpusim.bound import bound, profile
    from gpusim.cli.progress import announce_compilation
    from gpusim.config import load_config
    from gpusim.workload.request import Request
    from gpusim.workload.target import find_target

    announce_compilation()
    found = []
    for gpu in ",".join(options.gpu or ["h200"]).split(","):
        config = load_config(gpu, options.overrides)
        target = find_target(Request.of(vars(options)), config)
        known = profile(target, config)
        found.append(bound(known, config))
    if options.json:
        head = {"program": target.name, "size": target.size, "seed": target.seed, "kernel": known.kernel}
        print_json(versioned(head | {"bounds": [asdict(each) for each in found]}))
    else:
        if target.variant:
            print(f"{target.name}, size {target.size:,} {target.variant.size_name}, seed {target.seed}")
        x, y, z = target.launch.grid
        blocks, run = counted(known.blocks, "block"), "was run" if known.sampled == 1 else "were run"
        print(f"{known.kernel}: grid ({x}, {y}, {z}), {blocks}, of which {known.sampled:,} {run}")
        print(table(found))


def table(bounds: list[Bound]) -> str:
    """The terms of several bounds as columns, cycles and microseconds, the longest of the first one on top."""
    names = sorted({name for each in bounds for name in each.terms}, key=lambda name: -bounds[0].terms.get(name, 0))
    rows = [
        ("", *(each.gpu for each in bounds)),
        ("Bound", *(_both(each.cycles, each) for each in bounds)),
        ("  by", *(each.by for each in bounds)),
        ("  waves", *(f"{each.waves:.2f}" for each in bounds)),
        ("", *[""] * len(bounds)),
        ("Least time by term", *["cycles, us"] * len(bounds)),
    ]
    for name in names:
        rows.append((f"  {name}", *(_both(each.terms.get(name), each) for each in bounds)))
    return "\n" + columns(rows, "<>")


def _both(cycles: float | None, of: Bound) -> str:
    return "-" if cycles is None else f"{cycles:,.0f}  {cycles * of.time_us / max(of.cycles, 1):7.2f}"
