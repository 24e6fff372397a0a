"""Run a measured point on the simulator, on the same machine code and inputs, and compare the counters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gpusim
from gpusim.config import GPUConfig, load_config
from gpusim.errors import SimulationError
from gpusim.host.launch_run import LaunchRun, session_run
from gpusim.host.options import LaunchOptions, host_threads
from gpusim.host.session import GpuSession
from gpusim.launch import Launch
from gpusim.launch.memory import DeviceMemory
from gpusim.results.metrics import METRICS
from isa import Program
from programs import images
from validate import baseline
from validate.baseline import BaselineError, MissingBaseline, Number, Spread
from validate.metrics import ASKED_AGAIN, CYCLES, EXACT, LAUNCH, RECORDED, TIMED_PIPES
from validate.points import ProgramPoint, describe

MODELLED = tuple(name for name in RECORDED if name in METRICS and name not in (*EXACT, *LAUNCH, CYCLES))
"""Recorded counters that the simulator predicts with its model of time, caches and memory."""


@dataclass(frozen=True)
class Pair:
    """A counter as measured and as predicted."""

    measured: Number
    predicted: Number

    @property
    def equal(self) -> bool:
        """Equal as far as ncu prints it: counts exactly, everything else to the second decimal."""
        if isinstance(self.measured, int) and isinstance(self.predicted, int):
            return self.measured == self.predicted
        return abs(self.measured - self.predicted) <= 0.005 + 1e-9

    @property
    def difference(self) -> Number:
        """Predicted less measured."""
        return self.predicted - self.measured


@dataclass(frozen=True)
class Comparison:
    """One point, measured and simulated.

    cycles: of the whole launch; spread: how the measured ones vary. exact, modelled: counters by name, of a program
    that polls without those that vary from launch to launch on the hardware.
    mismatch: what is wrong with the simulated outputs, None if they agree with the NumPy reference.
    seconds: host time of the simulation. kind: of kernel, `gpusim.Result.kind`. warm: of the same launch
    right after it, if that was asked for and measured.
    """

    point: ProgramPoint
    instructions: int
    cycles: Pair
    spread: Spread
    exact: dict[str, Pair]
    modelled: dict[str, Pair]
    mismatch: str | None
    seconds: float
    kind: str
    warm: Comparison | None = None

    @property
    def differing(self) -> dict[str, Pair]:
        """The exact counters that are not."""
        return {name: pair for name, pair in self.exact.items() if not pair.equal}

    @property
    def error(self) -> float:
        """Signed error of the cycles: 0.1 means predicted a tenth too slow."""
        return self.cycles.predicted / self.cycles.measured - 1

    @property
    def ok(self) -> bool:
        """True if all exact counters are equal and the outputs agree with the reference."""
        return not self.differing and self.mismatch is None


@dataclass(frozen=True)
class Failure:
    """A point that could not be compared, and why."""

    point: ProgramPoint
    reason: str


# many parameters: what is simulated, what with, and how
def replay(
    point: ProgramPoint, gpu: Any = "h200", baseline_of: str = "h200", *, threads: int | None = None,
    overrides: Sequence[str] = (), simulate: Callable[..., gpusim.Result] | None = None, warm: bool = False,
) -> Comparison:  # fmt: skip
    """Simulate a point and compare it with a GPU's baseline.

    simulate: in place of `gpusim.simulate`. warm: also the same launch once more, if that was measured.

    Raises:
        MissingBaseline: there is no such measurement.
        BaselineError: it cannot be read, or is of other machine code, inputs or launch.
        gpusim.SimulationError: the simulation failed.
    """
    measured, program = baseline.measured(point, baseline_of), images.image(point.variant)
    if program.code_sha256 != baseline.load(point.variant, baseline_of).code.code_sha256:
        raise BaselineError(f"{point}: the program image is not the code that was measured; record it again")
    launch, variant = point.make(), point.program
    if describe(launch) != measured.launch:
        raise BaselineError(f"{point}: the launch or its inputs are not those that were measured")
    expected = variant.reference(launch)
    run, shape = simulate or gpusim.simulate, (launch.grid, launch.block, launch.args, gpu, launch.shared_bytes)
    started, again = time.perf_counter(), None
    if warm and measured.warm:
        result, again = twice(program, launch, load_config(gpu, overrides), threads)
    else:
        result = run(program, *shape, overrides=list(overrides), threads=threads)
    seconds, mismatch = time.perf_counter() - started, variant.mismatch(expected, variant.results(launch))
    exact = [name for name in (*EXACT, *LAUNCH) if not (variant.polls and name in ASKED_AGAIN)]
    found = against(point, result, measured.counters, mismatch, seconds, exact, MODELLED)
    if again is None or measured.warm is None:
        return found
    cycles, seen = measured.warm.cycles, measured.warm.counters
    counters = {**measured.counters, **seen, CYCLES: [cycles.min, cycles.median, cycles.max]}
    return replace(found, warm=against(point, again, counters, None, 0.0, (), [n for n in MODELLED if n in seen]))


def twice(
    program: Program, launch: Launch, config: GPUConfig, threads: int | None
) -> tuple[gpusim.Result, gpusim.Result]:
    """Run a launch as `gpusim.simulate` does, and once more on what that has left in memory and caches. The launch's
    arrays are then those after the first time."""
    with GpuSession(config, DeviceMemory(config.dram.capacity_bytes), host_threads(threads)) as session:
        run = session_run(session, program, replace(launch, kernel=program), LaunchOptions())
        first = run.submit().result
        again = LaunchRun(session, run.program, run.launch, run.parameter_bytes, run.options).submit()
        return first, again.result


# many parameters: both sides, which counters, and what else is told
def against(
    point: ProgramPoint, result: gpusim.Result, counters: Mapping[str, Any], mismatch: str | None, seconds: float,
    exact: Sequence[str] | None = None, modelled: Sequence[str] | None = None,
) -> Comparison:  # fmt: skip
    """A result beside counters, each a value or that of each launch. mismatch, seconds: as `Comparison` has them.
    exact, modelled: names that are compared; by default all that the simulator has, exact those that ought to be and
    that no two launches differed in."""
    spreads = {name: Spread.of(value) for name, value in counters.items()}
    if exact is None or modelled is None:
        # What differed between two launches of one kernel depends on time, as the polls of a wait do.
        alike = [name for name, spread in spreads.items() if spread.min == spread.max and name in result.metrics]
        counts = [name for name in alike if name.startswith("sm__inst_executed_pipe_") and name not in TIMED_PIPES]
        exact = [name for name in alike if name in (*EXACT, *LAUNCH)] + counts
        others = (*MODELLED, *TIMED_PIPES, *EXACT)
        modelled = [name for name in others if name not in exact and name in result.metrics]

    def pairs(names: Sequence[str]) -> dict[str, Pair]:
        there = [name for name in names if name in spreads and name in result.metrics]
        return {name: Pair(spreads[name].median, result.metrics[name]) for name in there}

    return Comparison(
        point=point,
        instructions=int(spreads["smsp__inst_executed.sum"].median),
        cycles=Pair(spreads[CYCLES].median, result.cycles),
        spread=spreads[CYCLES],
        exact=pairs(exact),
        modelled=pairs(modelled),
        mismatch=mismatch,
        seconds=seconds,
        kind=result.kind,
    )


def compare(points: Sequence[ProgramPoint], **options: Any) -> Iterator[Comparison | Failure]:
    """`replay` for each point, in order; one that fails gives a Failure instead of ending the rest."""
    for point in points:
        try:
            yield replay(point, **options)
        except (SimulationError, MissingBaseline, BaselineError, images.NoImage) as error:
            yield Failure(point, str(error))
