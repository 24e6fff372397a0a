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
    summary = "compare recorded copies of several GPUs with the simulated node; status 1 if a new one is outside"
    node = command(commands, "node", _run, summary, "copies --all")
    node.add_argument("what", choices=("copies",), help="what was recorded")
    node.add_argument("--recording", type=Path, nargs="*", metavar="FILE", help="instead of those that are kept")
    node.add_argument("--node", default="hgx_h200", help="node to simulate (default: %(default)s)")
    node.add_argument("--all", action="store_true", help="also every point")
    node.add_argument("--json", action="store_true", help="every point as JSON instead")


def _run(options: argparse.Namespace) -> int:
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
