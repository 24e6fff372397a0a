"""`python -m validate torch`: run the programs of this folder under `gpusim script`, and say what agrees with the
CPU."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXIT_OK, EXIT_WRONG, EXIT_USAGE = 0, 1, 2
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = tuple(sorted({path.stem for path in HERE.glob("*.py")} - {"__init__", "command", "compared"}))
_LINE = re.compile(r"^(\S.*?) +([\d.]+) s  (ok|FAILED.*)$", re.MULTILINE)
_HEAD = "| program | computation | |\n|---|---|---|"


@dataclass(frozen=True)
class Check:
    """A computation of a program, and what came of it: 'ok', or what went wrong."""

    program: str
    name: str
    seconds: float
    verdict: str


def add(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the command."""
    summary = "run PyTorch and Triton programs on the simulated GPU; status 1 if one differs from the CPU"
    torch = command(commands, "torch", run, summary, "--python ~/torch/bin/python --only operators")
    torch.add_argument(
        "--python", default=sys.executable, help="an interpreter with PyTorch (default: this one)"
    )
    torch.add_argument(
        "--only", nargs="*", default=(), choices=PROGRAMS, metavar="NAME", help=", ".join(PROGRAMS)
    )
    torch.add_argument("--gpu", default="h200", help="configuration to simulate (default: %(default)s)")
    torch.add_argument(
        "--mode", choices=("functional", "detailed"), default="functional", help="(default: %(default)s)"
    )
    torch.add_argument(
        "--timeout", type=float, default=3600, metavar="S", help="limit of each (default: %(default)s)"
    )
    torch.add_argument("--docs", action="store_true", help="put the table into docs/pytorch.md")


def run(options: argparse.Namespace) -> int:
    """The status: 0 if all agree, 1 if not, 2 without PyTorch."""
    found = subprocess.run(
        [options.python, "-c", "import torch, triton; print(torch.__version__, triton.__version__)"],
        capture_output=True,
        text=True,
    )
    if found.returncode:
        print(f"validate: error: {options.python} cannot import PyTorch and Triton", file=sys.stderr)
        return EXIT_USAGE
    checks: list[Check] = []
    for program in options.only or PROGRAMS:
        checks += _checks(program, options)
    right = sum(check.verdict == "ok" for check in checks)
    versions = "PyTorch {}, Triton {}".format(*found.stdout.split())
    total = f"{right} of {len(checks)} agree with the CPU: {versions}, {options.gpu}, {options.mode}"
    print(f"\n{total}")
    if options.docs:
        _document(total, checks)
    return EXIT_OK if right == len(checks) else EXIT_WRONG


def _checks(program: str, options: argparse.Namespace) -> list[Check]:
    """Run a program, whose lines appear as they come."""
    path = os.pathsep.join((str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])))
    command = [options.python, "-m", "gpusim.cli", "script", "--no-report", "--gpu", options.gpu]
    command += ["--functional"] if options.mode == "functional" else []
    print(f"\n{program}", flush=True)
    begun, lines = time.perf_counter(), []
    with subprocess.Popen(
        [*command, str(HERE / f"{program}.py")],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    ) as started:
        assert started.stdout is not None
        try:
            for line in started.stdout:
                lines.append(line)
                if _LINE.match(line):
                    print(f"  {line}", end="", flush=True)
                if time.perf_counter() - begun > options.timeout:
                    started.kill()
        except BaseException:
            started.kill()
            raise
    seconds = time.perf_counter() - begun
    checks = [Check(program, name, float(at), said) for name, at, said in _LINE.findall("".join(lines))]
    if started.returncode not in (0, 1) or not checks:
        checks.append(Check(program, "to its end", seconds, f"FAILED with status {started.returncode}"))
        print(f"  {checks[-1].verdict}")
    print(f"  {seconds:.0f} s, imports included")
    return checks


def _document(total: str, checks: list[Check]) -> None:
    """Renew the table between the document's two marks."""
    path = ROOT / "docs" / "pytorch.md"
    before, mark, rest = path.read_text().partition("<!-- table -->\n")
    _, end, after = rest.partition("<!-- end of table -->")
    rows = [f"| {each.program} | {each.name} | {each.verdict[:80]} |" for each in checks]
    path.write_text("\n".join((f"{before}{mark}{total}.\n", _HEAD, *rows, f"{end}{after}")))
