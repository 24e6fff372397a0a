"""Faults inside a kernel, in the user's terms: from the state of a stopped machine to an exception."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpusim import errors
from gpusim.engine.describe import registers
from gpusim.engine.dispatcher import G_NEXT, G_RUNNING, G_TOTAL
from gpusim.engine.grid import Grid
from gpusim.engine.host_calls import sm_of
from gpusim.engine.sm.mbarrier import parts_of
from gpusim.engine.sm.shadow_clocks import ATOMIC, BULK, COPY, KINDS, LANE_BIT, PC_BIT, READ, WARP_BIT, WRITE
from gpusim.engine.sm.space import WINDOW_BYTES
from gpusim.engine.state import L, P
from gpusim.engine.state.arrays import State
from gpusim.engine.stop import stopped_warp
from gpusim.launch import Launch
from gpusim.launch.memory import DeviceMemory
from isa import Program
from isa import microops as M
from isa.instruction import INSTRUCTION_BYTES, Instruction
from isa.lower import loops

_RETURN_REGISTER = 20
_SPACES = {M.SPACE_SHARED: "shared", M.SPACE_LOCAL: "local", M.SPACE_CONST: "constant"}
_SPACE_OF_ERROR = {
    L.ERROR_BOUNDS: "global", L.ERROR_SHARED_BOUNDS: "shared", L.ERROR_LOCAL_BOUNDS: "local",
    L.ERROR_CONSTANT_BOUNDS: "constant",
}  # fmt: skip
_KINDS = {READ: "read", WRITE: "write", ATOMIC: "atomic", COPY: errors.ASYNC_COPY, BULK: errors.BULK_COPY}


def fault(
    grid: Grid, sm: int, program: Program, launch: Launch, memory: DeviceMemory, parameters: bytes = b""
) -> errors.SimulationError:
    """The exception for the error that an SM has recorded. parameters: the launch's, as the kernel finds them."""
    state = grid.state
    record = state.sm[sm]
    code = int(record[L.SM_ERROR])
    if code == L.ERROR_STOPPED:
        return stopped_warp(state, sm, program)
    warp = int(record[L.SM_ERROR_WARP])
    pc = int(record[L.SM_ERROR_PC])
    place = _place(state, warp, pc, int(record[L.SM_ERROR_LANE]), program, launch)
    address, size = int(record[L.SM_ERROR_ADDRESS]), int(record[L.SM_ERROR_SIZE])
    instruction = program.instructions[min(pc, len(program.instructions) - 1)]
    if code in _ACCESS_ERRORS:
        local = int(state.par[P.LOCAL_BYTES])
        told = np.frombuffer(parameters[: len(parameters) & -8], np.int64).tolist()
        nearest = memory.describe(address, size, told)
        if code == L.ERROR_SHARED_BOUNDS:
            nearest = f"outside the block's {errors.byte_count(program.static_shared_bytes + launch.shared_bytes)}"
        return _access_fault(code, address, size, instruction.opcode, state.code[pc], nearest, local, place)
    other = int(record[L.SM_ERROR_OTHER])
    thread = _thread((other >> WARP_BIT & 1023) * 32 + (other >> LANE_BIT & 31), launch)
    if code == L.ERROR_UNWAITED:
        place["thread"] = thread
        words = "its block ends, and no thread has waited for its group (cp.async.wait_group, after a commit)"
        if other & KINDS == BULK:
            words = f"its block ends, and no thread has seen the end of that phase of its mbarrier, at {address:#x}"
        return errors.SynchronizationError("copy never waited for", words, **place)
    if code == L.ERROR_RACE:
        before = program.instructions[other >> PC_BIT & 0xFFFFF]
        found: dict[str, Any] = {"address": address, "size": size, "access": _access(instruction.opcode)}
        found |= {"other_access": _KINDS[other & KINDS], "committed": other & KINDS != COPY or _commits(state)}
        found |= {"other_file": before.file, "other_line": before.line, "other_instruction": before.text}
        return errors.DataRaceError(other_thread=thread, **found, **place)
    if code == L.ERROR_BARRIER_EXITED:
        total = launch.threads_per_block
        for each in np.flatnonzero(state.warp[:, L.WARP_STATE] == L.WAIT_BARRIER).tolist():
            if sm_of(state, each) == sm:  # the place of a barrier, not of the end of those that have exited
                place = _place(state, each, max(int(state.warp[each, L.WARP_PC]) - 1, 0), None, program, launch)
        return errors.BarrierError(barrier=address, arrived=total - size, expected=total, **place)
    if code in _SYNC_ERRORS:
        problem, named, words = _SYNC_ERRORS[code]
        of = {named: address} if named else {}
        return errors.SynchronizationError(problem, words.format(address, size), **of, **place)
    if code == L.ERROR_NOT_IN_MASK:
        return errors.IllegalInstruction(f"the mask {address:#010x} does not name this thread", mask=address, **place)
    if code == L.ERROR_DEADLOCK:
        waiting = ("lanes of one warp wait for each other",)
        return errors.DeadlockError(cycle=_last_issue(grid), waiting=waiting, **place)
    if code == L.ERROR_POOL:
        return errors.PoolExhausted(pool=L.POOLS[address], size=size, **place)
    reasons = {
        L.ERROR_BAD_TARGET: f"jump to 0x{address & 0xFFFFFFFF:x}, which is outside the kernel's code",
        L.ERROR_CLUSTER: f"shared address 0x{address:x} is one of block {address >> 24} of the cluster, which "
        "does not exist or has ended",
        L.ERROR_CODE_END: "execution ran past the end of the kernel's code",
        L.ERROR_TRAP: "the kernel stopped itself (trap or breakpoint)",
        L.ERROR_UNSUPPORTED: f"{instruction.mnemonic} decodes, but its execution is not modelled",
        L.ERROR_TMEM_BOUNDS: f"{size} columns of tensor memory from {address:#x} on are not all allocated by its block",
        L.ERROR_TMEM_LANES: f"lane {address >> 16} of tensor memory, where the warp has 32 from number {size} on",
        L.ERROR_TMEM_DESCRIPTOR: f"{instruction.opcode} has no product of the instruction descriptor {address:#x}",
        L.ERROR_TMEM_KEPT: f"its block ends with tensor memory allocated: units {address:#x} of 32 columns",
    }
    return errors.KernelError(reasons.get(code, f"error {code}"), **place)


def _commits(state: State) -> bool:
    """Return whether any warp has told its asynchronous copies to belong to a group, or to an mbarrier."""
    rows = np.isin(state.code[:, M.COL_OP], (M.OP_LDGDEPBAR, M.OP_ARRIVES))
    return bool(state.counters[:, rows, L.COUNT_EXECUTED].any())


def caller(state: State, warp: int, lane: int, program: Program, launch: Launch) -> dict[str, Any]:
    """Place of the call by which a lane asks the host for something, as keyword arguments of a KernelError.

    The call's own instruction belongs to no source line; its return address, in R20, lies behind the caller's.
    """
    rows = int(state.par[P.CONST_ROWS]) + warp * int(state.par[P.ROWS_PER_WARP])
    back = int(state.regs[32 * (rows + _RETURN_REGISTER) + lane])
    return _place(state, warp, max(back // INSTRUCTION_BYTES - 1, 0), lane, program, launch)


_ACCESS_ERRORS = (*_SPACE_OF_ERROR, L.ERROR_MISALIGNED, L.ERROR_UNINITIALIZED)
_SYNC_ERRORS = {
    L.ERROR_BARRIER_DIVERGENT: ("divergent threads", "barrier", "{1} threads of a warp arrive at barrier {0} while "
    "this thread, still running, does not"),
    L.ERROR_BARRIER_COUNT: ("thread count", "barrier", "barrier {0} waits for {1:,} threads, which is not a number "
    "of whole warps of the block"),
    L.ERROR_EXITED_IN_MASK: ("exited thread in mask", "mask", "the mask {0:#010x} names lane {1}, which has exited"),
    L.ERROR_TMEM_EARLY: ("product not waited for", "", "column {0} of tensor memory is loaded before anyone has waited "
    "for the product that writes it"),
}  # fmt: skip


def _access_fault(
    code: int, address: int, size: int, opcode: str, row: np.ndarray, near: str, local: int, place: dict
) -> errors.KernelError:
    """An access that is out of bounds, misaligned, to freed memory, or to bytes without contents."""
    copies = int(row[M.COL_OP]) in (M.OP_BULK_COPY, M.OP_LDGSTS)
    if code in _SPACE_OF_ERROR:
        space = _SPACE_OF_ERROR[code]
    elif copies or int(row[M.COL_AUX0]) == M.SPACE_GENERIC:  # an offset in a window, unless it looks like an address
        space = "global" if address >= WINDOW_BYTES else "shared" if copies else "shared or local"
    else:
        space = _SPACES.get(int(row[M.COL_AUX0]), "global")
    nearest = near if space == "global" or code == L.ERROR_SHARED_BOUNDS else None
    if code == L.ERROR_LOCAL_BOUNDS:
        nearest = f"past the thread's stack of {local:,} bytes (for recursion and calls by pointer: cudaLimitStackSize)"
    access = _access_of_copy(row, space) if copies else _access(opcode)
    what: dict[str, Any] = {"address": address, "size": size, "access": access, "space": space}
    what |= {"allocation": nearest, **place}
    if code == L.ERROR_UNINITIALIZED:
        return errors.UninitializedReadError(**what)
    problem = "misaligned" if code == L.ERROR_MISALIGNED else "out of bounds"
    if code == L.ERROR_BOUNDS and nearest is not None and "freed" in nearest:
        problem = "use after free"
    return errors.MemoryAccessError(problem, **what)


def out_of_cycles(
    grid: Grid, program: Program, launch: Launch, memory: DeviceMemory, max_cycles: int | None
) -> errors.CyclesExceeded:
    """The exception for a run past its limit; names a warp that is still running, and what warps wait for."""
    finished = int(grid.dispatch[G_NEXT] - grid.dispatch[G_RUNNING])
    place = _resident(grid.state, program, launch)
    inside = _loop(grid.state, program, place.get("instruction_address", 0) // INSTRUCTION_BYTES)
    own = [each.line for each in map(program.instructions.__getitem__, inside) if each.file == place.get("file")]
    place |= {"line": min(filter(None, own), default=place.get("line"))}  # where its loop begins
    place |= {"finished_blocks": finished, "total_blocks": int(grid.dispatch[G_TOTAL])}
    return errors.CyclesExceeded(max_cycles=max_cycles or 0, waiting=waits(grid, program, memory), **place)


def nothing_moves(grid: Grid, program: Program, launch: Launch, memory: DeviceMemory) -> errors.KernelError:
    """The exception for resident warps none of which can ever issue again: a barrier not reached, or a deadlock."""
    state = grid.state
    at_barrier = np.flatnonzero(state.warp[:, L.WARP_STATE] == L.WAIT_BARRIER).tolist()
    if not at_barrier:
        words = waits(grid, program, memory) or ["no warp can issue"]
        if (state.warp[:, L.WARP_STATE] == L.WAIT_CLUSTER).any():
            words = ["some threads never arrive at the barrier of their cluster"]
        return errors.DeadlockError(cycle=_last_issue(grid), waiting=words, **_resident(state, program, launch))
    warp = next((each for each in at_barrier if _waits_for_block(state, each)), at_barrier[0])
    row = state.warp[warp]
    alive = int(row[L.WARP_ALIVE])
    waiting = _lanes(alive & ~int(row[L.WARP_ACTIVE]))
    pc = int(state.split[warp, L.SPLIT_PC + waiting[0]]) if waiting else int(row[L.WARP_PC])
    if not _waits_for_block(state, warp):
        place = _place(state, warp, pc, None, program, launch)
        return errors.DeadlockError(cycle=_last_issue(grid), waiting=_groups(state, warp, program, alive), **place)
    block, number = state.block[sm_of(state, warp), row[L.WARP_BLOCK]], int(row[L.WARP_BARRIER])
    arrived, expected = (int(block[each + number]) for each in (L.BLOCK_ARRIVED, L.BLOCK_EXPECTED))
    place = _place(state, warp, max(pc - 1, 0), None, program, launch)
    expected = expected or int(block[L.BLOCK_ALIVE])
    return errors.BarrierError(barrier=number, arrived=arrived, expected=expected, **place)


def never_ends(grid: Grid, warp: int, program: Program, launch: Launch, memory: DeviceMemory) -> errors.DeadlockError:
    """The exception for warps that spin for ever, as `warp` does, or whose lanes do while others of the warp wait until
    they have done."""
    state, row = grid.state, grid.state.warp[warp]
    active, alive = int(row[L.WARP_ACTIVE]), int(row[L.WARP_ALIVE])
    place = _place(state, warp, int(state.kept[warp, -2]), None, program, launch)
    if state.par[P.STACK] == 0 or active == alive:
        waiting = waits(grid, program, memory, for_ever=True) or ["the loop at this line never ends"]
        return errors.DeadlockError(cycle=_last_issue(grid), waiting=waiting, **place)
    lanes, waiting = {"spinning": active, "parked": alive & ~active}, _groups(state, warp, program, alive & ~active)
    number = int(row[L.WARP_INDEX])
    return errors.SpinDeadlock(cycle=_last_issue(grid), warp=number, waiting=waiting, **lanes, **place)


def _waits_for_block(state: State, warp: int) -> bool:
    """Return whether a warp at a barrier has lanes at one of the block's: all of them if its lanes have not parted."""
    held = state.split[warp, L.SPLIT_HELD : L.SPLIT_HELD + L.BARRIERS_OF_BLOCK]
    return state.warp[warp, L.WARP_ALIVE] == state.warp[warp, L.WARP_ACTIVE] or bool(held.any())


def _lanes(mask: int) -> list[int]:
    return [lane for lane in range(L.LANES_OF_WARP) if mask >> lane & 1]


def _last_issue(grid: Grid) -> int:
    """Cycle of the launch by which its resident warps have issued for the last time."""
    warps = grid.state.warp
    return int(warps[warps[:, L.WARP_STATE] != L.FREE, L.WARP_SINCE].max(initial=grid.start)) - grid.start


def _groups(state: State, warp: int, program: Program, lanes: int) -> tuple[str, ...]:
    """Say what the groups that some lanes of a warp form wait for, which is each other."""
    groups: dict[int, int] = {}
    for lane in _lanes(lanes):
        pc = int(state.split[warp, L.SPLIT_PC + lane])
        groups[pc] = groups.get(pc, 0) | 1 << lane
    found = []
    for pc, lanes in groups.items():
        where = program.instructions[pc]
        line = "" if where.line is None else f" of line {where.line}"
        found.append(f"lanes {lanes:#010x} wait at {where.opcode}{line} for other lanes of their warp")
    return tuple(found)


def _resident(state: State, program: Program, launch: Launch) -> dict:
    """Place of the first warp that is still resident."""
    warp = next(iter(np.flatnonzero(state.warp[:, L.WARP_STATE] != L.FREE).tolist()), None)
    if warp is None:
        return {"kernel": program.name}
    return _place(state, warp, int(state.warp[warp, L.WARP_PC]), None, program, launch)


def _place(state: State, warp: int, pc: int, lane: int | None, program: Program, launch: Launch) -> dict:
    """Kernel, source line, block, thread and instruction, as keyword arguments of a KernelError."""
    instruction = program.instructions[min(pc, len(program.instructions) - 1)]
    slot = int(state.warp[warp, L.WARP_BLOCK])
    own = state.block[sm_of(state, warp), slot]
    return {
        "kernel": program.name,
        "file": instruction.file,
        "line": instruction.line,
        "block": tuple(own[L.BLOCK_X : L.BLOCK_Z + 1].tolist()) if slot >= 0 else None,
        "thread": None if lane is None else _thread(int(state.warp[warp, L.WARP_INDEX] * 32) + lane, launch),
        "instruction": instruction.text,
        "instruction_address": instruction.address,
    }


def _thread(number: int, launch: Launch) -> errors.Coordinates:
    """Coordinates of a thread of the block by its number."""
    x, y, _ = launch.block
    return number % x, number // x % y, number // (x * y)


def _access(opcode: str) -> str:
    if opcode == "LDGSTS" or opcode.startswith(("UBLKCP", "UTMALDG")):
        return errors.ASYNC_COPY if opcode == "LDGSTS" else errors.BULK_COPY
    if opcode.startswith(("ATOM", "RED")):
        return "atomic"
    return "write" if opcode.startswith("ST") else "read"


def _access_of_copy(row: np.ndarray, space: str) -> str:
    """Say what a copy between global and shared memory does to one of them."""
    kind = M.BULK_LOAD if int(row[M.COL_OP]) == M.OP_LDGSTS else int(row[M.COL_AUX4])
    if (kind & M.BULK_KIND == M.BULK_LOAD) != (space == "shared"):
        return "read"
    return "atomic" if kind & M.BULK_KIND == M.BULK_REDUCE else "write"


def waits(grid: Grid, program: Program, memory: DeviceMemory, for_ever: bool = False) -> list[str]:
    """A sentence for each thing that resident warps wait for, those that most wait for first. for_ever: it is certain
    that none of them ever does anything else, so that one in a loop spins."""
    state = grid.state
    resident = np.flatnonzero(state.warp[:, L.WARP_STATE] != L.FREE).tolist()
    found = Counter(each for warp in resident for each in _of_warp(state, warp, program, memory, for_ever))
    said = [f"{count:,} warp{'s' * (count > 1)} {each}" for each, count in found.most_common()]
    left = int(grid.dispatch[G_TOTAL] - grid.dispatch[G_NEXT])
    if left and said:
        said.insert(1, f"{left:,} block{'s' * (left > 1)} cannot start until one of those that run has ended")
    return said


def _of_warp(state: State, warp: int, program: Program, memory: DeviceMemory, for_ever: bool) -> Iterator[str]:
    row, sm = state.warp[warp], sm_of(state, warp)
    pc = int(row[L.WARP_PC])
    if int(row[L.WARP_STATE]) == L.WAIT_BARRIER:
        yield f"wait at barrier {int(row[L.WARP_BARRIER])} of their block{_line(program.instructions[max(pc - 1, 0)])}"
        return
    if int(row[L.WARP_STATE]) == L.WAIT_CLUSTER:
        yield "wait at the barrier of their cluster"
        return
    if (look := _look(state, sm, warp)) is not None:
        yield _at_mbarrier(state, sm, warp, look, program)
        return
    pc = int(state.kept[warp, -2]) if for_ever else pc  # of `sm.spinning`: its other lanes may have their turn now
    loop = _loop(state, program, pc)
    if any(state.code[k, M.COL_OP] == M.OP_SYNCS for k in loop):
        yield f"look at an mbarrier{_line(program.instructions[pc])}"
        return
    reads = [k for k in loop if state.code[k, M.COL_CLASS] == M.CLS_MEMORY and state.code[k, M.COL_OP] != M.OP_LDC]
    if reads and for_ever:
        place = _address(state, warp, program.instructions[reads[0]])
        what = "a word that nobody writes" if place is None else f"{memory.describe(place, 4)}, which nobody writes"
        yield f"spin{_line(program.instructions[reads[0]])} on {what}"


def _loop(state: State, program: Program, pc: int) -> range:
    """Rows of the loop that an instruction lies in; empty if it lies in none."""
    around = program.once("loops", lambda: loops(state.code))
    return next((range(first, last + 1) for first, last in around if first <= pc <= last), range(0))


def _line(instruction: Instruction) -> str:
    return "" if instruction.line is None else f" (line {instruction.line})"


def _look(state: State, sm: int, warp: int) -> np.ndarray | None:
    """The token with which a warp waits for the phase of an mbarrier."""
    k = int(state.sm[sm, L.SM_WAITING])
    while k > 0 and int(state.token[sm, k - 1, L.TOKEN_WARP]) != warp:
        k = int(state.token[sm, k - 1, L.TOKEN_AFTER])
    return state.token[sm, k - 1] if k > 0 else None


def _at_mbarrier(state: State, sm: int, warp: int, look: np.ndarray, program: Program) -> str:
    """Return which mbarrier a warp waits for, and what its phase lacks."""
    at, line = int(look[L.TOKEN_ADDRESS]), _line(program.instructions[int(look[L.TOKEN_BLOCK]) >> 1])
    low, high = (int(each) for each in state.shared32[sm, at : at + 2])
    expected, missing, nbytes, phase = parts_of.function(low | high << 32)
    address = 4 * at - int(state.warp[warp, L.WARP_BLOCK]) * int(state.par[P.SHARED_STRIDE])
    return (
        f"wait{line} for the mbarrier at {address:#x} of shared memory: in its phase of parity {phase} "
        f"{missing:,} of {expected:,} arrivals are missing, and {nbytes:,} bytes of copies that were announced"
    )


def _address(state: State, warp: int, instruction: Instruction) -> int | None:
    """Address that the first spinning lane reads, where registers alone say it."""
    operand = next((each for each in instruction.operands if each.kind == "mem"), None)
    if operand is None or operand.base is None or operand.ubase is not None:
        return None
    lane = _lanes(int(state.kept[warp, -1]))[0]
    own, first = registers(state, warp), operand.base.index
    return (int(own[f"R{first}"][lane]) | int(own[f"R{first + 1}"][lane]) << 32) + operand.offset
