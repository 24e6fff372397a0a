"""`python -m validate cupy-suite`: CuPy's own tests on the simulated GPU.

`inside.py` is the plugin of pytest that runs a folder's tests and writes down what came out, `command.py` starts it
folder by folder with a limit on each test, and counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the command."""
    summary = "run CuPy's own tests on the simulated GPU; status 1 if one fails"
    suite = command(commands, "cupy-suite", _run, summary, "--checkout cupy --sample 10 --results cupy.jsonl")
    suite.add_argument("--checkout", type=Path, required=True, metavar="DIR", help="CuPy's sources")
    suite.add_argument("--only", default="", metavar="REGEX", help="files that match, as cupy_tests/math_tests")
    suite.add_argument("--sample", type=int, default=1, metavar="N", help="one test of N, with few types")
    suite.add_argument("--timeout", type=float, default=120, metavar="S", help="limit of each (default: %(default)s)")
    suite.add_argument(
        "--results", type=Path, default=Path("cupy-suite.jsonl"), metavar="FILE",
        help="lines of JSON; what has failed is run again, all else is not (default: %(default)s)",
    )  # fmt: skip
    suite.add_argument("--list", action="store_true", help="name what has failed, and run nothing")
    suite.add_argument("--docs", action="store_true", help="put the table into docs/cupy.md")


def _run(options: argparse.Namespace) -> int:
    from validate.cupy_suite.command import run  # needs more than a machine that records has

    return run(options)
