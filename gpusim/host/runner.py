"""Runs one launch on a machine: state in, record out, and errors told in the user's terms."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import simpy

from gpusim.config import GPUConfig
from gpusim.engine.device import Engine
from gpusim.engine.dispatcher import G_FIELDS
from gpusim.engine.functional import run_functionally
from gpusim.engine.grid import CyclesUsedUp, Grid, Host, MachineStopped, NothingMoves, Recorder
from gpusim.engine.machine import Spare, aligned_bytes, build_state, constant_banks
from gpusim.engine.memory.system import MemorySystem
from gpusim.engine.parameters import VECTOR_BYTES, Memories, parameters
from gpusim.engine.sm.recording import CHUNK
from gpusim.engine.state import layout as L
from gpusim.engine.state.code_cache import PROFILED
from gpusim.engine.state.memory import COUNTERS, LINE_BYTES, SECTOR_BYTES
from gpusim.engine.state.parts import PartSampler
from gpusim.engine.warm import prepare_core
from gpusim.errors import LaunchError, PoolExhausted
from gpusim.host.fault import caller, fault, nothing_moves, out_of_cycles
from gpusim.host.lowering import lowered_once
from gpusim.host.options import LaunchOptions
from gpusim.host.recording import MOST_WORDS, Recording, keep, key_of, known, replayable
from gpusim.host.sampling import Plan, Watch, are_long, communicates, estimated, probes
from gpusim.host.syscalls import SystemCalls
from gpusim.launch import Launch
from gpusim.launch.memory import DeviceMemory
from gpusim.launch.module import Modules
from gpusim.launch.occupancy import Occupancy, check_architecture, check_cluster, check_dimensions, occupancy
from gpusim.results.record import LaunchRecord, Sampling
from gpusim.tracing.accel_launch import AccelSimLaunch
from gpusim.tracing.recorder import TraceRecorder
from gpusim.tracing.trace import Trace
from isa import Program
from isa import microops as M
from isa.instruction import INSTRUCTION_BYTES
from isa.launch_values import launch_values, reads_launch_value
from isa.lower import Lowered

#: Local memory that CUDA gives every thread beyond what the compiler counted, for recursion and calls by pointer.
_DEFAULT_STACK_BYTES = 1024
#: What blocks of a cooperative launch share: a size and the grid's barrier (cooperative_groups.h).
_WORKSPACE_BYTES = 64
#: CUDA programming guide, technical specifications per compute capability: 512 KB.
_MOST_LOCAL_BYTES = 512 << 10


class Machine:
    """A GPU with its memory, cold caches and so many host threads, and what launches on it share."""

    def __init__(self, config: GPUConfig, memory: DeviceMemory, threads: int = 1):
        self.config, self.memory, self.threads = config, memory, max(1, min(threads, config.sm.count))
        self.spare = Spare.get()
        self.modules = Modules(memory)
        self.calls = SystemCalls(memory)
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """Made when first used: its processes refer to each other, so the sooner it is made before a run, the longer
        the collector leaves it, and all that a launch holds, behind."""
        self._engine = self._engine or Engine(self.config, self.threads)
        return self._engine

    def close(self) -> None:
        """End the engine's host threads, and leave the memory of its launches to others."""
        if self._engine is not None:
            self._engine.close()
        self.spare.give_back()
        self.spare = Spare()

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run_launch(
    machine: Machine, program: Program, launch: Launch, parameter_bytes: bytes, options: LaunchOptions
) -> LaunchRecord:
    """Simulate one launch of a linked program (`gpusim.launch.module`) whose arguments lie in the machine's memory."""
    config, memory = machine.config, machine.memory
    check_architecture(program.arch, config.gpu.arch, program.name)
    lowered = lowered_once(program, config)
    fits, shared_by_blocks = _fit(config, program, launch, options.cooperative)
    workspace = memory.alloc(_WORKSPACE_BYTES, "grid workspace") if shared_by_blocks else 0
    try:
        local_bytes = _local_bytes(program)
        par = _parameters(machine, program, launch, lowered, fits, local_bytes, options)
        banks = constant_banks(program, launch, parameter_bytes, local_bytes, config.sm.count, workspace)
        run = _Run(machine, program, launch, options, lowered, par, banks)
        if options.traces is not None:
            with options.traces.launch(program, launch, par, shared_by_blocks) as taken:
                outcome, _ = run.executed(shared_by_blocks, recorder=taken)
        elif options.mode == "functional":
            outcome, _ = run.executed(shared_by_blocks)
        elif options.mode == "sampled":
            outcome = _sampled(run, fits)
        else:
            outcome, _ = run.timed(recording=_recording(run, parameter_bytes) if options.replay else None)
    finally:
        machine.calls.flush()
        if workspace:
            memory.free(workspace)
    return LaunchRecord(
        config=config,
        program=program,
        launch=launch,
        occupancy=fits,
        code=lowered.code,
        mode=options.mode,
        **outcome,
    )


@dataclass(frozen=True)
class _Run:
    """A launch that is ready to run, as a whole or some blocks of it."""

    machine: Machine
    program: Program
    launch: Launch
    options: LaunchOptions
    lowered: Lowered
    par: np.ndarray
    banks: np.ndarray

    def timed(
        self,
        chosen: np.ndarray | None = None,
        watch: Recorder | None = None,
        recording: Recording | None = None,
    ) -> tuple[dict[str, Any], np.ndarray]:
        """Runs blocks in time, the `chosen` ones or those of the options, with the values of a `recording` if there is
        one. Returns what the record says of that, and `State.handed` in cycles of the launch."""
        machine, options = self.machine, self.options
        system = machine.engine.memory_system
        system.set_peers(options.peers)
        views = system.counters, system.slice_sectors, system.channel_sectors
        before = [view.copy() for view in views]
        recorder = None
        if options.trace is not None:
            recorder = TraceRecorder(options.trace, machine.config, self.launch, self.par)
        chosen = chosen if options.blocks is None else np.array(options.blocks)
        par = self.par.copy()
        par[L.P_MODE] = L.TIMED if recording is None else L.REPLAYS
        state = self._state(par, chosen, recorder, machine.spare, recording)
        preparing = self._prepare(state, system.state)
        sampler = PartSampler(state) if PROFILED else None
        if sampler is not None:
            sampler.start()
        started = time.perf_counter()
        grid, cycles = self._wait(state, chosen, watch or recorder)
        seconds = time.perf_counter() - started
        shares = sampler.stop() if sampler is not None else {"SMs": 1.0}
        counters, slice_sectors, channel_sectors = (view - old for view, old in zip(views, before, strict=True))
        fields = {
            **_counts(state),
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
            "host_threads": machine.threads,
            "compile_seconds": preparing,
            "trace": self._trace(recorder, state, grid.start, cycles) if recorder else None,
        }
        return fields, state.handed - grid.start

    def executed(
        self,
        together: bool,
        parts: Sequence[np.ndarray | None] = (None,),
        system: MemorySystem | None = None,
        recording: Recording | None = None,
        recorder: AccelSimLaunch | None = None,
    ) -> tuple[dict[str, Any], np.ndarray]:
        """Runs blocks without time, all `together` if they may wait for each other. parts: numbers of blocks, as many
        in each, that are run one part after the other; None for all blocks. system: as for `run_functionally`.
        recording: is filled. recorder: takes the log. Returns what the record says of that, and the counters of a block
        of each part with numbers, in the mean."""
        options = self.options
        par = self.par.copy()
        par[L.P_MODE] = L.FUNCTIONAL if system is None else L.KEEPS_REQUESTS
        if recording is not None:
            par[L.P_MODE] = L.RECORDS
        # A timed run may be under way, with the memory that the machine has to spare.
        spare = self.machine.spare if system is None else Spare()
        state = self._state(par, None if parts[0] is None else parts[0].copy(), recorder, spare, recording)
        preparing = self._prepare(state, None)
        started = time.perf_counter()
        each = []
        for part in parts:
            count = self.launch.blocks if part is None else len(part)
            if part is not None:
                state.chosen[:] = part
            grid = Grid(
                simpy.Environment(), state, count, options.max_cycles, options.progress, self._host(state), recorder
            )
            with self._faults(grid):
                run_functionally(grid, together, system)
            if part is not None:
                each.append(state.counters[:, :-1].sum(axis=0))
        fields = {
            **_counts(state),
            "cycles": 0,
            "memory": np.zeros(COUNTERS, np.int64),
            "host_seconds": time.perf_counter() - started,
            "host_threads": 1,
            "compile_seconds": preparing,
        }
        return fields, np.diff(each, axis=0, prepend=0) / count if each else np.zeros(0)

    def _prepare(self, state: L.State, memory_state: np.ndarray | None) -> float:
        """Gets the core ready for this code, unless it is known to be. Returns the seconds this took."""
        started = time.perf_counter()
        kind = memory_state is None, bool(self.par[L.P_CLUSTER_BLOCKS]), bool(self.par[L.P_CHECKS])
        dispatch = np.zeros(G_FIELDS, np.int64)
        self.lowered.once(("core is ready", *kind), lambda: prepare_core(state, memory_state, dispatch))
        return time.perf_counter() - started

    def _state(
        self,
        par: np.ndarray,
        chosen: np.ndarray | None,
        recorder: TraceRecorder | AccelSimLaunch | None,
        spare: Spare,
        recording: Recording | None,
    ) -> L.State:
        machine = self.machine
        log = recorder.arrays if recorder is not None else None
        try:
            return build_state(
                par, self.lowered, self.banks, machine.memory, machine.threads, spare, log, chosen, recording
            )
        except MemoryError:
            words = "the host has no room for the state of all resident threads"
            raise LaunchError(words, kernel=self.program.name) from None

    def _wait(self, state: L.State, chosen: np.ndarray | None, recorder: Recorder | None) -> tuple[Grid, int]:
        """Hands the launch to the engine and waits for it; returns it and its cycles."""
        engine, program = self.machine.engine, self.program
        constants = sum(len(content) for bank, content in program.constant_banks.items() if bank != 0)
        count = self.launch.blocks if chosen is None else len(chosen)
        # Clusters go to the emptiest GPC wherever it is.
        blocks = count if program.cluster is None else self.machine.config.sm.count
        engine.memory_system.begin(
            blocks, program.sha256, len(program.instructions) * INSTRUCTION_BYTES, constants
        )
        state.sm[:, L.S_PARTITION] = engine.memory_system.partitions
        options = self.options
        grid = engine.submit(state, count, options.max_cycles, options.progress, self._host(state), recorder)
        with self._faults(grid):
            return grid, engine.wait(grid)

    def _host(self, state: L.State) -> Host | None:
        """What serves the kernel's calls of the host, if it has any."""
        if not self.lowered.once("calls the host", lambda: M.OP_SYSCALL in state.code[:, M.COL_OP]):
            return None
        place = partial(caller, state, program=self.program, launch=self.launch)
        return partial(self.machine.calls.serve, place=place)

    @contextmanager
    def _faults(self, grid: Grid) -> Iterator[None]:
        """Tells in the user's terms what ends a launch early."""
        program, launch = self.program, self.launch
        try:
            yield
        except MachineStopped as stopped:
            raise fault(grid, stopped.sm, program, launch, self.machine.memory) from None
        except CyclesUsedUp:
            raise out_of_cycles(grid, program, launch, self.options.max_cycles) from None
        except NothingMoves:
            raise nothing_moves(grid, program, launch) from None

    def _trace(self, recorder: TraceRecorder, state: L.State, start: int, cycles: int) -> Trace:
        config = self.machine.config
        return recorder.finish(state, self.lowered.code, self.program, self.launch, config, start, cycles)


def _counts(state: L.State) -> dict[str, np.ndarray]:
    """What SMs have counted."""
    return {
        "counters": state.counters[0, :-1] if len(state.counters) == 1 else state.counters[:, :-1].sum(axis=0),
        "sm_active_cycles": state.sm[:, L.S_ACTIVE_CYCLES].copy(),
        "sm_warp_cycles": state.sm[:, L.S_WARP_CYCLES].copy(),
        "sm_issued": state.sm[:, L.S_ISSUED].copy(),
        "sm_blocks": state.sm[:, L.S_LAUNCHED].copy(),
    }


def _sampled(run: _Run, fits: Occupancy) -> dict[str, Any]:
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
        outcome, _ = run.timed()
        return outcome | {"sampling": Sampling(blocks, blocks, resident, 0, 0.0, True, why)}
    if not plan.long:
        executed, each = run.executed(False, plan.groups)
    system = run.machine.engine.memory_system
    footprint = run.machine.memory.used_bytes // LINE_BYTES * run.machine.config.l2.partitions
    watch = Watch(plan, system, footprint, lambda: run.executed(False, [plan.warm], system))
    timed, handed = run.timed(plan.chosen, watch)
    outcome = estimated(plan, watch, handed, timed, each)
    seconds = executed["host_seconds"] + timed["host_seconds"]
    if run.options.outputs and plan.others.size:
        seconds += run.executed(False, [plan.others])[0]["host_seconds"]
    sampling = replace(outcome["sampling"], outputs=run.options.outputs)
    return outcome | {"sampling": sampling, "host_seconds": seconds}


def _recording(run: _Run, parameter_bytes: bytes) -> Recording | None:
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
                run.executed(False, recording=(words, starts))
        except PoolExhausted:  # too long
            return None
        recording = words[: words[0]].copy(), starts
        keep(key, recording)
    return recording


def _fit(config: GPUConfig, program: Program, launch: Launch, cooperative: bool) -> tuple[Occupancy, bool]:
    """How the launch's blocks fill an SM, and whether all of them share a workspace. Raises LaunchError if the GPU does
    not take them."""
    check_dimensions(config, launch.grid, launch.block, program.name)
    fits = occupancy(
        config,
        launch.threads_per_block,
        program.registers,
        program.static_shared_bytes,
        launch.shared_bytes,
        program.max_threads,
        program.name,
    )
    if program.cluster is not None:
        check_cluster(config, program.cluster, launch.grid, fits.blocks_per_sm, program.name)
    together = cooperative or reads_launch_value(program, launch_values(program.arch).environment + 4)
    if together and launch.blocks > fits.blocks_per_sm * config.sm.count:
        raise LaunchError(
            f"a cooperative launch of {launch.blocks:,} blocks, of which the GPU holds "
            f"{fits.blocks_per_sm * config.sm.count:,} at once",
            kernel=program.name,
        )
    return fits, together


def _parameters(
    machine: Machine,
    program: Program,
    launch: Launch,
    lowered: Lowered,
    fits: Occupancy,
    local_bytes: int,
    options: LaunchOptions,
) -> np.ndarray:
    """The vector `State.par` of a launch."""
    config = machine.config
    shared = program.static_shared_bytes + launch.shared_bytes
    par = parameters(
        config,
        launch,
        lowered,
        fits,
        Memories(program.shared_base, program.shared_base + shared, local_bytes, machine.memory.base),
        options.strict_barriers,
        program.cluster or (0, 0, 0),
        options.checks,
    )
    unit = config.sm.shared_unit_bytes  # in which %total_smem_size counts, says the PTX ISA
    par[L.P_SHARED_SIZE] = program.shared_base + -(-shared // unit) * unit
    if options.mode != "functional" and machine.engine.memory_system.has_run(program.sha256):
        par[L.P_CONST_FAR] = config.constant.l2_latency_cycles
    return par


def _local_bytes(program: Program) -> int:
    """Local memory per thread: the compiler's stack, rounded to 16 bytes, and room for calls it could not count."""
    calls = program.once("calls", lambda: any(each.opcode in ("CALL", "BRX", "JMX") for each in program.instructions))
    if program.local_bytes == 0 and not calls:
        return 0
    if not 0 <= program.local_bytes <= _MOST_LOCAL_BYTES:
        raise LaunchError(
            f"{program.local_bytes:,} bytes of local memory per thread, allowed at most {_MOST_LOCAL_BYTES:,}",
            kernel=program.name,
        )
    return -(-program.local_bytes // VECTOR_BYTES) * VECTOR_BYTES + (_DEFAULT_STACK_BYTES if calls else 0)
