"""`gpusim bound`: the least time that a program can take, on one GPU or several, without simulating it."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from gpusim.cli.options import (
    ARGUMENT_HELP,
    PROGRAM_HELP,
    add_command,
    add_json_option,
    add_launch_options,
    add_set_option,
)
from gpusim.cli.outputs import print_json, versioned
from gpusim.cli.parser import EXIT_OK

if TYPE_CHECKING:
    from gpusim.bound import Bound

EXAMPLES = """\
examples:
  gpusim bound matmul/tiled --size 1024                      what it could reach on an H200, and what stops it there
  gpusim bound reduction/shuffle --gpu h200 --gpu a100       on two GPUs
  gpusim bound vector_add --set sm.count=264 --json
  gpusim bound kernels.py:scale --grid 8 --block 128 --args "float32[1024]=random, float32(2.5)"

No launch takes less than its bound: docs/bound.md says what each term is.

"""
_LABEL = 22
_COLUMN = 22


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands, "bound", "the least time a program can take, in milliseconds: docs/bound.md", EXAMPLES + ARGUMENT_HELP
    )
    parser.add_argument("program", metavar="PROGRAM", help=PROGRAM_HELP)
    add_launch_options(parser)
    parser.add_argument(
        "--gpu",
        action="append",
        metavar="NAME",
        help="shipped configuration or a TOML file; may be repeated (default: h200)",
    )
    add_set_option(parser)
    add_json_option(parser)
    parser.set_defaults(command=execute)


def execute(options: argparse.Namespace) -> int:
    from gpusim.bound import bound, profile
    from gpusim.cli.progress import announce_compilation
    from gpusim.config import load_config
    from gpusim.workload.request import Request
    from gpusim.workload.target import find_target

    announce_compilation()
    found = []
    for gpu in options.gpu or ["h200"]:
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
        print(f"{known.kernel}: grid ({x}, {y}, {z}), {known.blocks:,} blocks, of which {known.sampled:,} were run")
        print(table(found))
    return EXIT_OK


def table(bounds: list[Bound]) -> str:
    """The terms of several bounds as columns, cycles and microseconds, the longest of the first one on top."""
    names = sorted({name for each in bounds for name in each.terms}, key=lambda name: -bounds[0].terms.get(name, 0))
    heads = [each.gpu for each in bounds]
    lines = ["", f"{'':{_LABEL}}" + "".join(f"{head[: _COLUMN - 2]:>{_COLUMN}}" for head in heads)]
    lines.append(f"{'Bound':{_LABEL}}" + "".join(f"{_both(each.cycles, each):>{_COLUMN}}" for each in bounds))
    lines.append(f"{'  by':{_LABEL}}" + "".join(f"{each.by:>{_COLUMN}}" for each in bounds))
    lines.append(f"{'  waves':{_LABEL}}" + "".join(f"{each.waves:>{_COLUMN}.2f}" for each in bounds))
    lines += ["", f"{'Least time by term':{_LABEL}}" + f"{'cycles, us':>{_COLUMN}}" * len(bounds)]
    for name in names:
        cells = (_both(each.terms[name], each) if name in each.terms else "-" for each in bounds)
        lines.append(f"  {name:{_LABEL - 2}}" + "".join(f"{cell:>{_COLUMN}}" for cell in cells))
    return "\n".join(line.rstrip() for line in lines)


def _both(cycles: float, of: Bound) -> str:
    return f"{cycles:,.0f}  {cycles * of.time_us / max(of.cycles, 1):7.2f}"
