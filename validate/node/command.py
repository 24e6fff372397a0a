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
    node.add_argument("what", choices=("copies", "collectives", "training"), help="what was recorded")
    node.add_argument("--recording", type=Path, nargs="*", metavar="FILE", help="instead of those that are kept")
    node.add_argument("--node", default="hgx_h200", help="node to simulate (default: %(default)s)")
    node.add_argument("--all", action="store_true", help="also every point")
    node.add_argument("--json", action="store_true", help="every point as JSON instead")


def _run(options: argparse.Namespace) -> int:
    from gpusim.errors import SimulationError
    from validate.node import collectives, copies, training

    module: Any = {"copies": copies, "collectives": collectives, "training": training}[options.what]
    try:
        rows = module.compare(options.recording, options.node)
        wrong, lines = module.outside(rows, options.node)
    except (SimulationError, OSError, ValueError, KeyError) as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([asdict(row) | row.judgement for row in rows], indent=1))
    else:
        if options.all:
            print(f"{module.table(rows)}\n")
        print("\n".join([module.summary(rows), *lines]))
    return 1 if wrong else 0
