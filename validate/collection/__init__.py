"""`python -m validate collection`: kernels of public collections, as an H200 counted them in their own programs.

Nothing of those programs is stored: `programs.toml` names them, a checkout has their sources, and `h200.json` what was
counted. Read `listing` (which programs, and which of them judge), `build`, `worker` (runs on a machine with a GPU, with
the standard library alone), `saving` (a program's launches, for the simulator), `recording`, `compare`, then `command`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the command and its parts."""
    summary = "compare kernels of public collections, in their own programs, with what an H200 counted"
    whole = command(commands, "collection", _run("compare"), summary, "compare FOLDER")
    parts = whole.add_subparsers(required=True, metavar="PART")

    summary = "build the listed programs from checkouts of HeCBench and cuda-samples"
    build = command(parts, "build", _run("build"), summary, "--checkout HeCBench cuda-samples --out built")
    build.add_argument(
        "--checkout", type=Path, nargs="+", required=True, metavar="DIR", help="the collections"
    )
    build.add_argument(
        "--out", type=Path, required=True, dest="folder", metavar="FOLDER", help="folder to build into"
    )
    _choose(build)

    summary = (
        "run built programs, simulate their counted launches, compare; status 1 if an exact counter differs"
    )
    compare = command(
        parts, "compare", _run("compare"), summary, "built --split train --resume journal.jsonl"
    )
    compare.add_argument(
        "folder", type=Path, metavar="FOLDER", help="what build has written; launches are kept there"
    )
    compare.add_argument("--gpu", default="h200", help="configuration to simulate (default: %(default)s)")
    compare.add_argument(
        "--resume", type=Path, metavar="FILE", help="journal: go on where an earlier run stopped"
    )
    compare.add_argument("--docs", action="store_true", help="write the scores of all points into docs/accuracy.md")
    compare.add_argument(
        "--json", action="store_true", help="everything as JSON; the table goes to standard error"
    )
    _choose(compare)
    _limit(compare)

    summary = "turn recordings of validate.collection.worker into the stored one"
    keep = command(parts, "keep", _run("keep"), summary, "built recorded.json.gz")
    keep.add_argument("folder", type=Path, metavar="FOLDER", help="the programs that were counted")
    text = "what the worker wrote (default: the stored one of an H200)"
    keep.add_argument("recording", type=Path, nargs="*", metavar="RECORDING", help=text)
    _limit(keep)


def _choose(command: argparse.ArgumentParser) -> None:
    command.add_argument("--only", nargs="*", default=(), metavar="NAME", help="programs (default: all)")
    command.add_argument(
        "--split", choices=("train", "judge", "all"), default="all", help="(default: %(default)s)"
    )
    command.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="programs at a time (default: %(default)s)"
    )


def _limit(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="S",
        help="of each functional run (default: %(default)s)",
    )


def _run(part: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        from validate.collection import command  # needs more than a machine that records has

        called: int = getattr(command, part)(options)
        return called

    return run
