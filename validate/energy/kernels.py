"""The microbenchmarks of energy: what each kernel of `kernels.cu` is started with and works on, what a GPU's board
took, and the events of these and of the repeated programs when they are simulated.

`kernels.cubin.gz` is the machine code that was measured.
"""

from __future__ import annotations

import gzip
import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import gpusim
from gpusim.engine.state.memory import LINE_BYTES
from gpusim.launch import TensorMap
from gpusim.results.energy import EVENTS, LaunchEnergy
from isa import Program
from isa.listing import program_from_cubin
from programs import images
from validate.gpu import read_json
from validate.points import ProgramPoint

SOURCE = Path(__file__).with_name("kernels.cu")
CUBIN = SOURCE.with_suffix(".cubin.gz")
_RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class EnergyExperiment:
    """A kernel and what it is started with. fill: of what it reads: a kind of random values, or zeros. lanes or a, b:
    its last parameters. span: bytes that `a` says. launches: in a graph, of kernels that do next to nothing. peer: the
    memory is another GPU's."""

    name: str
    entry: str
    fill: str = "zeros"
    grid: int = 264
    block: int = 512
    a: int = 32
    b: int = 0
    shared_bytes: int = 0
    launches: int = 1
    peer: bool = False

    @property
    def span(self) -> int:
        """Bytes of memory that a stream goes through."""
        return (self.a + 1) << 12


def by_name() -> dict[str, EnergyExperiment]:
    """All of them, as `kernels.toml` has them."""
    found = []
    known = {each.name for each in fields(EnergyExperiment)}
    for row in tomllib.loads(SOURCE.with_suffix(".toml").read_text("utf-8"))["kernels"]:
        for values in itertools.product(*(value if isinstance(value, list) else [value] for value in row.values())):
            one = dict(zip(row, values, strict=True))
            one |= {"a": (one["mb"] << 8) - 1} if "mb" in one else {}  # pages of 4 KB
            one |= {what: one[what].format(**one) for what in ("entry", "name")}
            found.append(EnergyExperiment(**{name: value for name, value in one.items() if name in known}))
    return {each.name: each for each in found}


def words(fill: str, count: int) -> np.ndarray:
    """Random values of a kind, or zeros, as 32-bit words."""
    random = np.random.default_rng(7)
    if fill in ("f16", "f32", "f64"):
        kind = np.dtype(f"f{int(fill[1:]) // 8}")
        return random.uniform(-1, 1, 4 * count // kind.itemsize).astype(kind).view(np.uint32)
    if fill == "e4m3":
        sign, exponent, fraction = (random.integers(*of, 4 * count) for of in ((0, 2), (4, 9), (0, 8)))
        return (sign << 7 | exponent << 3 | fraction).astype(np.uint8).view(np.uint32)
    return random.integers(0, 1 << 32, count, np.uint32) if fill == "u32" else np.zeros(count, np.uint32)


@cache
def recording(gpu: str = "h100") -> dict[str, Any]:
    """'about': provenance. 'micro', 'programs': rows with watts, microseconds of a launch, clock, temperature and which
    board it was. Raises FileNotFoundError for a GPU of which there is none."""
    return read_json(_RESULTS / f"{gpu}.json.gz")  # type: ignore[no-any-return]


# --- simulated --------------------------------------------------------------------------------------------------------


_GRAPH = 3
"""Launches of a graph: the first one finds cold caches, the last two follow each other as all later ones do."""
_L2_MB = 40
"""Streams of more megabytes go through L2, others stay there."""
_FILLS_L2 = 60 << 20
_ROOM = 256 << 20
"""Bytes that are enough for the rounds of a stream through L2."""


def repeated(point: ProgramPoint, gpu: str = "h100", threads: int | None = None) -> tuple[float, LaunchEnergy]:
    """A program in a graph, one launch behind the other: microseconds from the end of one to the end of the next at
    full clock, and the energy of one."""
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
        return ends[-1] - ends[-2], pending[-1].result.energy


def vector(energy: LaunchEnergy) -> np.ndarray:
    """Events of a launch, and behind them the same by activity: float64 [2 x EVENTS]."""
    return np.concatenate([energy.events.sum(axis=0), (energy.events * energy.activity[:, None]).sum(axis=0)])


def of_round(experiment: EnergyExperiment, gpu: str = "h100", threads: int | None = None) -> np.ndarray:
    """Events of a round of a microbenchmark's loop, as `vector`: what a launch of more rounds has more."""
    if experiment.entry in ("stay", "barrier", "empty"):
        launches = experiment.launches if experiment.entry == "empty" else 0
        found = np.zeros(2 * len(EVENTS))
        found[EVENTS.index("launch")] = launches
        found[EVENTS.index("warp")] = launches * experiment.grid * (experiment.block // 32)
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
def kernel(entry: str) -> Program:
    """The machine code of a microbenchmark, by its `EnergyExperiment.entry`."""
    return program_from_cubin(gzip.decompress(CUBIN.read_bytes()), entry, path=str(CUBIN))


def rows_of(rows: list[dict[str, Any]]) -> Iterator[tuple[EnergyExperiment, list[dict[str, Any]]]]:
    """Every microbenchmark with what was recorded of it, as long as the clock was the full one."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["sm_mhz"] == max(each["sm_mhz"] for each in rows):
            grouped.setdefault(row["name"], []).append(row)
    for name, experiment in by_name().items():
        if name in grouped:
            yield experiment, grouped[name]
