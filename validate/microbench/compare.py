"""The suite on the simulator: the same cubins, the same launches, one device for each case; measured against simulated,
number by number, with the list of those that are known to differ."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gpusim
from gpusim.config import load_config
from gpusim.launch import Launch
from gpusim.launch.arguments import bind
from gpusim.launch.device_array import DeviceArray
from isa import Program
from validate.compared import HEAD, Compared, line
from validate.microbench import images, results
from validate.microbench.bench import BLANK_BYTES, Bench, Case, evicting, last_array, select
from validate.microbench.results import Number

FOLDER = Path(__file__).parent
"""Folder of `known_gaps_GPU.json`. It maps a benchmark to 'why' and 'numbers': the ratio, simulated to measured when it
was listed, of each number outside its limit."""


def compare(
    benches: Sequence[Bench],
    gpu: str = "h200",
    measured: str = "h200",
    overrides: Sequence[str] = (),
    *,
    slow: bool = True,
) -> Iterator[Compared]:
    """Simulate and compare, case by case, what was measured on that GPU at all. slow: those cases too that take more
    than a second. Raises results.NoResult."""
    document, known = results.load(measured), gaps(measured)
    for bench in benches:
        for case in bench.cases if bench.name in document["benches"] else ():
            if slow or not case.slow:
                yield from rows(bench, case, run(bench, case, gpu, overrides), document, known)


def rows(
    bench: Bench, case: Case, simulated: dict[str, float], document: dict[str, Any], known: dict[str, Any]
) -> Iterator[Compared]:
    """One row for each number of a case, whose point is (case, number). Raises results.NoResult."""
    listed = known.get(bench.name, {"numbers": {}})
    for name, number in results.numbers(document, bench, case.key).items():
        key, value, scale = f"{case.key}: {name}", simulated[name], abs(number.median) or 1.0
        yield Compared(
            group=bench.name, case=key, point=(case.key, name), measured=number.median, simulated=value, scale=scale,
            limit=room(bench, number, value) / scale, spread=(number.greatest - number.least) / scale,
            gap=(listed["why"] or "listed") if key in listed["numbers"] else None,
        )  # fmt: skip


def room(bench: Bench, number: Number, simulated: float) -> float:
    """Return how far from the median a simulated number may lie: by the benchmark's tolerance, or among the repeats."""
    most = number.greatest - number.median if simulated > number.median else number.median - number.least
    return max(bench.tolerance * abs(number.median), most) + bench.slack


def gaps(gpu: str = "h200") -> dict[str, Any]:
    """The list of known gaps of a GPU, empty if there is none."""
    file = FOLDER / f"known_gaps_{gpu}.json"
    return json.loads(file.read_text()) if file.exists() else {}  # type: ignore[no-any-return]


def update_gaps(found: Sequence[Compared], gpu: str = "h200") -> int:
    """List exactly those of these numbers that differ, keeping reasons and all numbers not among them; how many."""
    known = gaps(gpu)
    for row in found:
        entry = known.setdefault(row.group, {"why": "", "numbers": {}})
        entry["numbers"].pop(row.case, None)
        if not row.within:
            entry["numbers"][row.case] = round(row.simulated / row.measured, 2) if row.measured else float("nan")
    known = {name: entry for name, entry in sorted(known.items()) if entry["numbers"]}
    (FOLDER / f"known_gaps_{gpu}.json").write_text(json.dumps(known, indent=1) + "\n")
    return sum(len(entry["numbers"]) for entry in known.values())


def summary(found: Sequence[Compared]) -> str:
    """Return how many numbers are within what is allowed."""
    within, wrong = sum(row.within for row in found), sum(bool(row.verdict) for row in found)
    known = sum(row.gap is not None and not row.within for row in found)
    return f"{len(found)} numbers: {within} within tolerance, {known} known gaps, {wrong} unexpected"


def command(options: argparse.Namespace) -> int:
    """`validate microbench compare`: status 1 if a number is off that should not be, or the other way round."""
    measured = options.results or results.gpu_of(options.gpu)
    print(HEAD)
    found = []
    for row in compare(select(options.only), options.gpu, measured, options.set, slow=not options.fast):
        found.append(row)
        if options.full or row.verdict:
            print(line(row), flush=True)
    print(summary(found))
    if options.update_gaps:
        print(f"{update_gaps(found, measured)} known gaps listed")
        return 0
    return 1 if any(row.verdict for row in found) else 0


STARTS = 3
"""Runs of a case."""
_MEMORY_BYTES = 80 << 30
"""More than any case takes; only what is written takes memory of the host."""


def run(
    bench: Bench, case: Case, gpu: str = "h200", overrides: Sequence[str] = (), starts: int = STARTS
) -> dict[str, float]:
    """The numbers of one case as the simulator predicts them: medians of runs that begin at other times of the interval
    in which a bank of DRAM is refreshed, as what was measured are medians of runs that begin at any."""
    interval = load_config(gpu, list(overrides)).dram.refresh_interval_cycles
    found = [_once(bench, case, gpu, overrides, round(k * interval / starts)) for k in range(starts)]
    return {name: float(np.median([each[name] for each in found])) for name in found[0]}


def _once(bench: Bench, case: Case, gpu: str, overrides: Sequence[str], cycle: int) -> dict[str, float]:
    """The numbers of a run that begins at that cycle of the refresh."""
    device, args = gpusim.Device(gpu, overrides=list(overrides) or None, memory_bytes=_MEMORY_BYTES), case.make()
    placed = _place(device, args)
    device.pass_time(device.now_cycles + cycle)
    program = images.program_of(bench)
    # Nothing has run on a new device, which is what 'cold' and 'other' bring about.
    if case.before in ("same", "evicted"):
        _launch(device, program, case, placed)
    if case.before == "evicted":
        for value, array in zip(args, placed, strict=True):
            if isinstance(value, np.ndarray) and value.nbytes < BLANK_BYTES:
                array.copy_to_device(value)
        for other, way in evicting():
            _launch(device, images.program_of(other), way, _place(device, way.make()))
    _launch(device, program, case, placed)
    index = last_array(args)
    return case.reduce((*args[:index], placed[index].copy_to_host(), *args[index + 1 :]))


def _launch(device: gpusim.Device, program: Program, case: Case, placed: Sequence[Any]) -> None:
    # Without the way back that `Device.launch` keeps in case of an error: some arrays are huge.
    bound = bind(program, placed, device.memory)
    launch = Launch(program, case.grid, case.block, tuple(placed), case.shared_bytes)
    device.submit(device.modules.link(program), launch, bound.parameter_bytes).wait()
    bound.release()


def _place(device: gpusim.Device, args: Sequence[Any]) -> list[Any]:
    return [_device_array(device, value) if isinstance(value, np.ndarray) else value for value in args]


def _device_array(device: gpusim.Device, value: np.ndarray) -> DeviceArray:
    blank = value.nbytes >= BLANK_BYTES
    return device.device_array(value.shape, value.dtype) if blank else device.to_device(value)
