"""The stored form of a recording: launches, their counters, and the digest of the code that was counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.errors import SimulationError
from gpusim.results.profile import ProfiledLaunch, parse_profile
from isa.demangle import short_name
from validate.baseline import plain
from validate.collection import saving
from validate.gpu import read_json
from validate.metrics import CYCLES, DIFFERENCES, with_differences

FILE = Path(__file__).with_name("h200.json")
RAW = Path(__file__).with_name("recorded_h200.json.gz")
"""All counters that an H200 gave for every program of the list, before any are left out."""
SHORTEST_NS, LONGEST_NS = 5_000, 500_000
MOST_INSTRUCTIONS = 50_000_000
"""Warp instructions: a simulation of more takes minutes."""
MOST_OF_A_PROGRAM = 3
_DURATION = "gpu__time_duration.sum"
_INSTRUCTIONS = "smsp__inst_executed.sum"
_LANES = 32


@dataclass(frozen=True)
class CountedLaunch:
    """A launch that was counted. cycles: of each run of the program."""

    symbol: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    metrics: dict[str, float]
    cycles: tuple[float, ...]


def load(path: Path = FILE) -> dict[str, Any]:
    """The stored recording; each point has 'program', 'symbol', 'grid', 'block', 'shared_bytes', 'code_sha256',
    'cycles' (of each run) and 'counters' (by name)."""
    document: dict[str, Any] = read_json(path)
    for point in document["points"].values():
        found = zip(document["counters"], point["counters"], strict=True)
        point["counters"] = {name: value for name, value in found if value is not None}
    return document


def keep(
    folder: Path, manifest: Mapping[str, Any], recordings: Sequence[Path], seconds: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """Return what is to be kept. manifest: of the folder whose programs were counted. seconds: the most that a
    program may take to run functionally. say: hears what is left out, and why."""
    found: dict[str, Any] = {}
    documents = []
    for path in recordings:
        documents.append(read_json(path))
        found |= documents[-1]["programs"]
    names = [*documents[0]["metrics"], *DIFFERENCES]
    points: dict[str, Any] = {}
    facts: dict[str, None] = {}
    for name, program in manifest["programs"].items():
        try:
            for launch, entry in _points(folder, name, program, found.get(name), seconds, say):
                facts |= dict.fromkeys(sorted(each for each in launch.metrics if each.startswith("launch__")))
                key = f"{name}:{short_name(launch.symbol)}"
                same = sum(each == key or each.startswith(f"{key}/") for each in points)
                points[f"{key}/{same + 1}" if same else key] = entry | {"counters": launch.metrics}
        except (saving.NotSaved, SimulationError) as why:
            say(f"{name}: {why}")
    order = [each for each in dict.fromkeys((*names, *facts)) if any(each in p["counters"] for p in points.values())]
    for point in points.values():
        values = (point["counters"].get(each) for each in order)
        point["counters"] = [None if value is None else plain(value) for value in values]
    how = {key: manifest[key] for key in ("nvcc", "commits") if key in manifest}
    return {"provenance": documents[0]["provenance"] | how, "counters": order, "points": points}


def _points(
    folder: Path, name: str, program: Mapping[str, Any], found: Any, seconds: float, say: Callable[[str], None]
) -> Iterator[tuple[CountedLaunch, dict[str, Any]]]:
    if found is None:
        raise saving.NotSaved("was not reached")
    if any(found[each] != program[each] for each in ("sha256", "arguments")):
        raise saving.NotSaved("another executable was counted, or other arguments")
    chosen = choose(found)
    if not chosen:
        raise saving.NotSaved("no launch of a fitting length")
    path = saving.saved(folder, dict(program), [each.symbol for each in chosen], seconds)
    saved = saving.launches(path)
    for launch in chosen:
        ours, code_sha256 = saved.get(launch.symbol, (None, ""))
        if ours is None or (ours.grid, ours.block) != (launch.grid, launch.block):
            say(f"{name}: {short_name(launch.symbol)}: launched otherwise here")
            continue
        entry = {"program": name, "arguments": program["arguments"], "symbol": launch.symbol, "grid": launch.grid}
        entry |= {"block": launch.block, "shared_bytes": ours.shared_bytes}
        entry |= {"code_sha256": code_sha256, "cycles": [plain(each) for each in launch.cycles]}
        yield launch, entry


def choose(found: Mapping[str, Any]) -> list[CountedLaunch]:
    """The launches of a program that are kept, by what was counted alone: first ones of their kernels, neither too
    short nor too long, that did the same in each run and pass; of those the longest, in the order of time. Raises
    NotSaved."""
    if found["status"] != 0:
        raise saving.NotSaved(f"ended with status {found['status']}")
    runs = [parse_profile(each["csv"]) for each in (found, *found["again"])]
    first = [_by_symbol(run) for run in runs if run]
    if not first:
        raise saving.NotSaved("nothing was counted")
    fitting = []
    for symbol, launch in first[0].items():
        alike = [run[symbol] for run in first if symbol in run]
        counts = {each.metrics.get(_INSTRUCTIONS, 0.0) for each in alike}
        long = SHORTEST_NS <= launch.metrics.get(_DURATION, 0) <= LONGEST_NS
        steady = len(counts) == 1 and len(alike) == len(first) and not contradicts(launch.metrics)
        if long and steady and 0 < max(counts) <= MOST_INSTRUCTIONS:
            cycles, metrics = tuple(each.metrics[CYCLES] for each in alike), with_differences(launch.metrics)
            fitting.append(CountedLaunch(symbol, launch.grid, launch.block, metrics, cycles))
    longest = sorted(fitting, key=lambda each: each.metrics[_DURATION])[-MOST_OF_A_PROGRAM:]
    return [each for each in fitting if each in longest]


def contradicts(counted: Mapping[str, float]) -> bool:
    """Return True if counters cannot be of one execution. A profiler runs a kernel once for each few counters; one
    whose threads poll, or retry until they succeed, does other work each time."""
    warps, threads = counted.get(_INSTRUCTIONS, 0.0), counted.get("smsp__thread_inst_executed.sum", 0.0)
    executed = counted.get("smsp__thread_inst_executed_pred_on.sum", 0.0)
    sectors, requests = (counted.get(f"l1tex__t_{what}_pipe_lsu_mem_global_op_atom.sum", 0.0)
                         for what in ("sectors", "requests"))  # fmt: skip
    return executed > threads or threads > _LANES * warps or sectors > _LANES * requests


def _by_symbol(run: Sequence[ProfiledLaunch]) -> dict[str, ProfiledLaunch]:
    """The first launch of each kernel, in the order of time."""
    found: dict[str, ProfiledLaunch] = {}
    for each in run:
        found.setdefault(saving.plain_symbol(each.kernel), each)
    return found
