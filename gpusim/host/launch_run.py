"""One launch, from the call to its record: the same object for every mode, every stream and every caller."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

from gpusim.engine.device import error_of
from gpusim.engine.endless import NeverEnds
from gpusim.engine.functional import run_functionally
from gpusim.engine.grid import CyclesUsedUp, EndedWithAnother, Grid, Host, MachineStopped, NothingMoves, Seat
from gpusim.engine.launch_state import Spare, build_state, code_lines, constant_banks, constant_lines
from gpusim.engine.memory.system import MemorySystem, PeerRow
from gpusim.engine.parameters import parameters, put_seat
from gpusim.engine.retime import lowered_once
from gpusim.engine.state import L, P, ms
from gpusim.engine.state.arrays import State
from gpusim.engine.stop import StopWatch
from gpusim.engine.streams import StreamQueue
from gpusim.engine.warm import prepare_core
from gpusim.errors import LaunchError
from gpusim.host.fault import caller, fault, never_ends, nothing_moves, out_of_cycles
from gpusim.host.options import LaunchOptions
from gpusim.host.repeats import Timed, execute_like, keep, key_of
from gpusim.host.sampling import Sample, communicates
from gpusim.host.session import GpuSession
from gpusim.launch import Launch
from gpusim.launch.arguments import BoundArguments, place_arguments
from gpusim.launch.occupancy import check_architecture
from gpusim.result import Result
from gpusim.results.record import LaunchRecord
from gpusim.tracing.accel_launch import AccelSimLaunch
from gpusim.tracing.recorder import TraceRecorder
from gpusim.translation import Translation
from isa import Program
from isa import microops as M
from isa.demangle import short_name
from isa.instruction import INSTRUCTION_BYTES

if TYPE_CHECKING:
    from gpusim.machine.gpu import GPU

#: Shared by the blocks of a cooperative launch: a size and the grid's barrier (cooperative_groups.h).
_WORKSPACE_BYTES = 64
_PARTS, _LEAST_BLOCKS = 2, 16
"""Of a run without time: parts of a grid whose requests go through L2, and blocks of each of several parts at least."""

Listener = Callable[["LaunchRun"], object]


class LaunchRun(Grid):
    """A launch of a linked program whose arguments lie in the session's memory.

    `submit` puts it into a stream. `on_start` are called when its turn has come, with memory as it is then, and
    `on_end` when it has ended; then `record` is what it leaves behind, or `error` what has ended it, in the user's
    terms. placed: its arguments, where NumPy arrays are to be copied back.

    Raises LaunchError if the GPU does not take it, SimulationError if the simulator cannot run it.
    """

    def __init__(
        self,
        session: GpuSession,
        program: Program,
        launch: Launch,
        parameter_bytes: bytes,
        options: LaunchOptions,
        placed: BoundArguments | None = None,
    ):
        config = session.config
        super().__init__(session.engine.env, launch.blocks, options.max_cycles, options.progress)
        check_architecture(program.arch, config.gpu.arch, program.name)
        self.session, self.program, self.launch, self.options = session, program, launch, options
        self.parameter_bytes, self.placed = parameter_bytes, placed
        self.on_start: list[Listener] = []
        self.on_end: list[Listener] = []
        self.record: LaunchRecord | None = None
        self.error: Exception | None = None
        self.lowered = lowered_once(program, config)
        self.fits, self.together = options.fit(config, program, launch)
        if options.blocks is not None and (self.together or program.cluster is not None):
            raise LaunchError("blocks that wait for each other run together or not at all", kernel=program.name)
        self._code = program.sha256 + program.symbol  # which tells one kernel of a file from another
        what = program, launch, self.lowered, self.fits, session.memory.base
        how = options.stack_bytes, options.carveout, options.strict_barriers, options.checks
        self.par = parameters(config, *what, *how)
        self.name = short_name(program.name)
        self.untimed = options.mode == "functional" or options.model != "engine"
        self._stop = StopWatch(options.stop, program) if options.stop is not None else None
        watched = options.trace is not None or self._stop is not None
        self._apart = bool(watched or options.mode == "sampled" or options.checks or options.alone)
        self.alone = bool(self._apart or program.cluster or self.par[P.STACK])
        self.watched = not session.memory.host_writes
        self._peers: Sequence[PeerRow] = ()
        self._workspace = 0
        self._like: Hashable = None
        self._as: Timed | None = None
        self._wait: Callable[[simpy.Event], object] = session.engine.wait

    def submit(
        self, stream: StreamQueue | None = None, submitted: int = 0, wait: Callable[[simpy.Event], object] | None = None
    ) -> LaunchRun:
        """Put it into a stream, by default that of those who name none, at a cycle that the host's clock shows. wait:
        lets time pass until an event has happened, the engine's own way by default. Returns the run."""
        if self.together:
            self._workspace = self.session.memory.alloc(_WORKSPACE_BYTES, "grid workspace")
        self._wait = wait or self._wait
        self.done.callbacks.append(self._finish)
        self.session.engine.submit(self, stream, submitted, self.options.programmatic)
        return self

    def run_now(self) -> None:
        """Run it without time, beside whatever is on the GPU, and forget it. Raises what has ended it."""
        try:
            if self.together:
                self._workspace = self.session.memory.alloc(_WORKSPACE_BYTES, "grid workspace")
            self.execute()
        finally:
            self._release()

    def set_peers(self, rows: Sequence[PeerRow]) -> None:
        """Say which of its arrays lie on other GPUs, as `MemorySystem.set_peers` takes them; before it is submitted."""
        self._peers, self.alone = rows, True

    def wait(self) -> LaunchRecord:
        """Let time pass until it has ended. Raises what has ended it, or an interrupt, which drops it."""
        if self.record is None and self.error is None:
            try:
                self._wait(self.done)
            except Exception:
                if self.error is None:  # else it says the same in the user's terms
                    raise
            except BaseException:
                self.drop()
                raise
        if self.error is not None:
            raise self.error
        assert self.record is not None
        return self.record

    @property
    def result(self) -> Result:
        """The result of the launch. Waits for its end; raises the error that it has ended with."""
        return Result(self.wait())

    def drop(self) -> None:
        """It will not come to its end, unless it has."""
        self._release()
        if self.record is None and self.error is None:
            self.error = EndedWithAnother()
            self._tell(self.on_end)

    def _release(self) -> None:
        """Give back what it holds."""
        self.session.calls.flush()
        if self._workspace:
            self.session.memory.free(self._workspace)
            self._workspace = 0
        self.forget()

    # --- what the engine calls ----------------------------------------------------------------------------------------

    def takes(self) -> int | None:
        if self._apart or self.options.mode != "once" or self.options.blocks or self._peers or self.session.peers():
            return None
        self._like = key_of(self)
        self._warm = self.session.engine.memory_system.has_run(self._code)
        if self._like not in self.session.timed:
            return None
        self._tell(self.on_start)
        self._as = execute_like(self, self._like, self._warm)
        return self._as.cycles if self._as is not None else None

    def prepare(self, seat: Seat | None) -> None:
        """Its turn has come: everything but time is settled here."""
        self._tell(self.on_start)
        options, session = self.options, self.session
        self.chosen = np.array(options.blocks) if options.blocks is not None else None
        self.sample = Sample(self) if options.mode == "sampled" else None
        if self.sample is not None and self.sample.plan is not None:
            self.chosen, self.recorder = self.sample.plan.chosen, self.sample.watch
        self._started = time.perf_counter()
        self.trace_recorder = None
        if options.trace is not None:
            self.recorder = TraceRecorder(options.trace, session.config, self.launch, self.par)
            self.trace_recorder = self.recorder
        if self._stop is not None:
            self.recorder, self.stops = self._stop, self._stop.cycles(self.start)
        self.blocks = self.launch.blocks if self.chosen is None else len(self.chosen)
        par = self.par.copy()
        if seat is not None:
            put_seat(par, session.config, self.fits, seat, constant_lines(par))
        system, code = session.engine.memory_system, self._code
        if system.has_run(code):
            par[P.CONST_FAR], par[P.CODE_FAR] = session.config.constant.l2_latency_cycles, par[P.IL2_LATENCY]
        par[P.CODE_LINE] = system.code_line(code)
        spare = session.spares[0] if seat is None else Spare()
        log = {"icache": system.instruction_caches(code_lines(par))}
        if self.trace_recorder is not None:
            log |= self.trace_recorder.arrays
        self.state = self._state(par, spare, log=log, chosen=self.chosen, seat=seat)
        self.compile_seconds = self._compiled(self.state, system.state, seat is not None)
        self._bind_to_memory_system(seat)
        self.host = self._host(self.state)

    def execute(self) -> None:
        """Its turn has come on a device without a clock: run it now."""
        self._tell(self.on_start)
        if self.options.model != "engine":
            self._executed = self.run_on_machine(self.options.model)
            return
        traces, what = self.options.accel_sim, (self.program, self.launch, self.par, self.together)
        with traces.launch(*what) if traces is not None else nullcontext() as taken:
            self._executed, _ = self.run_untimed(recorder=taken)

    def _finish(self, done: simpy.Event) -> None:
        """It has ended."""
        try:
            with self._faults(self):
                if not done.ok:
                    done.defused = True
                    raise error_of(done)
            self.record = self._recorded(self._executed if self.untimed else self._timed())
            if self._like is not None and self._as is None and self.alone:
                keep(self, self._like, self.record, self._warm)
            if self.placed is not None:
                self.session.modules.check_exception(self.program)
                if self.record.sampling is None or self.record.sampling.outputs:
                    self.placed.copy_back()
        except Exception as error:
            self.record, self.error = None, error
        self._release()
        self._tell(self.on_end)

    def _tell(self, listeners: list[Listener]) -> None:
        while listeners:  # each once
            listeners.pop(0)(self)

    # --- without time -------------------------------------------------------------------------------------------------

    def run_untimed(
        self,
        parts: Sequence[np.ndarray | None] = (None,),
        system: MemorySystem | None = None,
        in_step: bool = False,
        recorder: AccelSimLaunch | None = None,
    ) -> tuple[dict[str, Any], np.ndarray]:
        """Run blocks without time, all together if they may wait for each other. parts: numbers of blocks, as many in
        each, that are run one part after the other; None for all blocks. recorder: takes the log. The others: as for
        `run_functionally`. Returns what the record says of that, and the counters of a block of each part with numbers,
        in the mean."""
        par = self.par.copy()
        par[P.MODE] = L.FUNCTIONAL if system is None else L.KEEPS
        spares, own = self.session.spares, int(system is not None)  # beside a timed run, which has the first
        chosen = None if parts[0] is None else parts[0].copy()
        states = [self._state(par, spares[own], log=recorder and recorder.arrays, chosen=chosen)]
        preparing = self._compiled(states[0], None, False)
        started = time.perf_counter()
        if chosen is None and recorder is None:
            states += [self._state(par.copy(), spares[own + k]) for k in range(1, self._apart_in(system))]
        look = self.lowered.once("translation", lambda: Translation(states[0].code, states[0].runs)).look
        each, bounds = [], [self.launch.blocks * k // len(states) for k in range(len(states) + 1)]
        for part in parts:
            grids = []
            for state, begins, end in zip(states, bounds, bounds[1:], strict=False):
                count = end - begins if part is None else len(part)
                grid = Grid(simpy.Environment(), count, self.max_cycles, self.progress, recorder or self._stop)
                grid.state, grid.host, grid.begins = state, self._host(state), begins
                grids.append(grid)
            if part is not None:
                states[0].chosen[:] = part
            how = self.together and part is None, self._faults, self.session.engine.submit_work, look, system, in_step
            run_functionally(grids, *how)
            if part is not None:
                each.append(states[0].counters[:, :-1].sum(axis=0))
        counted = [_counted(state) for state in states]
        fields: dict[str, Any] = {
            **{name: sum(some[name] for some in counted) for name in counted[0]},
            "cycles": 0,
            "memory": sum(grid.memory[0] for grid in grids),
            "host_seconds": time.perf_counter() - started,
            "host_threads": min(len(states), self.session.threads),
            "compile_seconds": preparing,
        }
        fields["counters"][:, L.COUNT_STALL :] = 0  # nobody waits, and who comes late goes with the parts
        return fields, np.diff(each, axis=0, prepend=0) / grids[0].blocks if each else np.zeros(0)

    def _apart_in(self, system: MemorySystem | None) -> int:
        """In how many parts of neighbouring blocks a grid is run without time, which its results do not depend on; what
        they leave in L2 does, so then it is the same on any number of host threads."""
        parts = self.session.threads if system is None else _PARTS
        alone = self._stop is None and not self.options.checks and self.launch.blocks >= _LEAST_BLOCKS * parts
        return parts if alone and self.lowered.once("blocks are apart", self._is_apart) else 1

    def _is_apart(self) -> bool:
        """Return whether blocks have nothing to do with each other, sums into the same place included."""
        adds = np.isin(self.lowered.code[:, M.COL_OP], (M.OP_ATOM, M.OP_RED, M.OP_BULK_COMMIT))
        return not (adds.any() or communicates(self.program, self.lowered.code))

    def run_on_machine(self, model: str | type[GPU]) -> dict[str, Any]:
        """Run it on a machine of SimPy processes. Returns what the record says of that."""
        from gpusim.machine.execution import Executor
        from gpusim.machine.instruction import check_modelled
        from gpusim.machine.run import machine_of, run_machine

        machine = machine_of(model)
        par, config, system = self.par.copy(), self.session.config, self.session.engine.memory_system
        par[P.MODE] = L.FUNCTIONAL
        check_modelled(self.program, self.lowered.code)
        log = Executor.log(config.sm.count, self.launch.blocks)
        tracer = TraceRecorder(self.options.trace, config, self.launch, par) if self.options.trace else None
        grid = Grid(simpy.Environment(), self.launch.blocks, self.max_cycles, self.progress, tracer)
        self.state = grid.state = self._state(par, self.session.spares[0], log=log)
        grid.host = self._host(grid.state)
        preparing = self._compiled(grid.state, None, False)
        started, before = time.perf_counter(), system.counters.copy()
        self._bind_to_memory_system(None)
        with self._faults(grid):
            peers, partitions = self._peers or self.session.peers(), self.state.sm[:, L.SM_PARTITION]
            fields = run_machine(machine, config, grid, partitions, self.fits.l1_bytes, peers)
        fields["memory"] += system.counters - before  # code and constants
        if tracer is not None:
            what = grid.state, self.lowered, self.program
            fields["trace"] = tracer.finish(*what, -config.launch.overhead_cycles, fields["cycles"])
        host = {"host_seconds": time.perf_counter() - started, "host_threads": 1, "compile_seconds": preparing}
        return {**_counted(grid.state), **fields, **host, "machine": machine.__name__}

    # --- what both share ----------------------------------------------------------------------------------------------

    def _timed(self) -> dict[str, Any]:
        """Return the fields of the record of a run in time."""
        if self._as is not None:
            return {**self._as.fields, "cycles": self.end - self.start}
        seconds = time.perf_counter() - self._started - self.compile_seconds
        counters, slice_sectors, channel_sectors = self.memory
        cycles, trace = self.end - self.start, None
        if self.trace_recorder is not None:
            trace = self.trace_recorder.finish(self.state, self.lowered, self.program, self.start, cycles)
        fields = {
            **_counted(self.state),
            "cycles": cycles,
            "memory": counters,
            "slices": slice_sectors,
            "channels": ms.SECTOR_BYTES * channel_sectors,
            "host_seconds": seconds,
            "host_parts": {
                "SMs": self.seconds[0],
                "memory system": self.seconds[1],
                "between windows": seconds - self.seconds[:2].sum(),
            },
            "host_threads": self.session.threads,
            "compile_seconds": self.compile_seconds,
            "trace": trace,
        }
        return fields if self.sample is None else self.sample.outcome(fields, self.state.handed - self.start)

    def _recorded(self, outcome: dict[str, Any]) -> LaunchRecord:
        what: dict[str, Any] = {"config": self.session.config, "program": self.program, "launch": self.launch}
        what["mode"] = "detailed" if self.options.mode == "once" and self._as is None else self.options.mode
        return LaunchRecord(**outcome | what | {"occupancy": self.fits, "code": self.lowered.code})

    def _compiled(self, state: State, memory_state: np.ndarray | None, shared: bool) -> float:
        """Get the core ready for this code, unless it is known to be. Returns the seconds this took."""
        started = time.perf_counter()
        kind = memory_state is None, shared, bool(self.par[P.CLUSTER_BLOCKS]), bool(self.par[P.CHECKS])
        self.lowered.once(("core is ready", *kind), lambda: prepare_core(state, memory_state, shared))
        return time.perf_counter() - started

    def _state(self, par: np.ndarray, spare: Spare, **more: Any) -> State:
        """more: as for `build_state`."""
        session, program, sms = self.session, self.program, self.session.config.sm.count
        what = program, self.launch, self.parameter_bytes, int(par[P.LOCAL_BYTES]), sms, self._workspace
        try:
            return build_state(par, self.lowered, constant_banks(*what), session.memory, session.threads, spare, **more)
        except MemoryError:
            raise LaunchError("the host lacks room for the state of resident threads", kernel=program.name) from None

    def _bind_to_memory_system(self, seat: Seat | None) -> None:
        """Tell the memory system where the launch's arrays are, and load its code and constants through it."""
        session, program = self.session, self.program
        system = session.engine.memory_system
        system.set_peers(self._peers or session.peers())
        system.set_window(self.options.window)
        if seat is None or seat.beside is None:
            # Clusters go to the emptiest GPC wherever it is, and launches beside others to where there is room.
            asked = self.blocks if program.cluster is None and seat is None else session.config.sm.count
            self.state.sm[:, L.SM_PARTITION : L.SM_WAY + 1] = system.place(asked)
        constants = sum(len(content) for bank, content in program.constant_banks.items() if bank != 0)
        system.fetch(self._code, len(program.instructions) * INSTRUCTION_BYTES, constants)

    def _host(self, state: State) -> Host | None:
        """Return the server of the kernel's calls of the host, if it has any."""
        if not self.lowered.once("calls the host", lambda: M.OP_SYSCALL in state.code[:, M.COL_OP]):
            return None
        place = partial(caller, state, program=self.program, launch=self.launch)
        return partial(self.session.calls.serve, place=place)

    @contextmanager
    def _faults(self, grid: Grid) -> Iterator[None]:
        """Tell in the user's terms what ends a launch early."""
        program, launch, memory = self.program, self.launch, self.session.memory
        try:
            yield
        except MachineStopped as stopped:
            raise fault(grid, stopped.sm, program, launch, memory, self.parameter_bytes) from None
        except CyclesUsedUp:
            raise out_of_cycles(grid, program, launch, memory, self.options.max_cycles) from None
        except NothingMoves:
            raise nothing_moves(grid, program, launch, memory) from None
        except NeverEnds as found:
            raise never_ends(grid, found.warp, program, launch, memory) from None


def session_run(
    session: GpuSession, program: Program, launch: Launch, options: LaunchOptions, copy_back: bool = True
) -> LaunchRun:
    """A launch on a session of its own: its arguments are placed, then the program is linked behind them, since a
    program's variables must not move the arguments to other L2 slices: a kernel is loaded lazily."""
    placed = place_arguments(program, launch, session.memory)
    if options.accel_sim is not None:
        options.accel_sim.arguments(placed)
    linked = session.modules.link(program)
    return LaunchRun(session, linked, launch, placed.parameter_bytes, options, placed if copy_back else None)


def _counted(state: State) -> dict[str, np.ndarray]:
    """Return the counters of the SMs."""
    return {
        "counters": state.counters[0, :-1] if len(state.counters) == 1 else state.counters[:, :-1].sum(axis=0),
        "sm_active_cycles": state.sm[:, L.SM_ACTIVE_CYCLES].copy(),
        "sm_warp_cycles": state.sm[:, L.SM_WARP_CYCLES].copy(),
        "sm_scheduler_cycles": state.sm[:, L.SM_SCHEDULER_CYCLES].copy(),
        "sm_issued": state.sm[:, L.SM_ISSUED].copy(),
        "sm_blocks": state.sm[:, L.SM_LAUNCHED].copy(),
    }
