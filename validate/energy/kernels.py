"""The microbenchmarks of energy: what each kernel of `kernels.cu` is started with and works on, what a GPU's board
took, and the events of these and of the repeated programs when they are simulated.

`kernels.cubin.gz` is the machine code that was measured.
"""

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
from validate.gpu import read_json
from validate.points import ProgramPoint

SOURCE = Path(__file__).with_name("kernels.cu")
CUBIN = SOURCE.with_suffix(".cubin.gz")
_RESULTS = Path(__file__).parent / "results"
SMS = 132
OPS = {
    **dict.fromkeys(("iadd3", "lop3", "shf", "prmt", "setsel", "imad", "imad_wide", "dp4a", "popc"), "u32"),
    **dict.fromkeys(("fadd", "ffma", "fmnmx"), "f32"),
    **dict.fromkeys(("hadd2", "hfma2"), "f16"),
    **dict.fromkeys(("dadd", "dfma"), "f64"),
    **{"ex2": "f32", "i2f": "u32", "f2i": "u32", "shfl": "u32", "vote": "u32", "clock": "u32"},
}
"""Arithmetic instructions, and of which kind their random operands are."""
PLACES = {"lds": 1, "lds128": 4, "sts": 1, "sts128": 4, "reds": 1, "l1": 1, "l1_128": 4}
"""Accesses to shared memory and L1, and how many words a lane takes."""
MATRICES = {"mma_f16": "f16", "mma_bf16": "f16", "mma_tf32": "f32", "mma_s8": "u32", "mma_f64": "f64"}
GROUP_MATRICES = {
    **dict.fromkeys(("wgmma_f16", "wgmma_f16_n64", "wgmma_f16_registers"), "f16"),
    **{"wgmma_tf32": "f32", "wgmma_e4m3": "e4m3", "wgmma_s8": "u32"},
}
"""Products of a warp and of four warps, and the kind of their random operands."""


@dataclass(frozen=True)
class EnergyExperiment:
    """A kernel and what it is started with. fill: of what it reads: a kind of random values, or zeros. lanes or a, b:
    its last parameters. span: bytes that `a` says. launches: in a graph, of kernels that do next to nothing. peer: the
    memory is another GPU's."""

    name: str
    entry: str
    fill: str = "zeros"
    grid: int = 2 * SMS
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


_MB = 256  # pages of 4 KB
_STREAMS = (
    *(("read128", mb, 16) for mb in (4, 16, 40, 2048)),
    *(("read32", 16, apart) for apart in (4, 32, 128)),
    *(("read32", 2048, apart) for apart in (4, 32, 128, 4096)),
    *(("write128", mb, 16) for mb in (16, 2048)),
    *(("write32", 16, apart) for apart in (4, 32, 128)),
    ("write32", 2048, 32),
    *(("red32", 16, apart) for apart in (4, 32, 128)),
)


def experiments() -> Iterator[EnergyExperiment]:
    """All of them."""
    for grid in (1, 33, 66, 132):
        yield EnergyExperiment(f"stay {grid} SMs", "stay", grid=grid, block=32, a=0)
    yield EnergyExperiment("stay 32 warps", "stay", grid=SMS, block=1024, a=0)
    yield EnergyExperiment("stay 64 warps", "stay", block=1024, a=0)
    yield EnergyExperiment("ask 1 warp", "stay", grid=SMS, block=32, a=1)
    yield EnergyExperiment("barrier 32 warps", "barrier", grid=SMS, block=1024)
    yield EnergyExperiment("empty 132 blocks", "empty", grid=SMS, block=32, launches=200)
    yield EnergyExperiment("empty 1056 blocks", "empty", grid=8 * SMS, block=256, launches=200)
    yield EnergyExperiment("empty 8448 blocks", "empty", grid=64 * SMS, block=256, launches=200)
    for name, kind in OPS.items():
        for fill in (kind, "zeros"):
            yield EnergyExperiment(f"{name} {fill}", f"op_{name}", fill)
    for name, kind in (("ffma", "f32"), ("lop3", "u32"), ("imad", "u32"), ("dfma", "f64")):
        for lanes in (16, 1):
            yield EnergyExperiment(f"{name} {lanes} lanes", f"op_{name}", kind, a=lanes)
    for grid, block in ((SMS, 32), (SMS, 128), (SMS, 512), (66, 1024), (33, 1024)):
        yield EnergyExperiment(f"ffma {grid} x {block}", "op_ffma", "f32", grid, block)
    for fill in ("u32", "zeros"):
        yield EnergyExperiment(f"loop {fill}", "loop", fill)
        yield EnergyExperiment(f"ldc {fill}", "ldc", fill, a=0)
        for name, words in PLACES.items():
            yield EnergyExperiment(f"{name} {fill}", name, fill, a=words)
    yield EnergyExperiment("diverge", "diverge", "u32", a=16)
    for strides, name in (((0, 2, 4, 8, 32), "lds"), ((2, 32), "sts"), ((0, 32), "reds"), ((8, 32), "l1")):
        for stride in strides:
            yield EnergyExperiment(f"{name} stride {stride}", name, "u32", a=stride)
    for name, megabytes, apart in _STREAMS:
        for fill in ("u32", "zeros"):
            which = f"{name} {megabytes} MB by {apart} {fill}"
            yield EnergyExperiment(which, name, fill, a=megabytes * _MB - 1, b=apart)
    for name in ("read128", "write128"):
        for fill in ("u32", "zeros"):
            yield EnergyExperiment(f"peer {name} {fill}", name, fill, a=1024 * _MB - 1, b=16, peer=True)
    # Fewer blocks than SMs stay below the board's limit, so that the clock does too.
    for part in (33, 66, 99, SMS):
        for name, kind in MATRICES.items():
            for fill in ("zeros", kind):
                yield EnergyExperiment(f"{name} {fill} {2 * part} blocks", name, fill, 2 * part, 256)
        for name, kind in GROUP_MATRICES.items():
            for fill in ("zeros", kind):
                yield EnergyExperiment(f"{name} {fill} {part} blocks", name, fill, part, 256, shared_bytes=65536)
    yield EnergyExperiment("stay 132 SMs, warm", "stay", grid=SMS, block=32, a=0)


def words(fill: str, count: int) -> np.ndarray:
    """Random values of a kind, or zeros, as 32-bit words."""
    random = np.random.default_rng(7)
    if fill == "f32":
        return random.uniform(-1, 1, count).astype(np.float32).view(np.uint32)
    if fill == "f64":
        return random.uniform(-1, 1, count // 2).view(np.uint32)
    if fill == "f16":
        return random.uniform(-1, 1, 2 * count).astype(np.float16).view(np.uint32)
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
