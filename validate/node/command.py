"""`python -m validate node`: what several GPUs measured, beside the simulated node."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any


def add(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the command, with the helper that all commands are declared with."""
    summary = "compare what several GPUs recorded with the simulated node; status 1 if something new is outside"
    node = command(commands, "node", _run, summary, "copies --all")
    node.add_argument("what", choices=("copies", "collectives"), help="what was recorded")
    node.add_argument("--recording", type=Path, nargs="*", metavar="FILE", help="instead of those that are kept")
    node.add_argument("--node", default="hgx_h200", help="node to simulate (default: %(default)s)")
    node.add_argument("--all", action="store_true", help="also every point")
    node.add_argument("--json", action="store_true", help="every point as JSON instead")


def _run(options: argparse.Namespace) -> int:
    return (_collectives if options.what == "collectives" else _copies)(options)


def _collectives(options: argparse.Namespace) -> int:
    from gpusim.errors import SimulationError
    from validate.node import collectives

    try:
        rows = collectives.compare(options.recording, options.node)
        count, wrong = collectives.wrong_choices(options.node)
    except (SimulationError, OSError, ValueError, KeyError) as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([asdict(row) | {"error": row.error} for row in rows], indent=1))
        return 1 if wrong else 0
    for row in rows if options.all else ():
        times = f"{row.recorded_us:>9,.1f} {row.simulated_us:>9,.1f} {row.error:+.1%}"
        print(f"{row.ranks} {row.name:15} {row.nbytes:>13,} {times}")
    print(collectives.table(rows))
    print(f"{count - len(wrong)} of {count} choices of algorithm, protocol and channels as NCCL made them")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


def _copies(options: argparse.Namespace) -> int:
    from gpusim.errors import SimulationError
    from validate.node import copies

    try:
        rows = copies.compare(options.recording, options.node)
    except (SimulationError, OSError, ValueError, KeyError) as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return 2
    outside = [row for row in rows if abs(row.error) > row.limit and not row.calibrated]
    if options.json:
        print(json.dumps([asdict(row) | {"error": row.error, "calibrated": row.calibrated} for row in rows], indent=1))
    else:
        if options.all:
            print(f"{copies.table(rows)}\n")
        print(copies.summary(rows))
        for row in outside:
            known = f"known: {row.gap}" if row.gap else "NOT KNOWN"
            print(f"outside: {row.gpus} GPUs, {row.kind}, {row.nbytes:,} bytes, {row.error:+.1%}; {known}")
    return 1 if any(row.gap is None for row in outside) else 0
