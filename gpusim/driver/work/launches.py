"""One launch on its way: what it is, who is told of it, and how it is run.

An `Observer` hears of everything that a program does with the device. When a launch is asked for it may ask for a trace
or for checks of it, for which it has the GPU for itself. The driver has a list of them, and so has a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from simpy import Event

from gpusim import errors
from gpusim.driver.codes import say
from gpusim.driver.outputs.log import LaunchLog
from gpusim.engine.streams import StreamQueue
from gpusim.errors import LaunchError, SimulationError
from gpusim.host.options import DEFAULT_MAX_CYCLES, DEFAULT_STACK_BYTES, LaunchOptions
from gpusim.launch import Launch
from gpusim.launch.launch import AccessWindow
from gpusim.launch.memory import Allocation, DeviceMemory
from gpusim.tracing.recording import TraceOptions
from isa import Program
from isa.demangle import full_name, short_name

if TYPE_CHECKING:
    from gpusim.collectives.result import LinkUse
    from gpusim.device import Device
    from gpusim.driver.objects import LoadedModule, NamedRange
    from gpusim.host.launch_run import LaunchRun
    from gpusim.result import Result

FINDINGS = (errors.DataRaceError, errors.UninitializedReadError, errors.SynchronizationError)
"""Errors that checks find and hardware does not stop at."""
FINDINGS_SAID = 5
"""Launches of one kernel, grid and block whose findings are printed, at most."""
_POINTER_BYTES = 8


@dataclass
class LaunchCall:
    """A launch as a program asked for it.

    number: of all that ran, from 1. program: ready to run; symbol: the kernel's mangled name. parameter_bytes: the
    parameter area of constant bank 0. stream: its handle. module: what the kernel was loaded with, if by a driver.
    window: what accesses are for L2. programmatic: it begins when the one before it lets it. checks, trace: what
    observers want, the flags of `checks_of` and what to record. carveout, stack_bytes: of `LaunchOptions`. nvtx_range:
    around it. correlation: number of the call that asked for it, or 0. gpu: its number in the node. again: as of a
    `Grid`.
    """

    number: int
    symbol: str
    program: Program
    launch: Launch
    parameter_bytes: bytes
    stream: int
    cooperative: bool = False
    module: LoadedModule | None = None
    window: AccessWindow | None = None
    carveout: int = -1
    programmatic: bool = False
    checks: int = 0
    trace: TraceOptions | None = None
    stack_bytes: int = DEFAULT_STACK_BYTES
    nvtx_range: str = ""
    correlation: int = 0
    gpu: int = 0
    again: bool | None = None

    @property
    def name(self) -> str:
        """The kernel as C++ writes it, without return type."""
        return full_name(self.symbol)

    def want_trace(self, options: TraceOptions) -> None:
        """Ask for a trace, beside what others ask for."""
        if self.trace is not None:
            sms, blocks = {*self.trace.sms, *options.sms}, {*self.trace.blocks, *options.blocks}
            options = TraceOptions(sms, blocks, max(self.trace.limit, options.limit))
        self.trace = options


@dataclass(frozen=True)
class CopyCall:
    """A copy or a fill. kind: 'HtoD', 'DtoH', 'DtoD', 'HtoH' or 'fill', whose `source` is the value. stream: a handle;
    pinned: as the host's memory is; correlation: as of a `LaunchCall`. source_gpu, target_gpu: numbers of the GPUs
    whose memory that is, or of the one whose memory the other end is."""

    kind: str
    target: int
    source: int
    nbytes: int
    stream: int
    pinned: bool = True
    correlation: int = 0
    source_gpu: int = 0
    target_gpu: int = 0

    def displace(self, device: Device) -> None:
        """Take out of L2 what a fill or a copy within the GPU takes out that is as large: all, if nothing persists."""
        if self.kind in ("DtoD", "fill") and self.nbytes >= device.config.l2.bytes and not device.set_aside_bytes:
            device.flush_l2(filled=True)


@dataclass(frozen=True)
class JointCall:
    """A GPU's part in a collective, or in messages that are under way at once. nbytes: as the collective counts them.
    how: algorithm and protocol; link: the busiest; both are empty for a GPU alone. gpu, stream,
    correlation: as of a `LaunchCall`. links: what each has carried, of all GPUs together, where that is told.
    """

    name: str
    ranks: int
    nbytes: int
    how: str
    link: str
    gpu: int
    stream: int
    correlation: int = 0
    links: tuple[LinkUse, ...] = ()


class Observer:
    """Hears what a program does with the device; overrides what it wants to know. Times are SM clock cycles since the
    device was made. After `asked` may come `launching`, and after that `launched` or `failed`; of several launches, in
    any order."""

    def began(self, device: Device) -> None:
        """The device is there; nothing has happened on it."""

    def copied(self, copy: CopyCall, cycle: int, began: int) -> None:
        """Bytes were copied, or set, from `began` on."""

    def joined(self, call: JointCall, cycle: int, came: int, began: int) -> None:
        """A GPU came to a collective, which began when the last one had come, and has ended."""

    def waited(self, process: Any, done: Event) -> None:
        """The host of a process has waited for the end of a piece of work of a stream."""

    def asked(self, call: LaunchCall) -> None:
        """The program has asked for a launch: the time to ask for a trace or checks of it."""

    def launching(self, call: LaunchCall, cycle: int) -> None:
        """A launch is about to run, in memory as it is now."""

    def advanced(self, call: LaunchCall, cycles: int, finished: int, issued: int) -> None:
        """It runs: called now and then with its cycles, the blocks that have ended, and the instructions issued."""

    def launched(self, call: LaunchCall, result: Result, cycle: int) -> None:
        """It has ended, at this cycle."""

    def found(self, call: LaunchCall, error: errors.KernelError) -> None:
        """A check found something in a launch, which runs all the same."""

    def failed(self, call: LaunchCall, error: SimulationError, cycle: int) -> None:
        """It ended with an error: a KernelError, or it did not begin."""

    def ranged(self, ended: NamedRange, cycle: int) -> None:
        """A range of the program has ended, or a mark was set, on the host's clock."""

    def close(self) -> None:
        """The program has ended."""


@dataclass(frozen=True)
class Launcher:
    """The means to run launches, and the observers to tell. max_cycles: None for the default. stop: called while one
    runs; may raise an exception that ends it."""

    device: Device
    log: LaunchLog
    observers: Sequence[Observer]
    max_cycles: int | None = None
    stop: Callable[[], None] = lambda: None

    def begin(self, call: LaunchCall, queue: StreamQueue | None = None) -> LaunchRun:
        """Put a launch into a stream of the device, by default behind the work of all, and tell of it from then on. Of
        a failure the user is told. Raises LaunchError, and SimulationError if it cannot run."""

        def advanced(cycles: int, finished: int, _: int, issued: int) -> None:
            self.stop()
            for each in self.observers:
                each.advanced(call, cycles, finished, issued)

        options = replace(
            self._options(call), trace=call.trace, progress=advanced, window=call.window,
            programmatic=call.programmatic, alone=call.checks != 0,
        )  # fmt: skip
        checked = False

        def started(run: LaunchRun) -> None:
            nonlocal checked
            call.again = run.again
            for each in self.observers:
                each.launching(call, run.start)
            checked = bool(call.checks) and self._check(call)

        def ended(run: LaunchRun) -> None:
            if run.error is not None:
                self._failed(call, run.error)
                return
            if not checked:
                self.device.memory.know_all()
            result = run.result
            self.log.add(call.symbol, result, call.number, call.nvtx_range)
            for each in self.observers:
                each.launched(call, result, self.device.now_cycles)

        what = call.program, call.launch, call.parameter_bytes
        try:
            run = self.device.submit(*what, options, queue, listeners=(started, ended))
        except SimulationError as error:
            self._tell_failure(call, error)
            raise
        self.log.number = call.number = max(self.log.number + 1, call.number)
        return run

    def _tell_failure(self, call: LaunchCall, error: SimulationError) -> None:
        for each in self.observers:
            each.failed(call, error, self.device.now_cycles)

    def _failed(self, call: LaunchCall, error: Exception) -> None:
        """Tell of what a launch has ended with."""
        self._tell_failure(call, error if isinstance(error, SimulationError) else LaunchError("it ended with another"))
        if isinstance(error, errors.KernelError):
            self.log.add_failure(call.symbol, call.program, call.launch, call.number, call.nvtx_range)
            say(told(call, error, self.device.memory))
        elif isinstance(error, SimulationError):
            say(f"launch {call.number}, {short_name(call.symbol)}: {error}")

    def _options(self, call: LaunchCall) -> LaunchOptions:
        return LaunchOptions(
            max_cycles=self.max_cycles or DEFAULT_MAX_CYCLES, strict_barriers=False, cooperative=call.cooperative,
            stack_bytes=call.stack_bytes, carveout=call.carveout,
        )  # fmt: skip

    def _check(self, call: LaunchCall) -> bool:
        """Look for what checks find. Other errors are found by the run itself. Returns whether nothing was found."""
        how = replace(self._options(call), checks=call.checks)
        try:
            self.device.check(call.program, call.launch, call.parameter_bytes, how)
        except (*FINDINGS, errors.PoolExhausted) as error:
            count = self.log.add_finding(call.symbol, call.program, call.launch, call.nvtx_range)
            if count <= FINDINGS_SAID:
                say(told(call, error, self.device.memory))
            if count == FINDINGS_SAID:
                say(f"further findings in {short_name(call.symbol)} are counted, not printed")
            for each in self.observers:
                each.found(call, error)
            return False
        except SimulationError:
            return False
        return True


def told(call: LaunchCall, error: errors.KernelError, memory: DeviceMemory) -> str:
    """An error in a launch in words: its number and kernel, the parameters that point to the memory concerned, and the
    text of the source line."""
    words = f"launch {call.number}, {short_name(call.symbol)}: {error}"
    if isinstance(error, (errors.MemoryAccessError, errors.UninitializedReadError)) and error.space == "global":
        words += "".join(_pointers_to(each, call) for each in memory.near(error.address))
    lines = call.program.source.get(error.file or "", [])
    if error.line is not None and 0 < error.line <= len(lines):
        words += f"\n    {error.line}: {lines[error.line - 1].strip()}"
    elif error.line is None:
        words += "\n    its source line is known where it is compiled with lineinfo: cuda.jit(lineinfo=True), -lineinfo"
    return words


def _pointers_to(allocation: Allocation, call: LaunchCall) -> str:
    """A line that says which parameters of a C kernel, from 1, point to an allocation; nothing if none does."""
    if call.program.abi != "c":
        return ""
    area, found = call.parameter_bytes, []
    for each in call.program.parameters:
        words = range(each.offset, each.offset + each.size - _POINTER_BYTES + 1, _POINTER_BYTES)
        values = (int.from_bytes(area[at : at + _POINTER_BYTES], "little") for at in words)
        if any(allocation.address <= value < max(allocation.end, allocation.address + 1) for value in values):
            found.append(str(each.index + 1))
    which = f"parameter {found[0]} points" if len(found) == 1 else f"parameters {', '.join(found)} point"
    return f"\n    {which} to {allocation.label!r}" if found else ""
