"""Sets up the compiled core's state for one launch: rows for constants, free slots, empty caches and pools.

Local memory lies in a range of addresses of its own, so that its accesses find their way through the same caches.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpusim.engine.grid import Seat
from gpusim.engine.sm.admission import ROOM
from gpusim.engine.sm.group_matrix import TILE_WORDS
from gpusim.engine.sm.policies import TURN_BITS
from gpusim.engine.sm.readiness import CONSTANT_NOWHERE
from gpusim.engine.sm.shadow_clocks import CHECK_INIT, CHECK_RACE, LANE_COLUMNS, LANE_ROWS, RECORDS, WARP_ROWS
from gpusim.engine.sm.shadow_copies import SEEN_FIELDS
from gpusim.engine.sm.space import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from gpusim.engine.sm.spinning import kept_words
from gpusim.engine.state import layout as L
from gpusim.engine.state.log import nothing_recorded
from gpusim.engine.state.memory import REQ_FIELDS
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
"""What a process keeps of memory that no engine uses."""


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
        self._fresh: set[str] = set()

    def take(self, name: str, shape: tuple[int, ...], dtype: Any = np.int64) -> np.ndarray:
        """An array of this shape with any content, on a 64-byte boundary as the vector loads of executors need."""
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        kept = self._kept.get(name)
        if kept is None or kept.size < nbytes:
            kept = self._kept[name] = aligned_bytes(nbytes)
            self._fresh.add(name)
        return kept[:nbytes].view(dtype).reshape(shape)

    def zeros(self, name: str, shape: tuple[int, ...], rows: int, dtype: Any = np.int64) -> np.ndarray:
        """The same with zeros in its first `rows` rows."""
        array = self.take(name, shape, dtype)
        if name not in self._fresh or array.nbytes < LARGE_BYTES:  # a new mapping has nothing else
            array[:rows] = 0
        self._fresh.discard(name)
        return array


def build_state(
    par: np.ndarray,
    lowered: Lowered,
    banks: np.ndarray,
    memory: DeviceMemory,
    chunks: int,
    spare: Spare | None = None,
    log: dict[str, np.ndarray] | None = None,
    chosen: np.ndarray | None = None,
    recording: tuple[np.ndarray, ...] | None = None,
    seat: Seat | None = None,
) -> L.State:
    """All arrays of a launch, every slot free and every cache of the SMs cold.

    Blocks, but for those of clusters, go to SMs in order, so a grid smaller than the GPU leaves the last SMs without
    any: what only an SM with a block looks at is set up for the others alone. spare: memory of an earlier launch.
    log: arrays of a `tracing.recorder.Recorder`. chosen: the blocks that are run, None for all.
    recording: `State.recorded` and `record_starts` where one is made or read. seat: where launches share the GPU, the
    launch's own; SMs then have all their slots, and what is theirs is that of the launch beside it.
    """
    spare = spare or Spare()
    sms, smsps, slots = int(par[L.P_SM_COUNT]), int(par[L.P_SUB_PARTITIONS]), int(par[L.P_WARP_SLOTS])
    if slots > 1 << TURN_BITS:
        raise LaunchError(f"{slots:,} warps of a scheduler, of which the engine tells {1 << TURN_BITS:,} apart")
    in_order = par[L.P_CLUSTER_BLOCKS] == 0 and seat is None
    nothing = np.zeros(0, np.int64)
    blocks = math.prod(par[L.P_GRID_X : L.P_GRID_Z + 1].tolist()) if chosen is None else len(chosen)
    used = min(sms, blocks) if in_order else sms
    warps = sms * smsps * slots
    code = lowered.once("checked code", lambda: checked_code(lowered))
    of_sms: dict[str, np.ndarray] = {}
    if seat is None or seat.beside is None:
        # Of a row without a block anybody looks at two fields at most; only who keeps requests has blocks on other SMs.
        rows = (sms if par[L.P_MODE] == L.KEEPS_REQUESTS else used) * smsps * slots
        caches, pools = _caches(par, spare, used, seat), _pools(par, spare, code, seat)
        of_sms = {**_of_sms(par, spare, used, rows), **caches, **pools}
    else:
        of_sms = {name: getattr(seat.beside, name) for name in L.OF_SMS}
    state = L.State(
        code=code,
        par=par,
        kept=spare.take("kept", (warps if par[L.P_STACK] else 1, kept_words(lowered.rows_per_warp))),
        chosen=nothing if chosen is None else chosen,
        handed=np.zeros((0 if chosen is None else blocks, 2), np.int64),
        recorded=nothing if recording is None else recording[0],
        record_starts=nothing if recording is None else recording[1],
        counters=np.zeros((chunks, len(code), L.N_FIELDS), np.int64),
        **_memories(par, lowered, banks, memory, spare, used, warps // sms),
        **of_sms,
        **(log or nothing_recorded()),
    )
    state.seats[par[L.P_SEAT]] = state.table_address
    if seat is not None:
        lines = constant_lines(par)
        first = int(par[L.P_CONSTANT_LINE])
        state.constant[:, first : first + lines] = CONSTANT_NOWHERE
        state.loaded[:, first : first + lines] = CONSTANT_NOWHERE
        state.tags[:, L.L_VALID] = 0  # a launch begins with what others have written
        state.tags[:, L.L_WORDS] = 0
    return state


def constant_lines(par: np.ndarray) -> int:
    """Lines of all constant banks of a launch."""
    return BANKS * BANK_BYTES >> int(par[L.P_CONST_SHIFT])


def _of_sms(par: np.ndarray, spare: Spare, used: int, rows: int) -> dict[str, np.ndarray]:
    """Warps, blocks, schedulers and shared memory. used: SMs that get blocks; rows: of warps that do."""
    sms, smsps, slots = int(par[L.P_SM_COUNT]), int(par[L.P_SUB_PARTITIONS]), int(par[L.P_WARP_SLOTS])
    warps, blocks = sms * smsps * slots, int(par[L.P_BLOCK_SLOTS])
    shared = spare.zeros("shared", (sms, blocks * int(par[L.P_SHARED_STRIDE])), used, np.uint8)
    arrays = {
        "preds": spare.take("preds", (16 * warps,), np.uint32), "warp": spare.zeros("warp", (warps, L.W_FIELDS), rows),
        "split": spare.take("split", (warps, L.D_FIELDS)), "ready": np.full((sms * smsps, slots), L.NEVER, np.int64),
        "block_order": np.zeros((sms * smsps, slots), np.int64), "smsp": np.zeros((sms * smsps, L.Q_FIELDS), np.int64),
        "sm": np.zeros((sms, L.S_FIELDS), np.int64), "block": spare.zeros("block", (sms, blocks, L.B_FIELDS), sms),
        "done": spare.take("done", (sms, blocks, 2)), "shared8": shared,
        "shared32": shared.view(np.uint32), "seats": np.zeros(SEATS, np.int64),
    }
    arrays["smsp"][:, L.Q_NEXT] = L.NEVER
    arrays["sm"][:, L.S_CARVEOUT] = -1  # not set yet
    arrays["warp"][:rows, [L.W_BLOCK, L.W_AGE]] = -1
    arrays["warp"][rows:, [L.W_STATE, L.W_SINCE]] = 0
    return arrays


def _memories(
    par: np.ndarray, lowered: Lowered, banks: np.ndarray, memory: DeviceMemory, spare: Spare, used: int, warps: int
) -> dict[str, np.ndarray]:
    """Registers, local, global and constant memory, and what is remembered about them and about shared memory for the
    checks. warps: of an SM."""
    sms = int(par[L.P_SM_COUNT])
    values = constant_rows(lowered, banks)
    regs = spare.take("regs", (32 * (len(values) + sms * warps * lowered.rows_per_warp),), np.uint32)
    regs[: 32 * len(values)] = np.repeat(values, 32)
    shared_bytes = int(par[L.P_BLOCK_SLOTS] * par[L.P_SHARED_STRIDE])
    local_words = warps * int(par[L.P_LOCAL_BYTES]) * 32 // 4
    local = spare.zeros("local", (sms, max(local_words, 32)), used, np.uint32).reshape(-1)
    tables = memory.tables()
    races, inits = int(par[L.P_CHECKS]) & CHECK_RACE, int(par[L.P_CHECKS]) & CHECK_INIT
    slots, of_block = int(par[L.P_BLOCK_SLOTS]), int(par[L.P_WARPS])
    mbarriers = Capacity().mbarriers
    clocks, seen = (1, 1, 1, 1), (1, 1, 1, SEEN_FIELDS)
    if races:
        clocks = (sms, slots, of_block + WARP_ROWS + 2 * mbarriers, 2 * of_block + mbarriers)
        seen = (sms, slots, of_block + mbarriers, SEEN_FIELDS)
    return {
        "regs": regs, "local8": local.view(np.uint8),
        "local32": local, "memory8": tables.arena,
        "memory32": tables.arena.view(np.uint32), "starts": tables.starts,
        "ends": tables.ends, "bank8": banks,
        "bank32": banks.view(np.uint32),
        "shadow": np.zeros((sms, shared_bytes, RECORDS) if races or inits else (1, 1, 1), np.int64),
        "lane_clock": np.zeros((sms * warps, LANE_ROWS, LANE_COLUMNS) if races else (1, 1, 1), np.int64),
        "warp_clock": np.zeros(clocks, np.int64), "copies_seen": np.zeros(seen, np.int64),
        "local_known": np.zeros(local.nbytes if inits else 1, np.uint8),
        "unknown": tables.unknown if inits else np.zeros(1, np.uint8),
    }


def _caches(par: np.ndarray, spare: Spare, used: int, seat: Seat | None) -> dict[str, np.ndarray]:
    """L1, instruction and constant caches, empty. The first of several launches makes them as large as they can be, and
    constants have a part for each seat, which its launch empties."""
    sms, ways = int(par[L.P_SM_COUNT]), par[L.P_ICACHE_WAYS]
    lines = par[L.P_SUB_PARTITIONS] * par[L.P_L0_LINES] + (par[L.P_IL1_SETS] + par[L.P_IL15_SETS]) * ways
    sets, seats = (par[L.P_L1_SETS], 1) if seat is None else (par[L.P_L1_MOST_SETS], SEATS)
    tags = spare.take("tags", (sms, L.L_FIELDS, int(sets * par[L.P_L1_WAYS])))
    icache = spare.zeros("icache", (sms, int(lines), 3), used)
    constant = spare.take("constant", (sms, seats * constant_lines(par)))
    loaded = constant.shape[1] if seat is not None else BANK_BYTES >> int(par[L.P_CONST_SHIFT])
    loaded = spare.take("loaded", (sms, loaded))
    for field, empty in ((L.L_TAG, -1), (L.L_PENDING, 0), (L.L_USED, 0)):
        tags[:used, field] = empty
    icache[:used, :, 0] = -1
    if seat is None:
        constant[:used] = CONSTANT_NOWHERE
        loaded[:used] = CONSTANT_NOWHERE
    order = spare.take("constant_order", (sms, int(par[L.P_CONST_FIRST] + par[L.P_CONST_SECOND])))
    return {"tags": tags, "icache": icache, "constant": constant, "loaded": loaded, "constant_order": order}


def _pools(par: np.ndarray, spare: Spare, code: np.ndarray, seat: Seat | None) -> dict[str, np.ndarray]:
    """What instructions in flight need, and the scratch of the one at hand."""
    room, sms = Capacity(), int(par[L.P_SM_COUNT])
    # Each has a sector of its own, and the load that reaches the limit may ask for some more.
    mshrs = int(par[L.P_MAX_OUTSTANDING]) + ROOM
    places = int(par[L.P_SUB_PARTITIONS]) * L.QUEUE_MOST
    copies = (code[:, M.COL_CLASS] == M.CLS_MEMORY) & (code[:, M.COL_OP] == M.OP_LDGSTS)
    return {
        "token": spare.take("token", (sms, room.tokens, L.T_FIELDS)),
        "bulk": spare.take("bulk", (sms, room.bulk, L.K_FIELDS)),
        "mshr": spare.take("mshr", (sms, mshrs, L.MSHR_FIELDS)),
        "waiting": spare.take("waiting", (sms, L.WAITS_MOST, L.WAIT_FIELDS)),
        "stored": spare.take("stored", (sms, L.STORED_MOST, L.STORED_FIELDS)),
        "request": spare.take("request", (sms, room.requests, REQ_FIELDS)), "requests": np.zeros(sms, np.int64),
        "event_time": spare.take("event_time", (sms, room.events)), "event": spare.take("event", (sms, room.events)),
        "queued": spare.take("queued", (sms, places, L.QUEUED_FIELDS)),
        "queued_lines": spare.take("queued_lines", (sms, places, L.QUEUED_LINES, 3)),
        "queued_values": spare.take("queued_values", (sms, places, 8, 32), np.uint32),
        "queued_address": spare.take("queued_address", (sms, places, 32)),
        "deferred": spare.take("deferred", (sms, room.deferred, L.X_FIELDS)),
        "deferred_address": spare.take("deferred_address", (sms, room.deferred, 32)),
        "deferred_values": spare.take("deferred_values", (sms, room.deferred, 8, 32), np.uint32),
        "address": spare.take("address", (sms, 32)),
        "copy_targets": spare.take("copy_targets", (sms, 32 + 2 * max(int(par[L.P_BANKS]), 32))),
        "copy_lanes": spare.take("copy_lanes", (sms, room.copies if copies.any() or seat else 1, L.COPY_FIELDS)),
        "touched": spare.take("touched", (sms, max(160, 64 + int(par[L.P_BANKS])), 5)),
        "tile": spare.take("tile", (sms * TILE_WORDS,), np.uint32),
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
