"""Sets up the compiled core's state for one launch: rows for constants, free slots, empty caches and pools.

Local memory lies in a range of addresses of its own, so that its accesses find their way through the same caches.
"""

from __future__ import annotations

import math
import mmap
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpusim.engine.grid import Seat
from gpusim.engine.sm.admission import ROOM
from gpusim.engine.sm.group_matrix import TILE_WORDS
from gpusim.engine.sm.policies import TURN_BITS
from gpusim.engine.sm.shadow_clocks import CHECK_INIT, CHECK_RACE, ENTRY, LANE_COLUMNS, LANE_ROWS, RECORDS, WARP_ROWS
from gpusim.engine.sm.shadow_copies import SEEN_FIELDS
from gpusim.engine.sm.space import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from gpusim.engine.sm.spinning import kept_words
from gpusim.engine.state import L, P
from gpusim.engine.state.arrays import BEGUN, GIVEN, MADE, SHARED, SMS, Array, Clear, State
from gpusim.engine.straight import run_table
from gpusim.errors import LaunchError
from gpusim.launch import Launch
from gpusim.launch.memory import DeviceMemory
from isa import Program
from isa import microops as M
from isa.launch_values import LaunchValues, launch_values
from isa.lower import Lowered

BANKS = 5
BANK_BYTES = 1 << 16
SEATS = 128
"""Launches that share a GPU at most: resident grids of a device of compute capability 5.3 to 9.0, but for 7.2 (CUDA C++
Programming Guide, technical specifications per compute capability)."""
_SPIN_REACH = 16  # instructions before an ATOMS.CAST.SPIN in which its load is looked for


@dataclass(frozen=True)
class Capacity:
    """Room in the SM's queues per lookahead window: far more than its stages can fill."""

    requests: int = 4096
    events: int = 8192
    tokens: int = 4096
    deferred: int = 512
    copies: int = 1024
    bulk: int = 512
    mbarriers: int = 64  # of a block, if they are checked: no more than MBARRIER_BITS of shadow_clocks can tell


def constant_banks(
    program: Program, launch: Launch, parameters: bytes, local_bytes: int, sm_count: int, workspace: int = 0
) -> np.ndarray:
    """All constant banks of a launch, uint8 [BANKS, 65536]: launch values, parameters, the compiler's constants.

    workspace: device address of what blocks of a cooperative launch share, 0 for an ordinary launch.
    Raises LaunchError if parameters or constants do not fit their bank.
    """
    banks = np.zeros((BANKS, BANK_BYTES), np.uint8)
    used = {number: len(content) for number, content in program.constant_banks.items() if number < BANKS}
    used[0] = max(used.get(0, 0), program.parameter_base + len(parameters))
    for number, size in used.items():
        if size > BANK_BYTES:
            words = f"{size:,} bytes in constant bank {number}, which has {BANK_BYTES:,}"
            raise LaunchError(words, kernel=program.name)
    for number, content in program.constant_banks.items():
        if number < BANKS:
            banks[number, : len(content)] = np.frombuffer(content, np.uint8)

    def put(offset: int | None, value: int, size: int = 4) -> None:
        if offset is not None:
            banks[0, offset : offset + size] = np.frombuffer(value.to_bytes(size, "little"), np.uint8)

    where = launch_values(program.arch)
    for k in range(3):
        put(where.block + 4 * k, launch.block[k])
        put(where.grid + 4 * k, launch.grid[k])
    put(where.stack, local_bytes)
    put(where.dynamic_shared, launch.shared_bytes)
    put(where.grid_number, 1, 8)
    put(where.sm_count, sm_count)
    put(where.reserved_shared, program.shared_base)
    # Environment registers 1 and 2 hold the upper and the lower half, as cooperative_groups.h puts them together.
    put(where.environment + 4, workspace >> 32)
    put(where.environment + 8, workspace & 0xFFFFFFFF)
    put(where.shared_window, SHARED_WINDOW, 8)
    put(where.is_cluster, program.cluster is not None)
    _put_cluster(put, where, program.cluster or (1, 1, 1), launch.grid)
    put(where.local_window, LOCAL_WINDOW, 8)
    put(where.parameter_window, PARAMETER_WINDOW + program.parameter_base, 8)
    start = program.parameter_base
    banks[0, start : start + len(parameters)] = np.frombuffer(parameters, np.uint8)
    return banks


def _put_cluster(put: Callable[..., None], where: LaunchValues, cluster: Sequence[int], grid: Sequence[int]) -> None:
    """Writes the launch values of thread block clusters; without any, each block is one, as on an H200."""
    if where.cluster is None or where.clusters is None or where.cluster_reciprocals is None:
        return
    put(where.cluster_blocks, cluster[0] * cluster[1] * cluster[2])
    for k in range(3):
        put(where.cluster + 4 * k, cluster[k])
        put(where.clusters + 4 * k, grid[k] // cluster[k])
        # Rounded up, so that a multiple of the size times this never falls below the whole number.
        reciprocal = np.float32(1 / cluster[k])
        if float(reciprocal) * cluster[k] < 1:
            reciprocal = np.nextafter(reciprocal, np.float32(1))
        put(where.cluster_reciprocals + 4 * k, int(reciprocal.view(np.uint32)))


def constant_rows(lowered: Lowered, banks: np.ndarray) -> np.ndarray:
    """Values of the constant rows, uint32 [rows]: immediates and words of constant banks.

    Raises LaunchError for a bank that no launch fills.
    """
    rows = lowered.const_rows
    values = (rows[:, 1] & 0xFFFFFFFF).astype(np.uint32)
    words = banks.view(np.uint32)
    from_bank = rows[:, 0] == 1
    if (rows[from_bank, 1] >= BANKS).any():
        number = rows[from_bank, 1].max()
        raise LaunchError(f"the code reads constant bank {number}; banks 0 to {BANKS - 1} are modelled")
    values[from_bank] = words[rows[from_bank, 1], rows[from_bank, 2] // 4]
    return values


LARGE_BYTES = 16 << 20
"""An array from here on is a mapping of its own. From 1 MiB on, small launches took 9 ms more: fresh pages."""
_KEPT_BYTES = 512 << 20
"""Most bytes of arrays that a process keeps while no engine uses them."""


class Spare:
    """Arrays of the last launch, for the next one: fresh memory for every launch would cost the host more than a short
    launch itself. One launch at a time may use it; the process keeps one that no engine has any more."""

    _idle: ClassVar[list[Spare]] = []

    @classmethod
    def get(cls) -> Spare:
        try:
            return cls._idle.pop()
        except IndexError:  # none, or another thread was faster
            return cls()

    def give_back(self) -> None:
        if sum(each.nbytes for each in self._kept.values()) <= _KEPT_BYTES:
            self._idle[:] = [self]

    def __init__(self) -> None:
        self._kept: dict[str, np.ndarray] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: type) -> tuple[np.ndarray, bool]:
        """An array of this shape with any content, on a 64-byte boundary as the vector loads of executors need, and
        whether it is known to be all 0."""
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        kept = self._kept.get(name)
        blank = kept is None or kept.size < nbytes
        if kept is None or blank:
            kept = self._kept[name] = aligned_bytes(nbytes)
        return kept[:nbytes].view(dtype).reshape(shape), blank and nbytes >= LARGE_BYTES


def build_state(
    par: np.ndarray,
    lowered: Lowered,
    banks: np.ndarray,
    memory: DeviceMemory,
    chunks: int,
    spare: Spare | None = None,
    log: dict[str, np.ndarray] | None = None,
    chosen: np.ndarray | None = None,
    seat: Seat | None = None,
) -> State:
    """All arrays of a launch, every slot free and every cache of the SMs cold but for those that are given, as the rows
    of `State.ARRAYS` say.

    Blocks, but for those of clusters, go to SMs in order, so a grid smaller than the GPU leaves the last SMs without
    any: what only an SM with a block looks at is cleared for the others alone. spare: memory of an earlier launch.
    log: arrays of a `tracing.recorder.Recorder`, and those that last over launches. chosen: the blocks that are run,
    None for all. seat: where launches share the GPU, the launch's own; SMs then have all their slots, and what is
    theirs is that of the launch beside it.
    """
    if par[P.WARP_SLOTS] > 1 << TURN_BITS:
        slots = int(par[P.WARP_SLOTS])
        raise LaunchError(f"{slots:,} warps of a scheduler, of which the engine tells {1 << TURN_BITS:,} apart")
    spare, beside = spare or Spare(), seat.beside if seat is not None else None
    tables, code = memory.tables(), lowered.once("checked code", lambda: checked_code(lowered))
    given = {"code": code, "par": par, "bank8": banks, "memory8": tables.arena, "starts": tables.starts}
    given |= {"ends": tables.ends, "runs": lowered.once("runs", lambda: run_table(code)), **(log or {})}
    given |= {"chosen": chosen} if chosen is not None else {}
    given |= {"unknown": tables.unknown} if par[P.CHECKS] & CHECK_INIT else {}
    constants = constant_rows(lowered, banks)
    sizes = _sizes(par, lowered, code, len(constants), chosen, seat) | {"chunks": chunks}
    parts = _parts(par, sizes, chosen, seat)
    arrays: dict[str, np.ndarray] = {}
    for each in State.ARRAYS:
        if each.view is not None:
            arrays[each.name] = arrays[each.view].view(each.dtype)
        elif each.name in given:
            arrays[each.name] = given[each.name]
        elif each.owner == SMS and beside is not None:
            arrays[each.name] = getattr(beside, each.name)
        else:
            arrays[each.name] = _made(each, sizes, parts, spare)
        for clear in each.clear:
            if clear.when == BEGUN or (clear.when == SHARED and seat is not None):
                _clear(arrays[each.name], each, clear, parts)
    arrays["regs"][: 32 * len(constants)] = np.repeat(constants, 32)
    state = State(**arrays)
    state.seats[par[P.SEAT]] = state.table_address
    return state


def _made(array: Array, sizes: dict[str, int], parts: dict[str, slice], spare: Spare) -> np.ndarray:
    """An array for the extents of its row, cleared."""
    shape = array.extents(sizes)
    fresh = array.fresh or array.owner == GIVEN
    made, blank = (np.zeros(shape, array.dtype), True) if fresh else spare.take(array.name, shape, array.dtype)
    for clear in array.clear:
        if clear.when == MADE and not (blank and clear.value == 0):
            _clear(made, array, clear, parts)
    return made


def _clear(made: np.ndarray, array: Array, clear: Clear, parts: dict[str, slice]) -> None:
    where: list[Any] = [slice(None) if clear.every else parts.get(str(each), slice(None)) for each in array.shape]
    if clear.field is not None:
        where[array.record_axis] = clear.field
    made[tuple(where)] = clear.value


def constant_lines(par: np.ndarray) -> int:
    """Lines of all constant banks of a launch."""
    return BANKS * BANK_BYTES >> int(par[P.CONST_SHIFT])


def code_lines(par: np.ndarray) -> int:
    """Lines of code that all instruction caches of an SM hold."""
    return int(par[P.SUB_PARTITIONS] * par[P.L0_LINES] + (par[P.IL1_SETS] + par[P.IL15_SETS]) * par[P.ICACHE_WAYS])


def _sizes(
    par: np.ndarray, lowered: Lowered, code: np.ndarray, constants: int, chosen: np.ndarray | None, seat: Seat | None
) -> dict[str, int]:
    """Extents of arrays, by the names that `ARRAYS` has for them. constants: constant rows of the code.

    The first of several launches makes caches as large as they can be; constants have a part for each seat.
    """
    values, room = par.tolist(), Capacity()
    sms, smsps, slots = values[P.SM_COUNT], values[P.SUB_PARTITIONS], values[P.WARP_SLOTS]
    warps, of_block = smsps * slots, values[P.WARPS]
    copies = (code[:, M.COL_CLASS] == M.CLS_MEMORY) & (code[:, M.COL_OP] == M.OP_LDGSTS)
    lines, bank_lines = constant_lines(par), BANK_BYTES >> values[P.CONST_SHIFT]
    local_bytes = max(32 * values[P.LOCAL_BYTES] * warps, 4 * 32)
    shared_bytes = values[P.BLOCK_SLOTS] * values[P.SHARED_STRIDE]
    races, inits = values[P.CHECKS] & CHECK_RACE, values[P.CHECKS] & CHECK_INIT
    sizes = {
        "sms": sms,
        "sub_partitions": sms * smsps,
        "slots": slots,
        "warps": sms * warps,
        "block_slots": values[P.BLOCK_SLOTS],
        "seats": SEATS,
        "instructions": len(code),
        "predicates": 16 * sms * warps,
        "register_words": 32 * (constants + sms * warps * lowered.rows_per_warp),
        "local_bytes": sms * local_bytes,
        "shared_bytes": shared_bytes,
        "kept_warps": sms * warps,
        "kept_words": kept_words(lowered.rows_per_warp),
        "handed_blocks": 0 if chosen is None else len(chosen),
        "l1_lines": values[P.L1_SETS if seat is None else P.L1_MOST_SETS] * values[P.L1_WAYS],
        "icache_lines": code_lines(par),
        "constant_lines": lines if seat is None else SEATS * lines,
        "loaded_lines": bank_lines if seat is None else SEATS * lines,
        "constant_places": values[P.CONST_FIRST] + values[P.CONST_SECOND],
        **{"tokens": room.tokens, "bulk_copies": room.bulk},
        "copies": room.copies if copies.any() or seat else 1,
        # Each has a sector of its own, and the load that reaches the limit may ask for some more.
        "mshrs": values[P.MAX_OUTSTANDING] + ROOM,
        "places": smsps * L.QUEUE_MOST,
        **{"deferred": room.deferred, "requests": room.requests, "events": room.events},
        "touched_lines": max(160, 64 + values[P.BANKS]),
        "copy_words": 32 + 2 * max(values[P.BANKS], 32),
        "tile_words": sms * TILE_WORDS,
        **({"tmem_sms": sms, "tmem_words": L.TMEM_WORDS} if values[P.TMEM] else {}),
        "fields": SEEN_FIELDS,
        **dict.fromkeys(("chosen_blocks", "logged_blocks"), 0),
    }
    if races or inits:
        sizes |= {"checked_sms": sms, "checked_bytes": shared_bytes, "accesses": RECORDS}
    if inits:
        sizes["known_local_bytes"] = sms * local_bytes
    if races:
        sizes |= {"raced_warps": sms * warps, "lane_rows": LANE_ROWS, "lane_columns": LANE_COLUMNS}
        sizes |= {"raced_sms": sms, "raced_blocks": values[P.BLOCK_SLOTS], "seen": of_block + room.mbarriers}
        sizes |= {"rows": 2 * of_block + WARP_ROWS + 2 * room.mbarriers, "columns": 2 * of_block + room.mbarriers}
        sizes["of"] = ENTRY
    return defaultdict(lambda: 1, sizes)  # what neither a check nor a recorder has asked for


def _parts(par: np.ndarray, sizes: dict[str, int], chosen: np.ndarray | None, seat: Seat | None) -> dict[str, slice]:
    """Return the part of these extents that a launch takes: rows of SMs that get a block, and its own constants."""
    sms = sizes["sms"]
    in_order = par[P.CLUSTER_BLOCKS] == 0 and seat is None
    blocks = math.prod(par[P.GRID_X : P.GRID_Z + 1].tolist()) if chosen is None else len(chosen)
    used = min(sms, blocks) if in_order else sms
    # Only who keeps requests has blocks on other SMs than time would.
    with_warps = sms if par[P.MODE] == L.KEEPS else used
    own = slice(int(par[P.CONSTANT_LINE]), int(par[P.CONSTANT_LINE]) + constant_lines(par))
    return {
        "sms": slice(used),
        "warps": slice(sizes["warps"] // sms * with_warps),
        "local_bytes": slice(sizes["local_bytes"] // sms * used),
        "constant_lines": own,
        "loaded_lines": own,
    }


def checked_code(lowered: Lowered) -> np.ndarray:
    """The program's rows, and behind them one that stops a run past the end of the code.

    Loads with which the compiler's loop for a floating-point atomic on shared memory begins (LDS, compute,
    ATOMS.CAST.SPIN with the loaded value, again if another lane was faster) are marked: they are half of an atomic, not
    a race.
    """
    end = np.zeros((1, M.COLUMNS), np.int32)
    end[0, [M.COL_OP, M.COL_CLASS, M.COL_UNIT, M.COL_AUX0]] = M.OP_BPT, M.CLS_CONTROL, M.UNIT_CBU, M.BPT_CODE_END
    end[0, [M.COL_GUARD, M.COL_WBAR, M.COL_RBAR, M.COL_PD0, M.COL_PD1, M.COL_PS0, M.COL_PS1, M.COL_PS2]] = 7
    end[0, [M.COL_A, M.COL_B, M.COL_C, M.COL_CONST]] = -1
    code = np.concatenate([lowered.code, end])
    spins = (code[:, M.COL_OP] == M.OP_ATOM) & (code[:, M.COL_AUX4] >> 8 == M.ATOMIC_CAST_SPIN)
    for k in np.flatnonzero(spins).tolist():
        for before in range(k - 1, max(k - _SPIN_REACH, -1), -1):
            if code[before, M.COL_OP] == M.OP_LOAD and code[before, M.COL_DST] == code[k, M.COL_B]:
                code[before, M.COL_SPIN] = 1
                break
    return code


def aligned_bytes(count: int) -> np.ndarray:
    """uint8 vector of any content that starts on a 64-byte boundary.

    A large one is a mapping of its own, whose memory the system has back when nobody uses it: the C library keeps what
    is freed in between other arrays, up to gigabytes in a process that simulates one machine after the other.
    """
    if count >= LARGE_BYTES:
        return np.frombuffer(mmap.mmap(-1, count), np.uint8)
    raw = np.empty(count + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + count]
