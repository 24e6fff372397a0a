"""Launches in time: put into a stream, begun when their turn has come, done when it has done them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import simpy

from gpusim.engine.device import error_of
from gpusim.engine.grid import Grid, Recorder, Seat
from gpusim.engine.state import layout as L
from gpusim.engine.state.code_cache import PROFILED
from gpusim.engine.state.memory import SECTOR_BYTES
from gpusim.engine.state.parts import PartSampler
from gpusim.engine.streams import StreamQueue
from gpusim.host.options import LaunchOptions
from gpusim.host.recording import LOOKED, Recording
from gpusim.host.run import Machine, ReadyRun, counted, ready_run
from gpusim.launch import Launch
from gpusim.results.record import LaunchRecord
from gpusim.tracing.recorder import TraceRecorder
from isa import Program
from isa.demangle import short_name


class TimedRun:
    """A launch that runs in time, in a stream; arguments as for `run_timed`."""

    def __init__(
        self,
        run: ReadyRun,
        stream: StreamQueue,
        submitted: int,
        chosen: np.ndarray | None = None,
        watch: Recorder | None = None,
        recording: Recording | None = None,
    ):
        machine, options = run.machine, run.options
        self._run, self._recording = run, recording
        self._recorder: TraceRecorder | None = None
        if options.trace is not None:
            self._recorder = TraceRecorder(options.trace, machine.config, run.launch, run.par)
        self._chosen = chosen if options.blocks is None else np.array(options.blocks)
        self._sampler: PartSampler | None = None
        self._preparing = 0.0
        recorder = watch or self._recorder
        apart = recorder is not None or recording is not None or options.checks != 0
        apart |= run.program.cluster is not None or bool(options.peers) or bool(run.par[L.P_STACK])
        count = run.launch.blocks if self._chosen is None else len(self._chosen)
        limits = options.max_cycles, options.progress, recorder
        self.grid = Grid(machine.engine.env, self._prepare, count, *limits, alone=apart)
        self.grid.name = short_name(run.program.name)
        self._started = time.perf_counter()
        machine.engine.submit(self.grid, stream, submitted, options.programmatic)

    def _prepare(self, grid: Grid, seat: Seat | None) -> None:
        """Its turn has come."""
        run, machine = self._run, self._run.machine
        par = run.seated(run.par.copy(), seat)
        par[L.P_MODE] = L.TIMED if self._recording is None else L.REPLAYS
        state = run.state(par, self._chosen, self._recorder, machine.spare, self._recording, seat)
        self._preparing = run.prepared(state, machine.engine.memory_system.state, seat is not None)
        run.begun(state, self._chosen, grid, seat)
        if PROFILED:
            self._sampler = PartSampler(state)
            self._sampler.start()

    def outcome(self) -> tuple[dict[str, Any], np.ndarray]:
        """What `run_timed` returns, once it is done."""
        grid, state = self.grid, self.grid.state
        seconds = time.perf_counter() - self._started - self._preparing
        shares = self._sampler.stop() if self._sampler is not None else {"SMs": 1.0}
        counters, slice_sectors, channel_sectors = grid.memory
        cycles = grid.end - grid.start
        seen = counted(state)
        if self._recording is not None:
            seen["counters"][:, LOOKED] = self._recording[2]
        fields = {
            **seen,
            "cycles": cycles,
            "memory": counters,
            "slices": slice_sectors,
            "channels": SECTOR_BYTES * channel_sectors,
            "host_seconds": seconds,
            "host_parts": {
                **{part: share * grid.seconds[0] for part, share in shares.items()},
                "memory system": grid.seconds[1],
                "between windows": seconds - grid.seconds[:2].sum(),
            },
            "host_threads": self._run.machine.threads,
            "compile_seconds": self._preparing,
            "trace": self._run.traced(self._recorder, state, grid.start, cycles) if self._recorder else None,
        }
        return fields, state.handed - grid.start


class PendingLaunch:
    """A detailed launch that has been put into a stream. submitted: cycle at which the host has done so.

    then: called with its record when it is done. `error`: what it has ended with instead, in the user's terms. Either
    is known once `work` is done.
    """

    def __init__(
        self,
        machine: Machine,
        program: Program,
        launch: Launch,
        parameter_bytes: bytes,
        options: LaunchOptions,
        stream: StreamQueue,
        submitted: int,
        then: Callable[[LaunchRecord], object],
    ):
        self.error: Exception | None = None
        self._then, self._closing = then, ExitStack()
        ready = ready_run(machine, program, launch, parameter_bytes, options)
        self._run, _ = self._closing.enter_context(ready)
        self._timed = TimedRun(self._run, stream, submitted)
        self.work = self._timed.grid
        self.work.done.callbacks.append(self._ended)

    def drop(self) -> None:
        """It will not run, or not to its end."""
        self._closing.close()

    def _ended(self, done: simpy.Event) -> None:
        try:
            with self._closing, self._run.faults(self.work):
                if not done.ok:
                    done.defused = True
                    raise error_of(done)
                outcome, _ = self._timed.outcome()
                self._then(self._run.record(outcome))
        except Exception as error:
            self.error = error
        del self._run, self._timed
        self.work.forget()


def run_timed(
    run: ReadyRun,
    chosen: np.ndarray | None = None,
    watch: Recorder | None = None,
    recording: Recording | None = None,
) -> tuple[dict[str, Any], np.ndarray]:
    """Runs blocks in time, the `chosen` ones or those of the options, with the values of a `recording` if there is one.
    Returns what the record says of that, and `State.handed` in cycles of the launch."""
    engine = run.machine.engine
    timed = TimedRun(run, engine.main, 0, chosen, watch, recording)
    with run.faults(timed.grid):
        engine.wait(timed.grid.done)
    return timed.outcome()
