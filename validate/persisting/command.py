"""The command line `python -m validate persisting`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the command, with the helper that all commands are declared with."""
    summary = "compare what L2 keeps with an H200; status 1 if something new is outside"
    persisting = command(commands, "persisting", _run, summary, "--families sliding --only 39321600")
    persisting.add_argument("--families", nargs="*", default=("working_set", "sliding", "loads"), metavar="NAME",
                            help="experiments: working_set, sliding, loads (default: all)")  # fmt: skip
    persisting.add_argument("--only", default="", metavar="TEXT", help="launches whose name contains this")
    persisting.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the configuration")
    persisting.add_argument(
        "--import", type=Path, dest="folder", metavar="FOLDER", help="keep a recording of run.sh instead"
    )


def _run(options: argparse.Namespace) -> int:
    from validate.persisting import compare, importer

    if options.folder is not None:
        print(importer.write(options.folder, "h200"))
        return 0
    points = []
    print(compare.HEAD)
    for point in compare.compare(options.families, options.only, options.set):
        points.append(point)
        print(compare.line(point), flush=True)
    if points:
        print(compare.summary(points))
    return 1 if not points or any(point.verdict for point in points) else 0
