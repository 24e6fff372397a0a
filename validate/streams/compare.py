"""Grids and copies in several streams: an H200's recorded times beside simulated ones of the same plans, run once.

Streams that one event releases begin in any order on hardware. So they begin here as in the first recorded run, whose
span is compared; `spread` says how far those of all runs lie apart.
"""

from __future__ import annotations

import argparse
import itertools
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from validate.commands import known
from validate.compared import Compared, show
from validate.gpu import read_json
from validate.streams import managed, plans
from validate.streams.lab import Lab, Plan
from validate.streams.plans import CopyBench

RESULTS = Path(__file__).parent / "results" / "h200.json.gz"
SPANS = ("two_kernels_fit", "leftover", "priority", "mixed", "pairs", "fillers")
"""Experiments whose spans are compared, from the first block's start to the last one's end."""
GAPS = "same_stream_gap"
OVERLAP, ALONE = "overlap", "copies_alone"
SMALL, GRAPHS = "small_copies", "graphs"
EXPERIMENTS = (*SPANS, GAPS, SMALL, GRAPHS, OVERLAP, ALONE)
QUICK = {
    "two_kernels_fit": r"of 1024 threads", "mixed": "seed 4", "leftover": "A fills shared, 1 waves",
    GAPS: r"^(stream|event recorded|event across streams|small memset|dependent.*), 132 blocks of 20 us",
    SMALL: r"^(4|1024|2048) bytes", GRAPHS: r", 132 blocks of 20 us",
    OVERLAP: r"^16777216 in (1|16) chunks, (1|4) streams, depth first, kernel 0.3",
    ALONE: r"^\w+ (4|1048576|16777216|268435456)$",
}  # fmt: skip
"""Cases that take a minute together: by experiment, what their names match."""


def compare(only: Sequence[str] = EXPERIMENTS, quick: bool = False) -> Iterator[Compared]:
    """Every case of the experiments, or the quick ones, as it is done. Takes up to half a minute a case."""
    recorded, lab = read_json(RESULTS)["experiments"], Lab()
    for name in only:
        wanted = re.compile(QUICK.get(name, "nothing of it") if quick else "")
        cases = {case: runs for case, runs in recorded[name].items() if wanted.search(case)}
        if cases:
            yield from OTHERS.get(name, _grids_of)(lab, name, cases)


def _grids_of(lab: Lab, name: str, cases: dict[str, Any]) -> Iterator[Compared]:
    """Spans of an experiment's cases, or gaps between kernels in line."""
    make: Callable[[Lab], plans.Plans] = getattr(plans, name)
    found, of = make(lab), _span if name in SPANS else _gap
    for case, runs in cases.items():
        grids = [_grids(run) for run in (runs["runs"] if isinstance(runs, dict) else runs)]
        simulated = _simulated(lab, found[case], sorted(grids[0], key=lambda label: grids[0][label]))
        if "early" in case:
            for what, take in (("starts", _starts), ("let on", _let_on)):
                yield _row(name, f"{case}, {what}", [take(each) for each in grids], take(simulated))
        else:
            yield _row(name, case, [of(each) for each in grids], of(simulated))


def _row(experiment: str, case: str, times: Sequence[float], simulated: float) -> Compared:
    spread = max(times) / min(times) - 1 if min(times) > 0 else 0.0
    return Compared(group=experiment, case=case, measured=times[0] / 1e3, simulated=simulated / 1e3, spread=spread)


Grids = dict[str, tuple[float, ...]]
"""First start and last end of grids by name, in ns; and when the first block of a dependent one was let on."""


def _simulated(lab: Lab, plan: Plan, first: Sequence[str]) -> Grids:
    lab.begin()
    plan()
    grids = lab.finish(first).items()
    return {name: (stamps[:, 1].min(), stamps[:, 2].max(), stamps[:, 4].min()) for name, stamps in grids}


def _grids(run: dict[str, Any]) -> Grids:
    """Of a recorded run."""
    found: Grids = {}
    for name, grid in run.items():
        if isinstance(grid, list) and grid and isinstance(grid[0], list):
            found[name] = min(start for _, start, _ in grid), max(end for *_, end in grid)
        elif isinstance(grid, list) and grid:
            found[name] = grid[0], grid[3], *grid[6:]
        elif isinstance(grid, dict) and "first_start" in grid:
            found[name] = grid["first_start"], grid["last_end"], grid.get("first_let_on", 0)
    return found


def _span(grids: Grids) -> float:
    return max(grid[1] for grid in grids.values()) - min(grid[0] for grid in grids.values())


def _between(grids: Grids, then: int, before: int) -> float:
    """The median over a line of the time from one number of a grid to one of the next grid."""
    line = itertools.pairwise(grids[name] for name in sorted(grids, key=int))
    return statistics.median(last[then] - first[before] for first, last in line)


_gap, _starts, _let_on = (partial(_between, then=a, before=b) for a, b in ((0, 1), (0, 0), (2, 1)))
"""From the end to the start, from start to start, from the end to when the next one is let on."""


def _graphs(lab: Lab, name: str, cases: dict[str, Any]) -> Iterator[Compared]:
    """In line the time between kernels; of a fork from the root to the first branch, and from the last one to the
    join."""
    found = plans.graphs(lab)
    for case in [each for each in cases if each in found]:
        recorded = [_grids(run) for run in cases[case]]
        simulated = _simulated(lab, found[case], ())
        parts = {"gap": _next} if case.startswith("in line") else {"fork": _fork, "join": _join}
        for what, of in parts.items():
            yield _row(name, f"{case}, {what}", [of(each) for each in recorded], of(simulated))


def _next(grids: Grids) -> float:
    line = sorted(grid for name, grid in grids.items() if name not in ("before", "after"))
    return statistics.median(then[0] - before[1] for before, then in itertools.pairwise(line))


def _fork(grids: Grids) -> float:
    return min(grid[0] for name, grid in grids.items() if "." in name) - grids["root"][1]


def _join(grids: Grids) -> float:
    return grids["join"][0] - max(grid[1] for name, grid in grids.items() if "." in name)


def _copies(lab: Lab, name: str, cases: dict[str, Any]) -> Iterator[Compared]:
    """The loop of copies and kernels, or one copy, timed by events."""
    bench = CopyBench(lab)
    shape = re.compile(r"(\d+) in (\d+) chunks, (\d+) streams, (\w+) first, kernel [\d.]+ of a copy")
    for case, found in cases.items():
        if match := shape.match(case):
            nbytes, chunks, streams = (int(match[k]) for k in (1, 2, 3))
            plan = partial(bench.loop, nbytes, found["iterations"], chunks, streams, match[4])
            runs, last = found["runs"], "all"
        elif match := re.fullmatch(r"(\w+) (\d+)", case):
            plan, runs, last = partial(bench.one, match[1], int(match[2])), found, "end"
        else:
            continue
        yield _row(name, case, [1e3 * run["marks_us"][last] for run in runs], 1e3 * bench.timed_us(plan))


OTHERS = {OVERLAP: _copies, GRAPHS: _graphs, ALONE: _copies}


def command(options: argparse.Namespace) -> int:
    """`validate streams`."""
    if options.what == "managed":
        names = {case.rsplit(", ", 1)[0] for case in managed.recorded()} & {*managed.CASES}
        known(options.only, sorted(names), "case")
        show(managed.replay(Lab(), options.mb << 20, options.only))
        return 0
    known(options.only, EXPERIMENTS, "experiment")
    show(compare(options.only or EXPERIMENTS, options.quick))
    return 0
