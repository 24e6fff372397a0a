"""Microbenchmarks and programs as they were repeated on a GPU, simulated: their events, and the time of a launch."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import gpusim
import isa
from gpusim.engine.state.memory import LINE_BYTES
from gpusim.launch import TensorMap
from gpusim.results.energy import EVENTS, LaunchEnergy
from programs import images
from validate.energy.kernels import CUBIN, EnergyExperiment, experiments, words
from validate.points import ProgramPoint

_GRAPH = 3
"""Launches of a graph: the first one finds cold caches, the last two follow each other as all later ones do."""
_L2_MB = 40
"""Streams of more megabytes go through L2, others stay there."""
_FILLS_L2 = 60 << 20
_ROOM = 256 << 20
"""Bytes that are enough for the rounds of a stream through L2."""


@dataclass(frozen=True)
class RepeatedProgram:
    """A launch of a program among many of its kind. period_us: from the end of one to the end of the next at full
    clock; energy: of one."""

    period_us: float
    energy: LaunchEnergy


def repeated(point: ProgramPoint, gpu: str = "h100", threads: int | None = None) -> RepeatedProgram:
    """A program in a graph, one launch behind the other."""
    launch = point.make()
    program = images.image(point.variant)
    with gpusim.Device(gpu, threads=threads) as device:

        def placed(value: Any) -> Any:
            if isinstance(value, TensorMap):
                return replace(value, array=device.to_device(value.array))
            return device.to_device(value) if isinstance(value, np.ndarray) else value

        arguments = tuple(map(placed, launch.args))
        graph, pending, last = device.graph(), [], None

        def put(stream: Any) -> Any:
            shape = launch.grid, launch.block, arguments, launch.shared_bytes
            pending.append(device.launch(program, *shape, stream=stream))
            return pending[-1]

        for _ in range(_GRAPH):
            last = graph.add(put, [last] if last is not None else [])
        graph.start(device.stream())
        device.synchronize()
        ends = sorted(span.end for span in device.timeline().spans if span.kind == "kernel")
        return RepeatedProgram(ends[-1] - ends[-2], pending[-1].result.energy)


def vector(energy: LaunchEnergy) -> np.ndarray:
    """Events of a launch, and behind them the same by activity: float64 [2 x EVENTS]."""
    return np.concatenate([energy.events.sum(axis=0), (energy.events * energy.activity[:, None]).sum(axis=0)])


def of_round(experiment: EnergyExperiment, gpu: str = "h100", threads: int | None = None) -> np.ndarray:
    """Events of a round of a microbenchmark's loop, as `vector`: what a launch of more rounds has more."""
    if experiment.entry in ("stay", "barrier"):
        return np.zeros(2 * len(EVENTS))
    if experiment.entry == "empty":
        found = np.zeros(2 * len(EVENTS))
        found[EVENTS.index("launch")] = experiment.launches
        found[EVENTS.index("warp")] = experiment.launches * experiment.grid * (experiment.block // 32)
        return found
    rounds = (2, 6)
    streams = experiment.entry.startswith(("read", "write", "red32"))
    stays = streams and experiment.span <= _L2_MB << 20
    if streams:
        once = experiment.grid * experiment.block * 8 * experiment.b
        fills = -(-min(experiment.span, _FILLS_L2) // once) + 1
        rounds = (2, 4) if stays else (1, 2) if experiment.peer else (fills, fills + 2)
    span = 4 << 18
    if streams:
        span = experiment.span if experiment.b > LINE_BYTES else min(experiment.span, _ROOM)
    with gpusim.Device(gpu, threads=threads) as device:
        data = words(experiment.fill, 1 << 16)
        room = np.resize(words("u32" if streams and experiment.fill != "zeros" else "zeros", 1 << 16), span // 4)
        other = gpusim.Device(beside=device) if experiment.peer else device
        arrays = device.to_device(data), other.to_device(room)
        seen = []
        for number in (fills, *rounds) if stays else rounds:
            if streams and not stays:
                device.flush_l2()
            a = (span >> 12) - 1 if streams else experiment.a
            arguments = (*arrays, np.uint32(number), np.uint32(a), np.uint32(experiment.b))
            shape = experiment.grid, experiment.block, arguments, experiment.shared_bytes
            seen.append(vector(device.launch(kernel(experiment.entry), *shape).energy))
    few, more = seen[-2:]
    return (more - few) / (rounds[1] - rounds[0])


@cache
def kernel(entry: str) -> isa.Program:
    """The machine code of a microbenchmark, by its `EnergyExperiment.entry`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.cubin")
        path.write_bytes(gzip.decompress(CUBIN.read_bytes()))
        return isa.load(str(path), entry)


def by_name() -> dict[str, EnergyExperiment]:
    """All microbenchmarks."""
    return {each.name: each for each in experiments()}


def rows_of(rows: list[dict[str, Any]]) -> Iterator[tuple[EnergyExperiment, list[dict[str, Any]]]]:
    """Every microbenchmark with what was recorded of it, as long as the clock was the full one."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["sm_mhz"] == max(each["sm_mhz"] for each in rows):
            grouped.setdefault(row["name"], []).append(row)
    for name, experiment in by_name().items():
        if name in grouped:
            yield experiment, grouped[name]
