"""The L2 cache's slices: tags, sectors, replacement, fills from memory, near copies and stores.

A line has one home slice, which writes it back. A line read from the other partition also gets a copy in the slice of
the same index in the reader's partition, and so does what is written from there in whole sectors: an H200 does not
cross the fabric for what an SM reads back. Copies are clean; a store takes the sectors it writes out of those of other
partitions. A set replaces its least recently used line, home or copy, unless `l2.replacement` says otherwise.

So data take 1.5 times their room. Of what blocks read, copy or add again an H200 still has all of 32 MB, 0.88 of 36,
0.61 of 40, 0.25 of 44, 0.04 of 48: what lies in sets of 16 ways that hold all their lines, if each set is home to
equally many and each line has a copy with a probability of a half. A copy that hits does not touch its home, which
ages: 132 SMs that read the same 40 MB again and again, each its own part, do so at full speed in the end.

Stores allocate without a fetch. A sector of which only some bytes were written is dirty but not valid: reading it
fetches the rest, evicting it fetches and writes it. The bytes written are counted, not remembered by position, and a
sector counts as complete when as many bytes as it has were written.

A request may say that its line goes before all others, or that it persists (`policy`). An H200 then keeps, of regions
with other data read behind them, the lines that came last, in as many ways of a set as are set aside, one at least;
home lines alone. So a further line that persists makes the oldest one normal. An access that says streaming or nothing
leaves a line that is there as it is. What goes first is gone before any older line, and so are its copies.

Dirty lines are written back before they are replaced. Only some lines of a set may be dirty: one more, and the two
oldest of them are written back and stay. Of any amount that an H200 writes it keeps 28.1 MiB, as if each set had at
least seven and at most eight of its sixteen lines dirty.
"""

import numpy as np

from gpusim.engine.memory.dram import read_memory, write_memory
from gpusim.engine.state import compiled, ms
from gpusim.engine.state.address_map import quotient_of, spread

FOR_HOME, FOR_COPY, FOR_UPDATE, FOR_NOBODY = range(4)
_ALL = (1 << ms.SECTORS_PER_LINE) - 1
_DIRTY, _PENDING = _ALL << ms.DIRTY_SHIFT, _ALL << ms.PENDING_SHIFT
_BYTES = (1 << ms.WRITTEN_BITS) - 1
_ORDER = ms.AGE_MASK | ms.FIRST | ms.KEPT


@compiled
def sectors_of(mask):
    """Number of sectors in a 4-bit mask."""
    return (0x4332322132212110 >> (mask << 2)) & 7


@compiled
def set_start(m, slice_, index):
    """Return where the set `index` of a slice starts: its tags, and behind them the other words of its lines."""
    return m[ms.P_LINES] + (slice_ * m[ms.P_SETS] + index) * m[ms.P_WAYS] * ms.LINE_WORDS


@compiled
def find(m, first, tag):
    """Entry of the line with `tag` in the set that starts at `first`, -1 if it is not there."""
    found = -1
    for way in range(m[ms.P_WAYS]):
        found = max(found, way if m[np.uint64(first + way)] >> ms.TAG_SHIFT == tag else -1)
    return first + found if found >= 0 else -1


@compiled
def use(m, first, entry, age):
    """Make `entry`, now `age` uses old, the most recently used of its set."""
    if age != 0:
        limit = age << ms.AGE_SHIFT
        for other in range(np.uint64(first), np.uint64(first + m[ms.P_WAYS])):
            m[other] += np.int64(m[other] & ms.AGE_MASK < limit) << ms.AGE_SHIFT
        m[entry] &= ~ms.AGE_MASK


@compiled
def lookup(m, slice_, target):
    """Entry of the target's line in a slice, -1 if it is not there. It is a use, but for "fifo", and may make the line
    persist or normal."""
    first = set_start(m, slice_, target.set_number)
    entry = find(m, first, target.tag)
    if entry >= 0:
        if m[ms.P_REPLACEMENT] != ms.FIFO:
            use(m, first, entry, (m[entry] & ms.AGE_MASK) >> ms.AGE_SHIFT)
        if target.cls >= ms.CLASS_LAST and slice_ == target.home_slice:
            classify(m, first, entry, target.cls)
    return entry


@compiled
def classify(m, first, entry, cls):
    """Make the line at `entry` of the set that starts at `first` persist, or normal. Only so many lines of a set do:
    with one more the oldest of them is normal again."""
    m[entry] &= ~(ms.FIRST | ms.KEPT)
    if cls == ms.CLASS_LAST:
        m[entry] |= ms.KEPT
        kept, oldest = 0, 0
        for way in range(m[ms.P_WAYS]):
            state = m[np.uint64(first + way)]
            if state & ms.KEPT != 0:
                kept += 1
                oldest = max(oldest, state & ms.AGE_MASK | way)
        if kept > m[ms.P_KEPT_WAYS]:
            m[np.uint64(first + (oldest & ms.WAYS_MAX))] &= ~ms.KEPT


@compiled
def victim(m, first, tag):
    """Return the entry to evict of the set at `first`: an empty one, else the oldest line of those that are to go
    first, have no class, persist. The oldest is the one used least recently or, for "fifo", the first that came;
    "random" takes any that does not persist."""
    ways = m[ms.P_WAYS]
    oldest = 0
    for way in range(ways):
        state = m[np.uint64(first + way)]
        age = _ORDER if state >> ms.TAG_SHIFT == 0 else (state ^ ms.KEPT) & _ORDER
        oldest = max(oldest, age | way)
    entry = first + (oldest & ms.WAYS_MAX)
    if m[ms.P_REPLACEMENT] == ms.RANDOM and oldest & ms.FIRST == 0:
        other = first + spread(m[ms.CNT_EVICTIONS] * ways + tag, ways)
        entry = entry if m[other] & ms.KEPT else other
    return entry


@compiled
def replace(m, slice_, target, now):
    """Give an entry of the target's set in a slice to its tag; return (entry, ticks to wait until there is room to
    write the old line back)."""
    first = set_start(m, slice_, target.set_number)
    entry = victim(m, first, target.tag)
    wait = 0
    age = m[ms.P_WAYS]
    if m[entry] >> ms.TAG_SHIFT != 0:
        m[ms.CNT_EVICTIONS] += 1
        wait = write_back(m, slice_, target.set_number, entry, now)
        age = (m[entry] & ms.AGE_MASK) >> ms.AGE_SHIFT
    use(m, first, entry, age)
    m[entry] = target.tag << ms.TAG_SHIFT | (ms.FIRST if target.cls == ms.CLASS_FIRST else 0)
    m[entry + m[ms.P_WAYS]] = 0
    if slice_ == target.home_slice:
        m[entry] |= ms.COPIED  # copies outlive the home line, so one that comes from memory may still have some
        if target.cls == ms.CLASS_LAST:
            classify(m, first, entry, target.cls)
    return entry, wait


@compiled
def line_in(m, slice_, target, now):
    """`lookup` of the target's line in a slice, or `replace` if it is not there."""
    entry = lookup(m, slice_, target)
    return (entry, np.int64(0)) if entry >= 0 else replace(m, slice_, target, now)


@compiled
def write_back(m, slice_, set_number, entry, now):
    """Write the dirty sectors of a line to memory, so that it is clean; return how long room for them takes.

    What a sector lacks that was written in part is read first.
    """
    dirty = (m[entry] >> ms.DIRTY_SHIFT) & _ALL
    if dirty == 0:
        return 0
    quotient = quotient_of(m, set_number, m[entry] >> ms.TAG_SHIFT)
    partial = dirty & ~m[entry] & _ALL
    if partial != 0:
        m[ms.CNT_MERGE_SECTORS] += sectors_of(partial)
        read_memory(m, slice_, quotient, sectors_of(partial), now)
    m[entry] = (m[entry] | partial) & ~_DIRTY
    return write_memory(m, slice_, quotient, sectors_of(dirty), now)


@compiled
def limit_dirty(m, target, first, now):
    """Write the two oldest dirty lines of a home set back if there are too many; return the wait for room."""
    count = 0
    for way in range(m[ms.P_WAYS]):
        count += np.int64(m[np.uint64(first + way)] & _DIRTY != 0)
    if count <= m[ms.P_DIRTY_WAYS]:
        return 0
    wait = 0
    for _ in range(min(count, 2)):
        oldest = 0
        for way in range(m[ms.P_WAYS]):
            state = m[np.uint64(first + way)]
            oldest = max(oldest, state & ms.AGE_MASK | way if state & _DIRTY != 0 else 0)
        wait = max(wait, write_back(m, target.home_slice, target.set_number, first + (oldest & ms.WAYS_MAX), now))
    return wait


@compiled
def still_pending(m, entry, sectors, now):
    """Return how long the `sectors` of a line are still on their way, 0 if they are there; counts them."""
    pending = (m[entry] >> ms.PENDING_SHIFT) & sectors
    if pending == 0:
        return 0
    wait = (m[entry + m[ms.P_WAYS]] >> ms.READY_SHIFT << ms.TICK_BITS) - now
    if wait <= 0:
        m[entry] &= ~_PENDING
        return 0
    m[ms.CNT_PENDING_HIT_SECTORS] += sectors_of(pending)
    return wait


@compiled
def mark_pending(m, entry, sectors, ready, now):
    """Make `sectors` valid from `ready` on; those of an earlier fill that are still on their way wait with them."""
    detail = entry + m[ms.P_WAYS]
    earlier = m[detail] >> ms.READY_SHIFT << ms.TICK_BITS
    if earlier <= now:
        m[entry] &= ~_PENDING
    m[entry] |= sectors | (sectors << ms.PENDING_SHIFT)
    ready = (max(earlier, ready) + ms.TICKS - 1) >> ms.TICK_BITS
    m[detail] = (m[detail] & ms.WRITTEN_MASK) | (ready << ms.READY_SHIFT)


@compiled
def widened(m, missing):
    """Sectors that are fetched if some are missing."""
    if m[ms.P_FETCH_SECTORS] == 2:
        return missing | ((missing & 5) << 1) | ((missing & 10) >> 1)
    if m[ms.P_FETCH_SECTORS] == 4:
        return _ALL
    return missing


@compiled
def in_order(m, slice_, wait, missed, now):
    """Return how long the answer of a read, `wait` by itself, waits for those of the reads before it.

    A read that hits waits for those of its slice that have missed, whichever SM asks, until `l2.ordered_hits` with it
    have hit. When they will have is not known yet: it takes as long as it took for as many to come last.
    """
    most = m[ms.P_ORDERED_HITS]
    order = m[ms.P_READ_ORDER] + slice_ * (ms.ORDER_HITS + most)
    if missed:
        m[order + ms.ORDER_ANSWERED] = max(m[order + ms.ORDER_ANSWERED], now + wait)
        return wait
    hits = order + ms.ORDER_HITS
    m[hits + m[order + ms.ORDER_COUNT] % most] = now
    m[order + ms.ORDER_COUNT] += 1
    passed = 2 * now - m[hits + m[order + ms.ORDER_COUNT] % most]
    return max(wait, min(m[order + ms.ORDER_ANSWERED], passed) - now)


@compiled
def read_home(m, target, sectors, purpose, now):
    """Read `sectors` of a line at its home slice; return (ticks later than a hit, sectors that were there, fetched).

    A miss fetches what is missing, widened to the fetch granularity. purpose: FOR_HOME a reader of the partition,
    FOR_COPY one of another that keeps a copy, FOR_UPDATE an atomic, which also writes, FOR_NOBODY a prefetch.
    """
    entry, wait = line_in(m, target.home_slice, target, now)
    valid = m[entry] & _ALL
    present = valid & sectors
    missing = sectors & ~valid
    fetch = 0
    if present != 0:
        wait = max(wait, still_pending(m, entry, present, now))
    if missing != 0:
        fetch = widened(m, missing) & ~valid
        m[ms.CNT_HOME_MISS_SECTORS] += sectors_of(missing)
        m[ms.CNT_FILL_SECTORS] += sectors_of(fetch)
        late = m[ms.P_MISS] + read_memory(m, target.home_slice, target.quotient, sectors_of(fetch), now)
        wait = max(wait, late)
        mark_pending(m, entry, fetch, now + wait, now)
    if purpose < FOR_UPDATE:
        wait = in_order(m, target.home_slice, wait, missing != 0, now)
    if purpose == FOR_COPY:
        m[entry] |= ms.COPIED
    elif purpose == FOR_UPDATE:
        m[entry] |= sectors << ms.DIRTY_SHIFT
        drop_copies(m, target, target.home, entry, sectors)
    return wait, present, fetch


@compiled
def write_home(m, target, sectors, sector_bytes, now):
    """Write `sector_bytes` bytes to each of `sectors` at the home slice; return how long room for them takes."""
    first = set_start(m, target.home_slice, target.set_number)
    entry, wait = line_in(m, target.home_slice, target, now)
    whole = sectors if sector_bytes >= ms.SECTOR_BYTES else add_written(m, entry, sectors, sector_bytes)
    clean = m[entry] & _DIRTY == 0
    m[entry] |= whole | (sectors << ms.DIRTY_SHIFT)
    if clean:
        if spread(target.quotient, ms.PROBES_OF) < m[ms.P_PROBES]:
            m[ms.CNT_FABRIC_PROBES] += 1
        wait = max(wait, limit_dirty(m, target, first, now))
    drop_copies(m, target, target.near, entry, sectors)
    return wait


@compiled
def add_written(m, entry, sectors, sector_bytes):
    """Count the bytes written to those of `sectors` that are not valid; return the ones that are complete with them."""
    detail = entry + m[ms.P_WAYS]
    whole = 0
    for sector in range(ms.SECTORS_PER_LINE):
        if (sectors & ~m[entry]) >> sector & 1:
            shift = sector * ms.WRITTEN_BITS
            written = min((m[detail] >> shift & _BYTES) + sector_bytes, ms.SECTOR_BYTES)
            m[detail] = m[detail] & ~(_BYTES << shift) | written << shift
            whole |= (written // ms.SECTOR_BYTES) << sector
    return whole


@compiled
def drop_copies(m, target, writer, entry, sectors):
    """Take `sectors` out of the copies that other partitions than `writer` may hold of the home line at `entry`.

    The note that there may be copies goes once no sector of any is left.
    """
    if m[entry] & ms.COPIED == 0:
        return
    left = 0
    if m[ms.P_NEAR_COPY] != 0:
        for partition in range(m[ms.P_PARTITIONS]):
            if partition == target.home:
                continue
            other = target.home_slice + (partition - target.home) * m[ms.P_INDICES]
            copy = find(m, set_start(m, other, target.set_number), target.tag)
            if partition == writer:
                left = _ALL
            elif copy >= 0:
                if m[copy] & sectors:
                    m[ms.CNT_COPY_INVALIDATIONS] += 1
                m[copy] &= ~(sectors | (sectors << ms.PENDING_SHIFT))
                left |= m[copy] & _ALL
    if left == 0:
        m[entry] &= ~ms.COPIED
