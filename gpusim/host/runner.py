"""Runs one launch on a machine: state in, record out, and errors told in the user's terms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpusim.engine.machine import aligned_bytes
from gpusim.engine.sm.recording import CHUNK
from gpusim.engine.state.memory import LINE_BYTES
from gpusim.errors import PoolExhausted
from gpusim.host.options import LaunchOptions
from gpusim.host.recording import LOOKED, MOST_WORDS, Recording, keep, key_of, known, replayable
from gpusim.host.run import Machine, ReadyRun, ready_run
from gpusim.host.sampling import Plan, Watch, are_long, communicates, estimated, probes
from gpusim.host.timed import run_timed
from gpusim.launch import Launch
from gpusim.launch.occupancy import Occupancy
from gpusim.results.record import LaunchRecord, Sampling
from isa import Program


def run_launch(
    machine: Machine, program: Program, launch: Launch, parameter_bytes: bytes, options: LaunchOptions
) -> LaunchRecord:
    """Simulate one launch of a linked program (`gpusim.launch.module`) whose arguments lie in the machine's memory."""
    with ready_run(machine, program, launch, parameter_bytes, options) as (run, together):
        if options.traces is not None:
            with options.traces.launch(program, launch, run.par, together) as taken:
                outcome, _ = run.executed(together, recorder=taken)
        elif options.mode == "functional":
            outcome, _ = run.executed(together)
        elif options.mode == "sampled":
            outcome = _sampled(run, run.fits)
        else:
            outcome, _ = run_timed(run, recording=_recording(run, parameter_bytes) if options.replay else None)
    return run.record(outcome)


def _sampled(run: ReadyRun, fits: Occupancy) -> dict[str, Any]:
    """Times some blocks of a launch; see `host.sampling`."""
    blocks, resident = run.launch.blocks, fits.blocks_per_sm * run.machine.config.sm.count
    plan, why = None, f"{blocks:,} blocks are few, of which the GPU holds {resident:,} at once"
    if communicates(run.program, run.lowered.code):
        why = "blocks may depend on what others do"
    else:
        long = False
        if parts := probes(blocks, resident):
            with run.machine.memory.unchanged():
                executed, each = run.executed(False, parts)
            long = are_long(each, fits.blocks_per_sm, run.machine.config)
        plan = Plan.of(blocks, resident, long)
    if plan is None:
        outcome, _ = run_timed(run)
        return outcome | {"sampling": Sampling(blocks, blocks, resident, 0, 0.0, True, why)}
    if not plan.long:
        executed, each = run.executed(False, plan.groups)
    system = run.machine.engine.memory_system
    footprint = run.machine.memory.used_bytes // LINE_BYTES * run.machine.config.l2.partitions
    watch = Watch(plan, system, footprint, lambda: run.executed(False, [plan.warm], system))
    timed, handed = run_timed(run, plan.chosen, watch)
    outcome = estimated(plan, watch, handed, timed, each)
    seconds = executed["host_seconds"] + timed["host_seconds"]
    if run.options.outputs and plan.others.size:
        seconds += run.executed(False, [plan.others])[0]["host_seconds"]
    sampling = replace(outcome["sampling"], outputs=run.options.outputs)
    return outcome | {"sampling": sampling, "host_seconds": seconds}


def _recording(run: ReadyRun, parameter_bytes: bytes) -> Recording | None:
    """The recording of a launch, made if it is not known yet; None if its values have to be computed each time."""
    program, options, memory = run.program, run.options, run.machine.memory
    if options.trace is not None or options.checks or not replayable(program, run.lowered.code):
        return None
    key = key_of(program, run.launch, parameter_bytes, memory, run.machine.config)
    recording = known(key)
    if recording is None:
        words = aligned_bytes(8 * MOST_WORDS).view(np.int64)
        words[0] = CHUNK
        starts = np.zeros(run.launch.blocks * -(-run.launch.threads_per_block // 32), np.int64)
        try:
            with memory.unchanged():
                executed, _ = run.executed(False, recording=(words, starts, np.zeros(0, np.int64)))
        except PoolExhausted:  # too long
            return None
        recording = words[: words[0]].copy(), starts, executed["counters"][:, LOOKED].copy()
        keep(key, recording)
    return recording


