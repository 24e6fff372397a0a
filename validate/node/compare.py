"""`python -m validate node`: what several GPUs measured, beside the simulated node."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any


def command(options: argparse.Namespace) -> int:
    """`validate node`: status 1 if something new is outside."""
    from gpusim.errors import SimulationError
    from validate import compared
    from validate.node import collectives, copies, training

    module: Any = {"copies": copies, "collectives": collectives, "training": training}[options.what]
    try:
        rows = module.compare(options.recording, options.node)
        wrong, lines = compared.outside(rows)
        if options.what == "collectives":
            other, more = collectives.choices(options.node)
            wrong, lines = wrong or other, lines + more
    except (SimulationError, OSError, ValueError, KeyError) as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([{**asdict(row), "error": row.error} for row in rows], indent=1))
    else:
        if options.all:
            print("\n".join([compared.HEAD, *map(compared.line, rows), ""]))
        print("\n".join([compared.summary(rows), *lines]))
    return 1 if wrong else 0
