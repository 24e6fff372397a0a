"""The L2 cache's slices: tags, sectors, replacement, fills from memory, near copies and stores.

A line has one home slice, which writes it back. A line read from the other partition also gets a copy in the slice
of the same index in the reader's partition. Copies are clean; a store takes the sectors it writes out of them. A
set replaces its least recently used line, but first those that only passed through their home to another partition.
This agrees with two measurements on an H200: 132 SMs read 48 MB, each its own part, at full speed (a line is kept
where it is read), and one SM that chases through 48 MB needs 509 cycles (what its own half of the cache cannot
hold, the other half still has).

Stores allocate without a fetch. A sector of which only some bytes were written is dirty but not valid: reading it
fetches the rest, evicting it fetches and writes it. The bytes written are counted, not remembered by position, and
a sector counts as complete when as many bytes as it has were written.
"""

import numpy as np

from gpusim.engine.address_map import quotient_of, set_and_tag
from gpusim.engine.dram import read_memory, write_memory
from gpusim.engine.jit import compiled
from gpusim.engine.memory_state import (
    AGE_MASK,
    AGE_SHIFT,
    CNT_COPY_INVALIDATIONS,
    CNT_EVICTIONS,
    CNT_FILL_SECTORS,
    CNT_HOME_MISS_SECTORS,
    CNT_MERGE_SECTORS,
    CNT_PENDING_HIT_SECTORS,
    COPIED,
    DIRTY_SHIFT,
    LINE_WORDS,
    P_FETCH_SECTORS,
    P_INDICES,
    P_LINES,
    P_MISS,
    P_NEAR_COPY,
    P_PARTITIONS,
    P_SETS,
    P_WAYS,
    PASSED,
    PENDING_SHIFT,
    READY_SHIFT,
    SECTOR_BYTES,
    SECTORS_PER_LINE,
    TAG_SHIFT,
    TICK_BITS,
    TICKS,
    WAYS_MAX,
    WRITTEN_BITS,
    WRITTEN_MASK,
)

FOR_HOME, FOR_COPY, FOR_UPDATE = 0, 1, 2
_ALL = (1 << SECTORS_PER_LINE) - 1
_BYTES = (1 << WRITTEN_BITS) - 1


@compiled
def sectors_of(mask):
    """Number of sectors in a 4-bit mask."""
    return (0x4332322132212110 >> (mask << 2)) & 7


@compiled
def set_start(m, slice_, index):
    """Where the set `index` of a slice starts: its tags, and behind them the other words of its lines."""
    return m[P_LINES] + (slice_ * m[P_SETS] + index) * m[P_WAYS] * LINE_WORDS


@compiled
def find(m, first, tag):
    """Entry of the line with `tag` in the set that starts at `first`, -1 if it is not there."""
    found = -1
    for way in range(m[P_WAYS]):
        found = max(found, way if m[np.uint64(first + way)] >> TAG_SHIFT == tag else -1)
    return first + found if found >= 0 else -1


@compiled
def use(m, first, entry, age):
    """Make `entry`, now `age` uses old, the most recently used of its set."""
    if age != 0:
        limit = age << AGE_SHIFT
        for other in range(np.uint64(first), np.uint64(first + m[P_WAYS])):
            m[other] += np.int64(m[other] & AGE_MASK < limit) << AGE_SHIFT
        m[entry] &= ~AGE_MASK


@compiled
def lookup(m, first, tag):
    """Entry of the line with `tag`, which counts as a use; -1 if it is not there."""
    entry = find(m, first, tag)
    if entry >= 0:
        use(m, first, entry, (m[entry] & AGE_MASK) >> AGE_SHIFT)
    return entry


@compiled
def replace(m, slice_, index, first, tag, now):
    """Give an entry of a set to `tag`: an empty one, else the oldest that only passed through, else the oldest.

    Returns (entry, ticks to wait until there is room to write the old line back).
    """
    ways = m[P_WAYS]
    oldest = 0
    for way in range(ways):
        state = m[np.uint64(first + way)]
        age = (AGE_MASK | PASSED) if state >> TAG_SHIFT == 0 else state & (AGE_MASK | PASSED)
        oldest = max(oldest, age | way)
    entry = first + (oldest & WAYS_MAX)
    wait = 0
    old = m[entry]
    if old >> TAG_SHIFT != 0:
        m[CNT_EVICTIONS] += 1
        dirty = (old >> DIRTY_SHIFT) & _ALL
        if dirty != 0:
            quotient = quotient_of(m, index, old >> TAG_SHIFT)
            partial = sectors_of(dirty & ~old & _ALL)
            if partial != 0:
                m[CNT_MERGE_SECTORS] += partial
                read_memory(m, slice_, quotient, partial, now)
            wait = write_memory(m, slice_, quotient, sectors_of(dirty), now)
    use(m, first, entry, (old & AGE_MASK) >> AGE_SHIFT if old >> TAG_SHIFT != 0 else ways)
    m[entry] = tag << TAG_SHIFT
    m[entry + ways] = 0
    return entry, wait


@compiled
def still_pending(m, entry, sectors, now):
    """How long the `sectors` of a line are still on their way, 0 if they are there; counts them."""
    pending = (m[entry] >> PENDING_SHIFT) & sectors
    if pending == 0:
        return 0
    wait = (m[entry + m[P_WAYS]] >> READY_SHIFT << TICK_BITS) - now
    if wait <= 0:
        m[entry] &= ~(_ALL << PENDING_SHIFT)
        return 0
    m[CNT_PENDING_HIT_SECTORS] += sectors_of(pending)
    return wait


@compiled
def mark_pending(m, entry, sectors, ready, now):
    """Make `sectors` valid from `ready` on; those of an earlier fill that are still on their way wait with them."""
    detail = entry + m[P_WAYS]
    earlier = m[detail] >> READY_SHIFT << TICK_BITS
    if earlier <= now:
        m[entry] &= ~(_ALL << PENDING_SHIFT)
    m[entry] |= sectors | (sectors << PENDING_SHIFT)
    ready = (max(earlier, ready) + TICKS - 1) >> TICK_BITS
    m[detail] = (m[detail] & WRITTEN_MASK) | (ready << READY_SHIFT)


@compiled
def read_home(m, slice_, index, home, quotient, tag, sectors, purpose, now):
    """Read `sectors` of a line at its home slice; return (ticks later than a hit, sectors that were there).

    A miss fetches what is missing, widened to the fetch granularity. purpose: FOR_HOME a reader of the same
    partition, FOR_COPY one of another partition that keeps a copy, FOR_UPDATE an atomic, which also writes.
    """
    first = set_start(m, slice_, index)
    entry = lookup(m, first, tag)
    wait = 0
    if entry < 0:
        entry, wait = replace(m, slice_, index, first, tag, now)
        # Copies outlive the home line, so a line that comes from memory may still have some.
        m[entry] |= COPIED | (PASSED if purpose == FOR_COPY else 0)
    elif purpose != FOR_COPY:
        m[entry] &= ~PASSED
    valid = m[entry] & _ALL
    present = valid & sectors
    missing = sectors & ~valid
    if present != 0:
        wait = max(wait, still_pending(m, entry, present, now))
    if missing != 0:
        fetch = missing
        if m[P_FETCH_SECTORS] == 2:
            fetch |= ((missing & 5) << 1) | ((missing & 10) >> 1)
        elif m[P_FETCH_SECTORS] == 4:
            fetch = _ALL
        fetch &= ~valid
        m[CNT_HOME_MISS_SECTORS] += sectors_of(missing)
        m[CNT_FILL_SECTORS] += sectors_of(fetch)
        late = m[P_MISS] + read_memory(m, slice_, quotient, sectors_of(fetch), now)
        wait = max(wait, late)
        mark_pending(m, entry, fetch, now + wait, now)
    if purpose == FOR_COPY:
        m[entry] |= COPIED
    elif purpose == FOR_UPDATE:
        m[entry] |= sectors << DIRTY_SHIFT
        drop_copies(m, slice_, home, quotient, entry, sectors)
    return wait, present


@compiled
def write_home(m, slice_, index, home, quotient, tag, sectors, sector_bytes, now):
    """Write `sector_bytes` bytes to each of `sectors` at the home slice; return how long room for them takes."""
    first = set_start(m, slice_, index)
    entry = lookup(m, first, tag)
    wait = 0
    if entry < 0:
        entry, wait = replace(m, slice_, index, first, tag, now)
        m[entry] |= COPIED
    m[entry] &= ~PASSED
    whole = sectors
    if sector_bytes < SECTOR_BYTES:
        whole = 0
        detail = entry + m[P_WAYS]
        for sector in range(SECTORS_PER_LINE):
            if (sectors & ~m[entry]) >> sector & 1:
                shift = sector * WRITTEN_BITS
                written = min((m[detail] >> shift & _BYTES) + sector_bytes, SECTOR_BYTES)
                m[detail] = m[detail] & ~(_BYTES << shift) | written << shift
                whole |= (written // SECTOR_BYTES) << sector
    m[entry] |= whole | (sectors << DIRTY_SHIFT)
    drop_copies(m, slice_, home, quotient, entry, sectors)
    return wait


@compiled
def drop_copies(m, slice_, home, quotient, entry, sectors):
    """Take `sectors` out of the copies that other partitions may hold of the line at `entry`.

    The note that there may be copies goes once no sector of any is left.
    """
    if m[entry] & COPIED == 0:
        return
    left = 0
    if m[P_NEAR_COPY] != 0:
        index, tag = set_and_tag(m, home, quotient)
        for partition in range(m[P_PARTITIONS]):
            if partition != home:
                other = slice_ + (partition - home) * m[P_INDICES]
                first = set_start(m, other, index)
                copy = find(m, first, tag)
                if copy >= 0:
                    if m[copy] & sectors:
                        m[CNT_COPY_INVALIDATIONS] += 1
                    m[copy] &= ~(sectors | (sectors << PENDING_SHIFT))
                    left |= m[copy] & _ALL
    if left == 0:
        m[entry] &= ~COPIED
