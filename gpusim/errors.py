"""Every error that a user's mistake can raise, under one base class.

Each class takes facts as keyword arguments, keeps them as attributes and formats one message from them, so
that a command line prints one clear error and a script can read the fields. `SimulationError` is the base class of
`isa`'s errors too, so that it catches whatever is wrong with a user's program, from its compilation to its run. An
instruction that the simulator does not know is `isa.errors.UnknownInstruction`, named `UnsupportedInstruction` here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from isa.errors import SimulationError
from isa.errors import UnknownInstruction as UnsupportedInstruction  # noqa: F401

Coordinates = tuple[int, int, int]
ASYNC_COPY, BULK_COPY = "asynchronous copy", "bulk copy"
_IS_OVER = {
    ASYNC_COPY: "that thread has to wait for its group (cp.async.wait_group) or mbarrier, others for a barrier then",
    BULK_COPY: "wait for the phase of its mbarrier, or for a barrier behind a thread that has",
}


def nearest(wrong: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name that is most like a wrong one, None if none is. cutoff: least likeness, 0 to 1."""
    import difflib

    return next(iter(difflib.get_close_matches(wrong, list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(wrong: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """'; did you mean ...?' with the nearest of what there is, or nothing."""
    close = nearest(wrong, known, cutoff)
    return f"; did you mean {close}?" if close else ""


class Stopped(SimulationError):
    """A run has come to where it was to stop; the text says what is there. `registers` (uint32 [32]) and `predicates`
    (lanes) are the warp's by name, empty for a stop at a cycle."""

    def __init__(self, text: str, registers: dict[str, Any] | None = None, predicates: dict[str, int] | None = None):
        super().__init__(text)
        self.registers, self.predicates = registers or {}, predicates or {}


class WorkloadError(SimulationError):
    """A program, file, kernel, argument or launch that cannot be what was meant; the message says which."""


class ConfigError(SimulationError):
    """A configuration that cannot be used: unknown key, wrong unit, invalid value, unknown name.

    `key` is the dotted path (None if the error is not about one key), `reason` says what is wrong with it,
    `suggestion` is the nearest real key or name.
    """

    def __init__(self, reason: str, *, key: str | None = None, suggestion: str | None = None, where: str | None = None):
        self.reason, self.key, self.suggestion, self.where = reason, key, suggestion, where
        message = f"{key}: {reason}" if key else reason
        if suggestion:
            message += f"; did you mean {suggestion!r}?"
        super().__init__(f"{where}: {message}" if where else message)


class NodeError(SimulationError):
    """A node of several GPUs that cannot do what was asked: no way between two devices, no such link or device."""


class LaunchError(SimulationError, ValueError, TypeError):
    """A launch that no GPU of this configuration accepts: bad grid or block, too many threads, registers or
    bytes. Also a ValueError and a TypeError, as Python's own functions raise them for such arguments."""

    def __init__(self, reason: str, *, kernel: str | None = None):
        self.reason, self.kernel = reason, kernel
        super().__init__(f"cannot launch {kernel!r}: {reason}" if kernel else f"cannot launch: {reason}")


class ArgumentError(SimulationError):
    """Arguments that do not fit a kernel's parameters. `argument` is its position in the call, None if it is
    the count."""

    def __init__(self, reason: str, *, kernel: str | None = None, argument: int | None = None, name: str | None = None):
        self.reason, self.kernel, self.argument, self.name = reason, kernel, argument, name
        parts = [f"kernel {kernel!r}"] if kernel else []
        if argument is not None:
            parts.append(f"argument {argument}" + (f" ({name!r})" if name else ""))
        super().__init__(": ".join([", ".join(parts), reason] if parts else [reason]))


class SymbolError(SimulationError):
    """A variable that a loaded module does not have. `name` is what was asked for, `names` what there is."""

    def __init__(self, name: str, module: str, names: Sequence[str] = ()):
        self.name, self.module, self.names = name, module, tuple(names)
        shown = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
        there = f"it has {shown}" if self.names else "it has none"
        super().__init__(f"module {module!r} has no variable {name!r}; {there}")


class CheckError(SimulationError):
    """A check was asked for that does not exist. `name` what was asked for, `known` what there is."""

    def __init__(self, name: str, known: Sequence[str]):
        self.name, self.known = name, tuple(known)
        super().__init__(f"there is no check {name!r}; known are {', '.join(known)}{did_you_mean(name, known)}")


class ModeError(SimulationError):
    """A mode was asked for that does not exist, or for something that it does not do."""


class TraceError(SimulationError):
    """A trace was asked for in a way that means nothing, or of something that the GPU does not have."""


class SavedLaunchesError(SimulationError):
    """A file of saved launches that cannot be read, or launches that this machine cannot repeat."""


class OutOfDeviceMemory(SimulationError):
    """An allocation that the simulated GPU has no room for. Sizes in bytes."""

    def __init__(self, *, requested_bytes: int, used_bytes: int, capacity_bytes: int, label: str | None = None):
        self.requested_bytes, self.used_bytes = requested_bytes, used_bytes
        self.capacity_bytes, self.label = capacity_bytes, label
        what = f" for {label!r}" if label else ""
        super().__init__(
            f"out of device memory: {requested_bytes:,} bytes{what} asked for, "
            f"{used_bytes:,} of {capacity_bytes:,} bytes in use"
        )


class KernelError(SimulationError):
    """An error inside a running kernel, with the place where it happened.

    `kernel` name; `file` and `line` of the source; `block` and `thread` as (x, y, z) indices; `instruction` as text
    ('LDG.E R2, [R4.64]'); `instruction_address` its byte offset in the kernel. What is unknown is None and left out.
    """

    def __init__(
        self,
        reason: str,
        *,
        kernel: str | None = None,
        file: str | None = None,
        line: int | None = None,
        block: Coordinates | None = None,
        thread: Coordinates | None = None,
        instruction: str | None = None,
        instruction_address: int | None = None,
    ):
        self.reason, self.kernel, self.file, self.line = reason, kernel, file, line
        self.block, self.thread = block, thread
        self.instruction, self.instruction_address = instruction, instruction_address
        super().__init__(reason + self._place())

    def _place(self) -> str:
        at = None if self.instruction_address is None else f"at {self.instruction_address:#06x}"
        code = None if self.instruction is None else f"'{self.instruction}'"
        words = " ".join(each for each in (code, at) if each)
        source = self.file if self.line is None else f"{self.file}:{self.line}" if self.file else f"line {self.line}"
        parts = (
            self.kernel is not None and f"kernel {self.kernel!r}", source,
            self.block is not None and f"block {_coordinates(self.block)}",
            self.thread is not None and f"thread {_coordinates(self.thread)}", words and f"instruction {words}",
        )  # fmt: skip
        said = ", ".join(part for part in parts if part)
        return f" [{said}]" if said else ""


class MemoryAccessError(KernelError):
    """An access that is out of bounds, misaligned or to freed memory.

    `problem` 'out of bounds', 'misaligned' or 'use after free'; `access` 'read', 'write' or 'atomic'; `space`
    'global', 'shared', 'local' or 'constant'; `address` and `size` in bytes; `allocation` says what lies
    nearest, in the words of `DeviceMemory.describe`.
    """

    def __init__(
        self,
        problem: str,
        *,
        address: int,
        size: int,
        access: str = "access",
        space: str = "global",
        allocation: str | None = None,
        **place: Any,
    ):
        self.problem, self.address, self.size, self.access = problem, address, size, access
        self.space, self.allocation = space, allocation
        reason = f"{problem}: {space} {access} of {byte_count(size)} at address {address:#x}"
        if problem == "misaligned":
            reason += f", which is not a multiple of {size:,}"
        if allocation:
            reason += f", {allocation}"
        super().__init__(reason, **place)


class AssertionFailed(KernelError):
    """An assertion in a kernel that does not hold. `message` is the asserted expression or text, `asserted_at` the
    place `file:line` that the kernel gives, `function` the function there."""

    def __init__(self, message: str, *, asserted_at: str, function: str, **place: Any):
        self.message, self.asserted_at, self.function = message, asserted_at, function
        super().__init__(f"assertion `{message}` failed in {function}, {asserted_at}", **place)


class KernelRaised(KernelError):
    """A Python exception that a kernel compiled with `debug=True` raised. `exception` is its text."""

    def __init__(self, exception: str, **place: Any):
        self.exception = exception
        super().__init__(f"the kernel raised {exception}", **place)


class BarrierError(KernelError):
    """A barrier that some threads of a block never reach. `arrived` and `expected` count threads."""

    def __init__(self, *, barrier: int, arrived: int, expected: int, **place: Any):
        self.barrier, self.arrived, self.expected = barrier, arrived, expected
        super().__init__(
            f"barrier {barrier} is never completed: {arrived:,} of {expected:,} threads arrived "
            "and the others have exited or wait elsewhere",
            **place,
        )


class UninitializedReadError(KernelError):
    """A read of memory that nothing has written. Only with `check="initcheck"`.

    `access` 'read' or 'atomic'; `space` 'global', 'shared' or 'local'; `address` and `size` of the access in bytes;
    `allocation` in the words of `DeviceMemory.describe`, for global memory.
    """

    def __init__(
        self, *, address: int, size: int, access: str, space: str, allocation: str | None = None, **place: Any
    ):
        self.address, self.size, self.access, self.space, self.allocation = address, size, access, space, allocation
        reason = f"uninitialized read: {space} {access} of {byte_count(size)} at address {address:#x}"
        reason += f", {allocation}," if allocation else ""
        super().__init__(reason + " to which nothing has been written", **place)


class DataRaceError(KernelError):
    """Two accesses to one place in shared memory, one of them at least a plain write, without a barrier between them;
    or an access to what an asynchronous copy writes that has not been waited for. Only with `check="racecheck"`.

    `hazard` 'read after write', 'write after read' or 'write after write'; `address` and `size` of the later access in
    bytes; `access` its kind, 'read', 'write', 'atomic', 'asynchronous copy' or 'bulk copy'. The place of the error is
    that of the later one; `other_access`, `other_thread`, `other_file`, `other_line` and `other_instruction` say who
    was there before. committed: False where the kernel has never committed a group of asynchronous copies.
    """

    def __init__(
        self,
        *,
        address: int,
        size: int,
        access: str,
        other_access: str,
        other_thread: Coordinates,
        other_file: str | None = None,
        other_line: int | None = None,
        other_instruction: str | None = None,
        committed: bool = True,
        **place: Any,
    ):
        self.address, self.size, self.access, self.other_access = address, size, access, other_access
        self.other_thread, self.other_file, self.other_line = other_thread, other_file, other_line
        self.other_instruction = other_instruction
        kinds = ["read" if kind == "read" else "write" for kind in (access, other_access)]
        self.hazard = f"{kinds[0]} after {kinds[1]}"
        where = f", {other_file}:{other_line}" if other_file and other_line else ""
        code = f", instruction '{other_instruction}'" if other_instruction else ""
        missing = "with no barrier between the two"
        if other_access in _IS_OVER:
            missing = f"which may still be on its way: {_IS_OVER[other_access]}"
        if not committed:
            missing = "which belongs to no group, since none is committed (cp.async.commit_group): no wait waits for it"
        super().__init__(
            f"data race: shared {access} of {byte_count(size)} at address {address:#x} after the {other_access} by "
            f"thread {_coordinates(other_thread)}{where}{code}, {missing}",
            **place,
        )


class SynchronizationError(KernelError):
    """A barrier used in a way that CUDA leaves undefined, only with `check="synccheck"`; an asynchronous copy into
    shared memory, or a product in tensor memory, for which nobody waits, only with `check="racecheck"`.

    `problem` 'divergent threads', 'thread count', 'exited thread in mask', 'copy never waited for' or 'product not
    waited for'; `barrier` its number for barriers of the block; `mask` of lanes for those of a warp.
    """

    def __init__(
        self, problem: str, explanation: str, *, barrier: int | None = None, mask: int | None = None, **place: Any
    ):
        self.problem, self.barrier, self.mask = problem, barrier, mask
        super().__init__(f"{problem}: {explanation}", **place)


class IllegalInstruction(KernelError):
    """A shuffle, vote, match or reduction of a warp by a lane that its `mask` does not name."""

    def __init__(self, explanation: str, *, mask: int, **place: Any):
        self.mask = mask
        super().__init__(f"illegal instruction: {explanation}", **place)


class DeadlockError(KernelError):
    """No warp can ever run again. `cycle` is when that was found; `waiting` says what each stuck warp waits for."""

    def __init__(self, *, cycle: int, waiting: Sequence[str] = (), **place: Any):
        self.cycle, self.waiting = cycle, tuple(waiting)
        shown = "; ".join(self.waiting[:4])
        more = f"; and {len(self.waiting) - 4:,} more" if len(self.waiting) > 4 else ""
        super().__init__(f"deadlock at cycle {cycle:,}" + (f": {shown}{more}" if shown else ""), **place)


class SpinDeadlock(DeadlockError):
    """Lanes of a warp spin for ever, and others of it wait until they have done: only with `issue.reconvergence =
    "stack"`, as on GPUs before Volta. `warp` of its block; `spinning` and `parked` are masks of its lanes."""

    def __init__(self, *, cycle: int, warp: int, spinning: int, parked: int, waiting: Sequence[str], **place: Any):
        spins = (
            f"lanes {spinning:#010x} of warp {warp} spin in a loop at this line, in which nothing changes any more",
            *waiting[:2],
            'a warp with one program counter, as before Volta (issue.reconvergence = "stack"), lets lanes that wait '
            "go on only when those that run have come to where they meet, and these never do",
        )
        super().__init__(cycle=cycle, waiting=spins, **place)
        self.warp, self.spinning, self.parked = warp, spinning, parked


class PoolExhausted(KernelError):
    """The simulator has a fixed number (`size`) of something (`pool`), and the kernel needed more at one time."""

    def __init__(self, *, pool: str, size: int, **place: Any):
        self.pool, self.size = pool, size
        super().__init__(f"more {pool} than the simulator has room for ({size:,})", **place)


class CyclesExceeded(KernelError):
    """The run passed `max_cycles`. `finished_blocks` of `total_blocks` had ended by then; `waiting` says for what
    warps waited."""

    def __init__(
        self,
        max_cycles: int,
        *,
        finished_blocks: int | None = None,
        total_blocks: int | None = None,
        waiting: Sequence[str] = (),
        **place: Any,
    ):
        self.max_cycles, self.finished_blocks, self.total_blocks = max_cycles, finished_blocks, total_blocks
        reason = f"not finished after max_cycles = {max_cycles:,} cycles"
        if finished_blocks is not None and total_blocks is not None:
            reason += f" ({finished_blocks:,} of {total_blocks:,} blocks done)"
        self.waiting = tuple(waiting)
        super().__init__(reason + "".join(f"; {each}" for each in self.waiting[:4]), **place)


def byte_count(size: int) -> str:
    """'1 byte', '2,048 bytes'."""
    return f"{size:,} byte" if size == 1 else f"{size:,} bytes"


def _coordinates(index: Coordinates) -> str:
    return "(" + ", ".join(str(i) for i in index) + ")"
