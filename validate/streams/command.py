"""`python -m validate streams`: how a GPU shares itself between streams, copies and managed memory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the command, with the helper that all commands are declared with."""
    summary = "record on this machine's GPU how streams, copies and managed memory share it; or simulate the same"
    streams = command(commands, "streams", _run, summary, "compare --quick")
    what = "record on this machine's GPU; compare what is kept, or what is kept of managed memory, with a simulation"
    streams.add_argument("what", choices=("measure", "compare", "managed"), help=what)
    streams.add_argument("path", type=Path, nargs="?", metavar="FILE", help="measure: the recording to write")
    streams.add_argument("--mb", type=int, default=64, help="managed: largest array in MiB (default: %(default)s)")
    streams.add_argument("--only", nargs="*", default=[], metavar="NAME", help="experiments (default: all)")
    streams.add_argument("--seconds", type=float, default=280, help="for all measuring (default: %(default)s)")
    streams.add_argument("--quick", action="store_true", help="compare some cases, for a minute or two")


def _run(options: argparse.Namespace) -> int:
    if options.what == "managed":
        return _managed(options)
    from validate.streams import compare, measure

    names = measure.EXPERIMENTS if options.what == "measure" else compare.EXPERIMENTS
    unknown = [name for name in options.only if name not in names]
    if unknown:
        print(f"validate: error: no experiment named {unknown[0]}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    if options.what == "measure":
        if options.path is None:
            print("validate: error: measure needs a file to write to", file=sys.stderr)
            return 2
        return measure.main(options.path, options.only, options.seconds)
    rows = []
    print(compare.HEAD)
    for row in compare.compare(options.only or compare.EXPERIMENTS, options.quick):
        print(compare.line(row), flush=True)
        rows.append(row)
    print(f"\n{compare.summary(rows)}")
    return 0


def _managed(options: argparse.Namespace) -> int:
    from validate.streams.managed_replay import NOT_REPLAYED, recorded, replay, table
    from validate.streams.simulated import SimulatedLab

    names = {case.rsplit(", ", 1)[0] for case in recorded()} - set(NOT_REPLAYED)
    if unknown := [name for name in options.only if name not in names]:
        print(f"validate: error: no case named {unknown[0]}; there are {'; '.join(sorted(names))}", file=sys.stderr)
        return 2
    print(table(replay(SimulatedLab(), options.mb << 20, options.only)))
    return 0
