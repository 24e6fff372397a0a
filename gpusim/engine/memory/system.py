"""The memory system beyond the SMs: crossbar, L2 and device memory, one compiled call for each lookahead window.

Requests are visited in order of time, each once, and most get their reply time at once: nothing that comes later can
change it, as every queue serves in the order of visits. Only reads that come to the fabric out of memory wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpusim.config.models import GPUConfig
from gpusim.engine.memory.crossbar import let_cross
from gpusim.engine.memory.l2 import set_start
from gpusim.engine.memory.managed import ready_at, stays
from gpusim.engine.memory.params import make_params, words
from gpusim.engine.memory.peer import row_of, walk_peer, walk_remote
from gpusim.engine.memory.place import places, sm_places, target_of
from gpusim.engine.memory.policy import RATIO_OF
from gpusim.engine.memory.walk import walk_atomic, walk_read, walk_write
from gpusim.engine.state import L, compiled, ms, prefetch
from gpusim.errors import LaunchError
from gpusim.launch.launch import AccessWindow

_AHEAD = 8  # requests whose L2 sets are on their way into the host's caches
_HOST_LINE_BYTES = 64
_WHOLE = (1 << ms.SECTORS_PER_LINE) - 1
_DIRTY = _WHOLE << ms.DIRTY_SHIFT
_LATE_ROWS = ms.LATE_WORDS * np.arange(ms.LATE_MOST)
_ELSEWHERE = 1 << 30  # tags of lines that no simulated address has


@compiled
def prefetch_line(m, sm, line):
    """Start to load the sets in which a request of `sm` for `line` will look: most of a request's cost is waiting."""
    target = target_of(m, sm, line, ms.CLASS_SAME)
    for slice_ in (target.home_slice, target.near_slice):  # often the same one, which costs nothing
        first = set_start(m, slice_, target.set_number)
        for word in range(0, ms.LINE_WORDS * m[ms.P_WAYS], _HOST_LINE_BYTES // 8):
            prefetch(m, first + word)


@compiled
def sort_window(m, req, req_n, order):
    """Fill `order` with (sm, index) of all requests by (time, sm, index); return their number.

    order: int64[total, ORDER_WORDS]. A radix sort: stable, and one pass for a window of up to 2,048 cycles. Raises
    ValueError if `order` has fewer rows.
    """
    total = 0
    for sm in range(req_n.size):
        total += req_n[sm]
    if total > order.shape[0]:
        raise ValueError("the window has more requests than `order` has rows")
    n = 0
    low, high = 1 << 62, 0
    for sm in range(req_n.size):
        for i in range(req_n[sm]):
            time = req[sm, i, ms.REQ_TIME]
            low, high = min(low, time), max(high, time)
            order[n, 0], order[n, 1] = sm, i
            n += 1
    shift = 0
    first = m[ms.P_DIGITS]
    digits = 1 << ms.DIGIT_BITS
    while (high - low) >> shift > 0:
        for digit in range(digits):
            m[first + digit] = 0
        for k in range(n):
            sm, i = order[k, 0], order[k, 1]
            order[k, 2], order[k, 3] = sm, i
            m[first + (((req[sm, i, ms.REQ_TIME] - low) >> shift) & (digits - 1))] += 1
        start = 0
        for digit in range(digits):
            start, m[first + digit] = start + m[first + digit], start
        for k in range(n):
            sm, i = order[k, 2], order[k, 3]
            place = first + (((req[sm, i, ms.REQ_TIME] - low) >> shift) & (digits - 1))
            order[m[place], 0], order[m[place], 1] = sm, i
            m[place] += 1
        shift += ms.DIGIT_BITS
    return n


@compiled
def process_window(m, req, req_n, order, until):
    """Serve all requests of a window and return how many there were.

    m: MemorySystem.state. req: int64[SMs, capacity, REQ_FIELDS], in order of time for each SM; REQ_REPLY is
    written, never below REQ_TIME plus `l2.lookahead_cycles`. req_n: int64[SMs], requests of each SM. order:
    int64[at least the total, ORDER_WORDS], filled with (sm, index) in the order in which they were served: by (time,
    sm, index).
    """
    n = sort_window(m, req, req_n, order)
    m[ms.CNT_REQUESTS] += n
    for k in range(min(n, _AHEAD)):
        prefetch_line(m, order[k, 0], req[order[k, 0], order[k, 1], ms.REQ_LINE])
    for k in range(n):
        if k + _AHEAD < n:
            later = order[k + _AHEAD, 0]
            prefetch_line(m, later, req[later, order[k + _AHEAD, 1], ms.REQ_LINE])
        sm, i = order[k, 0], order[k, 1]
        now = req[sm, i, ms.REQ_TIME] << ms.TICK_BITS
        let_cross(m, now)
        line, sectors, kind = req[sm, i, ms.REQ_LINE], req[sm, i, ms.REQ_SECTORS], req[sm, i, ms.REQ_KIND]
        payload, operations = req[sm, i, ms.REQ_PAYLOAD_BYTES], req[sm, i, ms.REQ_OPS]  # or the policy
        peer = -1
        if m[ms.P_PEERS] > 0 and kind < ms.KIND_SM_READ:
            peer = row_of(m, line, m[ms.P_PEER_ROWS], m[ms.P_PEERS], ms.PEER_WORDS)
        late = 0
        if m[ms.P_MANAGED] > 0 and kind < ms.KIND_SM_READ:
            row = row_of(m, line, m[ms.P_MANAGED_ROWS], m[ms.P_MANAGED], ms.MANAGED_WORDS)
            if row >= 0 and stays(m, row, line, kind >= ms.KIND_ATOMIC):
                peer = row
            elif row >= 0:
                late = ready_at(m, row, sm, line, kind >= ms.KIND_ATOMIC, now) - now
        if peer >= 0:
            reply = walk_peer(m, peer, sm, line, sectors, kind, max(payload, 0), now)
        elif kind <= ms.KIND_CONSTANT:
            past, token = payload == ms.PAST_L1, req[sm, i, ms.REQ_TOKEN] & 0xFFFFFFFF
            reply, late = walk_read(m, sm, line, sectors, kind, past, operations, token, late, now), 0
        elif kind >= ms.KIND_SM_READ:
            reply = walk_remote(m, sm, line, sectors, kind, now)
        elif kind >= ms.KIND_WRITE:
            reply = walk_write(m, sm, line, sectors, kind, payload, operations, now)
        else:
            reply = walk_atomic(m, sm, line, sectors, kind, payload, operations, now)
        req[sm, i, ms.REQ_REPLY] = (reply + late + ms.TICKS - 1) >> ms.TICK_BITS if reply >= 0 else -1
        m[ms.CNT_REQUESTS_KIND + kind] += 1
    let_cross(m, until << ms.TICK_BITS)
    return n


class PeerRow(NamedTuple):
    """Memory of another GPU or of the host: address and bytes; what the links add to a hit in L2, in cycles; bytes a
    cycle of the slowest; numbers of the first and the last link there and back, each below PEERS_MOST but for BUS and
    BUS_BACK; the counter of what is received."""

    address: int
    nbytes: int
    cycles: float
    bytes_per_cycle: float
    there: tuple[int, int]
    back: tuple[int, int]
    counter: int = ms.CNT_PEER_RECEIVED_BYTES


BUS, BUS_BACK = (ms.PEERS_MOST, ms.PEERS_MOST), (ms.PEERS_MOST + 1, ms.PEERS_MOST + 1)


def host_row(config: GPUConfig, latency_us: float, gb_s: float, address: int = 0, nbytes: int = 0) -> PeerRow:
    """The row of host memory, where a load takes so long, over a bus of this rate."""
    per_us = config.gpu.clock_mhz
    more = max(latency_us * per_us - config.l2.mean_latency_cycles, 0)
    return PeerRow(address, nbytes, more, gb_s * 1e3 / per_us, BUS, BUS_BACK, ms.CNT_BUS_RECEIVED_BYTES)


class MemorySystem:
    """One GPU's memory system.

    state: int64[...], what `process_window` takes; see `engine.state.memory`.
    counters: int64[COUNTERS], a view of the state by CNT_ index that the owner may clear between launches.
    slice_sectors: int64[slices], sectors that each slice has looked up. channel_sectors: int64[channels], sectors that
        each memory channel has read and written. Views of the state too.
    """

    def __init__(self, config: GPUConfig, n_sms: int):
        self._params = make_params(config, n_sms)
        self._config = config
        self._bind(words(self._params))
        for index, value in self._params.items():
            self.state[index] = value
        self._places_by_blocks: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.links: np.ndarray | None = None
        self.reset()

    def _bind(self, size: int) -> None:
        """Make the array, of so many words, and the views of it."""
        params, config = self._params, self._config
        # Sets start on the host's cache lines.
        raw = np.zeros(size + _HOST_LINE_BYTES // 8, np.int64)
        skip = -raw.ctypes.data % _HOST_LINE_BYTES // 8
        self.state = raw[skip : skip + size]
        self.counters = self.state[: ms.COUNTERS]
        self._places = self.state[params[ms.P_PLACES] : params[ms.P_PEER_ROWS]]
        self._asked = self.state[params[ms.P_ASKED] : params[ms.P_PEER_PORTS]]
        lines = self.state[params[ms.P_LINES] : params[ms.P_MANAGED_ROWS]]
        self._lines = lines.reshape(-1, ms.LINE_WORDS, int(params[ms.P_WAYS]))
        first = params[ms.P_CHANNEL_STATES]
        channels = self.state[first : first + config.dram.channels * ms.CHANNEL_WORDS].reshape(-1, ms.CHANNEL_WORDS)
        self.channel_sectors = channels[:, ms.CHANNEL_SECTORS]
        self.slice_sectors = self.state[params[ms.P_SLICE_SECTORS] :][: config.l2.slices]
        self.views = self.counters, self.slice_sectors, self.channel_sectors
        self.late = self.state[params[ms.P_LATE] :][: ms.LATE_HEADS + ms.SLOTS]
        self._queues = self.state[ms.QUEUES_AT : params[ms.P_PLACES]]

    def hold_managed(self) -> None:
        """Room for the tables of managed memory, which most launches do without."""
        before = self.state
        size = words(self._params, managed=True)
        if len(before) < size:
            self._bind(size)
            self.state[: len(before)] = before

    def set_peers(self, rows: Sequence[PeerRow]) -> None:
        """Say which addresses lie on other GPUs, for the launches that follow. Raises LaunchError for more rows or
        links than there is room for."""
        if len(rows) > ms.PEERS_MOST:
            raise LaunchError(f"{len(rows)} ranges of memory on other GPUs; a launch may have {ms.PEERS_MOST}")
        others = (row for row in rows if row.there != BUS)
        links = 1 + max((link for row in others for link in (*row.there, *row.back)), default=0)
        if links > ms.PEERS_MOST:
            raise LaunchError(f"arrays on other GPUs over {links} links; a launch may use {ms.PEERS_MOST}")
        first = int(self.state[ms.P_PEER_ROWS])
        for k, row in enumerate(rows):
            self.state[first + k * ms.PEER_WORDS :][: ms.PEER_WORDS] = (
                row.address // ms.LINE_BYTES,
                -(-(row.address + row.nbytes) // ms.LINE_BYTES),
                round(row.cycles * ms.TICKS),
                round(ms.TICKS / row.bytes_per_cycle),
                *row.there,
                *row.back,
                row.counter,
            )
        self.state[ms.P_PEERS] = len(rows)

    def share_links(self, other: MemorySystem) -> None:
        """Have the links to other GPUs in common with another one's memory system."""
        if other.links is None:
            other.links = np.zeros(ms.PEERS_MOST, np.int64)
        self.links = other.links

    def serve(self, requests: np.ndarray, counts: np.ndarray, order: np.ndarray, until: int) -> None:
        """`process_window`, on links that other GPUs use too: as free as these have left them."""
        if self.links is None or self.state[ms.P_PEERS] == 0:
            process_window(self.state, requests, counts, order, until)
            return
        self.peer_links[:] = self.links
        process_window(self.state, requests, counts, order, until)
        self.links[:] = self.peer_links

    @property
    def peer_links(self) -> np.ndarray:
        """Ticks at which each link to other GPUs is free, int64 [PEERS_MOST]: a view of the state."""
        first = int(self.state[ms.P_PEER_PORTS])
        return self.state[first : first + ms.PEERS_MOST]

    def set_aside(self, nbytes: int) -> int:
        """Say how much of L2 persisting lines may take, in whole ways of its sets; returns the bytes that these have.

        One way may persist all the same if nothing is set aside: an H200 keeps 3.7 MB then. Raises LaunchError for more
        than `l2.persisting_max_bytes`.
        """
        l2 = self._config.l2
        if not 0 <= nbytes <= l2.persisting_max_bytes:
            raise LaunchError(f"{nbytes:,} bytes of L2 to set aside; there are {l2.persisting_max_bytes:,}")
        ways = l2.set_aside_ways(nbytes)
        self.state[ms.P_KEPT_WAYS] = max(ways, 1)
        state = self._lines[:, 0]
        age = np.where(state & ms.KEPT != 0, state & ms.AGE_MASK, ms.AGE_MASK)
        rank = np.argsort(np.argsort(age, axis=1, kind="stable"), axis=1)
        state[rank >= self.state[ms.P_KEPT_WAYS]] &= ~ms.KEPT
        return ways * l2.bytes // l2.ways

    def set_window(self, window: AccessWindow | None) -> None:
        """Say what accesses of the launches that follow are for L2; None: normal ones."""
        row = self.state[ms.P_WINDOW_FIRST : ms.P_WINDOW_MISS + 1]
        row[:] = 0
        if window is not None:
            first, end = window.address // ms.LINE_BYTES, -(-(window.address + window.nbytes) // ms.LINE_BYTES)
            ratio = min(int(window.hit_ratio * RATIO_OF) + 1, RATIO_OF) if window.hit_ratio > 0 else 0
            row[:] = first, end, ratio, ms.CLASSES[window.hit], ms.CLASSES[window.miss]

    def reset_persisting(self) -> None:
        """Make all persisting lines normal."""
        self._lines[:, 0] &= ~ms.KEPT

    def has_run(self, code: str) -> bool:
        """True if a program has run since the cache was emptied, so that its code and constants are in L2."""
        return code in self._fetched

    def code_line(self, code: str) -> int:
        """Return how far along a program's code lies in the instruction caches, in lines: behind all that has run."""
        return self._fetched.get(code, self._code_end)

    def instruction_caches(self, lines: int) -> np.ndarray:
        """Return the caches of so many lines an SM, int64 [SMs, lines, 3] as `sm.frontend` has them. H200: a kernel of
        16 KB takes 1,373 cycles a warp when no more than 16 KB of others has run since, 2,433 when 32 KB have."""
        if self._instructions is None:
            self._instructions = np.zeros((len(self._places), lines, 3), np.int64)
            self._instructions[..., 0] = -1
        return self._instructions

    def place(self, blocks: int) -> np.ndarray:
        """Begin a launch of so many blocks on an empty GPU, whose SMs have asked nothing yet; return `sm_places`."""
        self._asked.fill(0)
        rows = int(self.state[ms.P_LATE_ROWS]) + _LATE_ROWS
        self.late[:], self.state[rows], self.late[ms.LATE_FREE] = 0, np.append(rows[1:], 0), rows[0]
        blocks = min(blocks, len(self._places))
        if blocks not in self._places_by_blocks:
            words = np.array(places(self._config, len(self._places), blocks))
            self._places_by_blocks[blocks] = words, sm_places(self._config, words, blocks)
        self._places[:], told = self._places_by_blocks[blocks]
        return told

    def fetch(self, code: str, code_bytes: int, constant_bytes: int) -> None:
        """Counts what a launch reads besides its data. code: tells one program from another; what has run since the
        cache was emptied is there already."""
        if self.has_run(code):
            return
        self._fetched[code] = self._code_end
        self._code_end += -(-code_bytes // self._config.icache.line_bytes)
        l2 = self._config.l2
        code_bytes = -(-code_bytes // l2.launch_code_bytes) * l2.launch_code_bytes
        sectors = -(-(code_bytes + constant_bytes + l2.launch_bytes) // ms.SECTOR_BYTES)
        self.counters[ms.CNT_LAUNCH_SECTORS] += sectors
        if l2.partitions > 1:
            self.counters[ms.CNT_FABRIC_LAUNCH_SECTORS] += sectors + l2.launch_hit_bytes // ms.SECTOR_BYTES

    def _forget_code(self) -> None:
        self._fetched: dict[str, int] = {}
        self._instructions: np.ndarray | None = None
        self._code_end = 0

    def _empty(self) -> None:
        """No line but the dirty ones of other work, three to a set: so 17 % of them are written back while 32 MiB are
        read, as on an H200."""
        self._lines.fill(0)
        sets, _, ways = self._lines.shape
        way = np.arange(min(3, ways))
        count = min(self._config.l2.dirty_before_bytes // self._config.l2.line_bytes // way.size, sets)
        chosen = np.arange(count)[:, None] * sets // max(count, 1)
        self._lines[chosen, 0, way] = (_ELSEWHERE + way) << ms.TAG_SHIFT | way << ms.AGE_SHIFT | _DIRTY | _WHOLE

    def warm_up(self, requests: np.ndarray, count: np.ndarray) -> np.ndarray:
        """Make L2 hold what requests bring, as `process_window` takes them, but in no time. Clears `count`. Returns
        what `counters` would have grown by."""
        kept = self._queues.copy(), self.counters.copy(), self._asked.copy()
        self.late[ms.LATE_FREE] = 0  # none is deferred
        order = np.zeros((max(int(count.sum()), 1), ms.ORDER_WORDS), np.int64)
        process_window(self.state, requests, count, order, 0)
        grown = self.counters - kept[1]
        self._queues[:], self.counters[:], self._asked[:], count[:] = *kept, 0
        return grown

    def keep(self) -> np.ndarray:
        """Everything that it knows now, for `restore`."""
        return self.state.copy()

    def restore(self, kept: np.ndarray) -> None:
        """Be as it was when this was kept."""
        self.state[:] = kept

    @property
    def next_late(self) -> int:
        """Cycle at which another deferred read comes to the fabric, L.NEVER if none does."""
        first, slots = int(self.late[ms.LATE_SLOT]), np.flatnonzero(self.late[ms.LATE_HEADS :])
        apart = int(((slots - first) % ms.SLOTS).min(initial=ms.SLOTS))
        return first + apart if apart < ms.SLOTS else int(L.NEVER)

    def held(self) -> tuple[int, int]:
        """(Lines that launches since the cache was emptied have brought into L2, those of them that are dirty)."""
        state = self._lines[:, 0]
        own = (state >> ms.TAG_SHIFT != 0) & (state >> ms.TAG_SHIFT < _ELSEWHERE)
        return int(own.sum()), int((own & (state & _DIRTY != 0)).sum())

    def room(self) -> tuple[int, int]:
        """(Lines that L2 holds, how many of them may be dirty)."""
        sets, ways = self._lines[:, 0].shape
        return sets * ways, sets * int(self.state[ms.P_DIRTY_WAYS])

    def age(self, lines: int, dirty: float) -> None:
        """Make L2 as if `lines` more had come, a share of them `dirty`, that nobody will ask for again: evenly over its
        sets, in empty places only, as the oldest."""
        state = self._lines[:, 0]
        sets, ways = state.shape
        empty = state >> ms.TAG_SHIFT == 0
        rank = np.cumsum(empty, axis=1)
        fill = empty & (rank <= -(-lines // sets))
        age = np.minimum(np.count_nonzero(~empty, axis=1)[:, None] + rank - 1, ways - 1)
        phase = (np.arange(sets) * 0.618 % 1)[:, None]  # so that sets do not all write back at the same time
        wet = np.floor(age * dirty + phase) > np.floor((age - 1) * dirty + phase)
        new = _ELSEWHERE << ms.TAG_SHIFT | age << ms.AGE_SHIFT | _WHOLE
        state[fill] = (new | np.where(wet, _DIRTY, 0))[fill]

    def flush(self, filled: bool = False) -> int:
        """Empty L2 and the instruction caches as a profiler does; return the bytes that L2 had to write back, which are
        not in `counters` and none that other work had left. filled: leave code where it is, and in L2 what a fill of
        its size does, lines that nobody will ask for, of which the newest are dirty."""
        state = self._lines[:, 0]
        dirty = np.bitwise_count(state[state >> ms.TAG_SHIFT < _ELSEWHERE] & _DIRTY).sum()
        self._empty()
        if filled:
            lines, wet = self.room()
            self.age(wet, 1.0)
            self.age(lines - wet, 0.0)
        else:
            self._forget_code()
        return ms.SECTOR_BYTES * int(dirty)

    def reset(self) -> None:
        """Return to the initial state: caches empty, queues idle, rows closed, counters and time at zero."""
        self.counters.fill(0)
        self._queues.fill(0)
        self.place(len(self._places))
        self._forget_code()
        self._empty()
