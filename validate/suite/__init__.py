"""`python -m validate cuda-suite`: other people's CUDA programs under `gpusim exec`, judged by what they say.

`listing.py` reads which programs there are, `trial.py` runs one, `command.py` runs a list and keeps what came out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the command."""
    summary = "run a list of CUDA executables on the simulated GPU; status 1 if one does not pass its own check"
    example = "--suite programs.toml --only reduc --results results.json"
    suite = command(commands, "cuda-suite", _run, summary, example)
    suite.add_argument("--suite", type=Path, required=True, metavar="FILE", help="the list (validate/suite/listing.py)")
    suite.add_argument("--root", type=Path, metavar="DIR", help="where its programs lie (default: the list's folder)")
    suite.add_argument("--only", default="", metavar="REGEX", help="programs whose names match")
    suite.add_argument("--jobs", type=int, default=1, metavar="N", help="programs at a time (default: %(default)s)")
    suite.add_argument("--timeout", type=float, default=300, metavar="S", help="limit of each (default: %(default)s)")
    suite.add_argument("--gpu", default="h200", help="configuration to simulate (default: %(default)s)")
    suite.add_argument("--detailed", action="store_true", help="with time, those that the list calls small enough")
    suite.add_argument(
        "--results", type=Path, metavar="FILE", help="what came out, as JSON: what has passed is not run again"
    )
    suite.add_argument("--again", action="store_true", help="run what has passed too")
    suite.add_argument("--docs", action="store_true", help="put the table of all results into docs/programs.md")


def _run(options: argparse.Namespace) -> int:
    from validate.suite.command import run  # needs more than a machine that records has

    return run(options)
