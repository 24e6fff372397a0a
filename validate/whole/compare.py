"""Whole programs: the time of a pass from the first kernel to the last, on an H200 and on the simulated one.

Kernels that have one name on both sides, as often, are the same machine code; for others, of NVIDIA's libraries, stand
kernels of gpusim's own. They are compared by their lengths, as profilers know them."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpusim.cli.parser import UserError
from validate.commands import known
from validate.compared import Compared, show
from validate.gpu import provenance, read_json, run

PROGRAMS = Path(__file__).parents[2] / "tests/gpusim/data/whole_programs.py"
RESULTS = Path(__file__).parent / "results" / "h200.json.gz"
ON_A_GPU = ("--warm", "3", "--passes", "9", "--gate-us", "40000")
SIMULATED = (sys.executable, "-m", "gpusim.cli", "exec", "--gpu", "h200", "--no-report")
GROUPS = SPAN, ALL, SAME, OTHER = "first kernel to last", "all kernels", "the same kernels", "others and stand-ins"


def measured(line: Sequence[str | Path]) -> dict[str, Any]:
    """What each program says of itself, by name, and the versions. Raises UserError if it ends with an error."""
    status, printed = run([*map(str, line)], 86_400.0)
    if status != 0:
        raise UserError(f"{' '.join(map(str, line))} needs PyTorch and CuPy, and said:\n{printed[-2000:]}")
    found = [json.loads(text) for text in printed.splitlines() if text.startswith("{")]
    return {each.pop("program", "versions"): each for each in found}


def compared(name: str, real: dict[str, Any], simulated: dict[str, Any]) -> Iterator[Compared]:
    """The time of a pass, and of its kernels those that are the same and those that are not."""
    span, least, most = real["span_us"]
    yield Compared(group=SPAN, case=name, measured=span, simulated=simulated["span_us"][0], spread=most / least - 1)
    sides = real["launches"], simulated["launches"]
    ours, theirs = counts = [Counter(launch[0] for launch in side) for side in sides]
    same = {kernel for kernel in ours if ours[kernel] == theirs[kernel]}
    for group, chosen in ((ALL, {*ours, *theirs}), (SAME, same), (OTHER, {*ours, *theirs} - same)):
        times = [sum(us for kernel, *_, us, _ in side if kernel in chosen) for side in sides]
        launches = [sum(count[kernel] for kernel in chosen) for count in counts]
        if times[0]:
            case = f"{name}, {launches[0]} launches, here {launches[1]}"
            yield Compared(group=group, case=case, measured=times[0], simulated=times[1])


def command(options: argparse.Namespace) -> int:
    """`validate programs`."""
    results = read_json(RESULTS)
    known(options.only, results["programs"], "program")
    line = [options.python, PROGRAMS, *options.only]
    if options.what == "record":
        results["programs"] |= measured([*line, *ON_A_GPU])
        results["about"] = provenance() | results["programs"].pop("versions")
    elif options.what == "compare":
        results["simulated"] |= measured([*SIMULATED, "--mode", options.mode, *line, "--gate-us", "2000"])
        results["simulated_with"] = results["simulated"].pop("versions")
    if options.keep:
        RESULTS.write_bytes(gzip.compress(json.dumps(results).encode(), mtime=0))
    names = [name for name in options.only or results["programs"] if name in results["simulated"]]
    rows = (row for name in names for row in compared(name, results["programs"][name], results["simulated"][name]))
    show(sorted(rows, key=lambda row: GROUPS.index(row.group)))
    return 0
