"""Simulate a built launch, and compare it with what a GPU counted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import gpusim
from gpusim.launch import Launch
from gpusim.launch.tensor_map import encode_tiled
from isa import Program
from validate.baseline import Spread
from validate.foreign.launch import BuiltLaunch, MapHole, Work
from validate.metrics import CYCLES, EXACT, LAUNCH, TIMED_PIPES
from validate.points import ProgramPoint
from validate.replay import MODELLED, Comparison, Pair

_KINDS = (
    *("uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16"),
    *("FLOAT32_FTZ", "TFLOAT32", "TFLOAT32_FTZ"),
)
_SWIZZLES = ("none", "32B", "64B", "128B")


@dataclass(frozen=True)
class ForeignPoint(ProgramPoint):
    """A launch of a kernel that is not ours; `judging`: whether its family judges."""

    judging: bool = False

    @property
    def split(self) -> str:
        return "judge" if self.judging else "train"

    def __str__(self) -> str:
        return self.variant


def simulate(
    program: Program, launch: BuiltLaunch, work: Work, gpu: Any = "h200", overrides: Sequence[str] = ()
) -> tuple[gpusim.Result, dict[str, np.ndarray]]:
    """Run a launch with cold caches; the result, and all arrays afterwards. Raises gpusim.SimulationError."""
    if launch.cluster != (1, 1, 1):
        program = replace(program, cluster=launch.cluster)
    with gpusim.Device(gpu, overrides=list(overrides)) as device:
        placed = {name: device.to_device(array) for name, array in launch.arrays(work).items()}
        area = launch.fill([each.address for each in placed.values()], _encode)
        described = Launch(program, launch.grid, launch.block, (), launch.shared_bytes)
        result = device.submit(device.modules.link(program), described, area).result
        return result, {name: each.copy_to_host() for name, each in placed.items()}


def _encode(hole: MapHole, address: int) -> bytes:
    found = encode_tiled(
        *(_KINDS[hole.kind], address, hole.shape, hole.strides, hole.box, hole.steps),
        swizzle=_SWIZZLES[hole.swizzle],
        nan_fill=bool(hole.fill),
    )
    return found.tobytes()


def compare(
    point: ForeignPoint, program: Program, launch: BuiltLaunch, work: Work, counters: Mapping[str, Any], **options: Any
) -> Comparison:
    """Simulate and compare with counters, one value for each recorded launch. Raises gpusim.SimulationError."""
    started = time.perf_counter()
    result, outputs = simulate(program, launch, work, **options)
    return against(point, result, counters, work.mismatch(outputs)[0], time.perf_counter() - started)


def against(
    point: ForeignPoint, result: gpusim.Result, counters: Mapping[str, Any], mismatch: str | None, seconds: float
) -> Comparison:
    """A result beside counters. mismatch, seconds: as `Comparison` has them."""
    spreads = {name: Spread.of(value) for name, value in counters.items()}

    def pairs(names: Sequence[str]) -> dict[str, Pair]:
        return {name: Pair(spreads[name].median, result.metrics[name]) for name in names
                if name in spreads and name in result.metrics}  # fmt: skip

    # What differed between two launches of one kernel depends on time, as the polls of a wait do.
    alike = [name for name, spread in spreads.items() if spread.min == spread.max]
    counts = [name for name in alike if name.startswith("sm__inst_executed_pipe_") and name not in TIMED_PIPES]
    exact = pairs([name for name in alike if name in (*EXACT, *LAUNCH)] + counts)
    return Comparison(
        point=point,
        instructions=int(spreads["smsp__inst_executed.sum"].median),
        cycles=Pair(spreads[CYCLES].median, result.cycles),
        spread=spreads[CYCLES],
        exact=exact,
        modelled=pairs([name for name in (*MODELLED, *TIMED_PIPES, *EXACT) if name not in exact]),
        mismatch=mismatch,
        seconds=seconds,
        kind=result.kind,
    )
