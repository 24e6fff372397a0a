"""Managed memory: which leaves of 64 KB are on the GPU, and what brings those that a kernel asks for.

A page that is not there is a fault. Faults gather in a buffer, and the driver takes them up in batches: it goes through
the blocks of 2 MB of a batch one after the other, and lets the pages be asked for again when it is through. What a
block gets is a rule of its tree: the leaf, then the largest node of the binary tree over the block of which more than
half would be there. Measured on an H200 (`validate/streams/managed.py`): in order from the host 64, 64, 128, 256, 512
KB and 1 MB, six faults a block; one page in every 128 KB brings 64 KB each.

What comes is written by a copy engine, and so into L2: pages that have just come are read at an L2's pace.

A request that has to wait passes crossbar and L2 when it is made, and its reply comes so much later: it holds up
nobody else meanwhile. What a fault's batch takes is known when the fault comes, but for faults that come later, which
wait for what they add; so the requests of one batch go on one after the other, where a GPU lets them go on together.
"""

from numba.core import types

from gpusim.engine.memory import l2
from gpusim.engine.memory.place import target_of
from gpusim.engine.state import memory as ms
from gpusim.engine.state.jit import compiled, compiled_on_demand

_WHERE = (1 << ms.READY_BITS) - 1
_WHOLE = (1 << ms.SECTORS_PER_LINE) - 1
_COUNT_BITS = 16
_COUNT = (1 << _COUNT_BITS) - 1


@compiled
def block_of(m, row, leaf):
    """First word of the block that a leaf of a row lies in."""
    return m[ms.P_MANAGED_BLOCKS] + (m[row + ms.MANAGED_BLOCK] + leaf // ms.BLOCK_LEAVES) * ms.BLOCK_WORDS


@compiled
def word_of(m, row, leaf):
    """The word of a leaf that says where it is."""
    return block_of(m, row, leaf) + ms.BLOCK_LEAF + 2 * (leaf % ms.BLOCK_LEAVES)


@compiled
def stays(m, row, line, writes):
    """Return whether a request goes to host memory, where its leaf shall stay."""
    if m[row + ms.MANAGED_ADVICE] & ms.STAYS_ON_HOST == 0:
        return False
    word = word_of(m, row, (line - m[row + ms.PEER_FIRST]) // ms.LEAF_LINES)
    if m[word] & _WHERE == ms.UNTOUCHED and writes:
        m[word] |= ms.ON_HOST
    return m[word] & ms.ON_GPU == 0


@compiled
def comes_with(m, row, leaf, to):
    """(first leaf, leaves) of what comes with a leaf that one of the two, ON_GPU or ON_HOST, asks for and has not; some
    between may be there."""
    block = leaf - leaf % ms.BLOCK_LEAVES
    most = min(ms.BLOCK_LEAVES, m[row + ms.MANAGED_LEAVES] - block)
    first, count, size = leaf, 1, 2
    while size <= ms.BLOCK_LEAVES:
        start = leaf - leaf % size
        end = min(start + size, block + most)
        there = 0
        for each in range(start, end):
            there += each == leaf or m[word_of(m, row, each)] & to != 0
        if 2 * there > end - start:
            first, count = start, end - start
        size *= 2
    while m[word_of(m, row, first)] & to != 0:
        first, count = first + 1, count - 1
    while m[word_of(m, row, first + count - 1)] & to != 0:
        count -= 1
    return first, count


@compiled
def note_fault(m, row, cycle, ready, leaf, count, to):
    """Writes a group down. Raises ValueError if the record is full."""
    n = m[ms.P_FAULTS]
    if n >= ms.FAULTS_MOST:
        raise ValueError("more faults of managed memory than their record has rows; clear it between launches")
    m[ms.P_FAULTS] = n + 1
    at = m[ms.P_FAULT_ROWS] + n * ms.FAULT_WORDS
    m[at + ms.FAULT_CYCLE], m[at + ms.FAULT_READY] = cycle, ready
    m[at + ms.FAULT_ROW] = (row - m[ms.P_MANAGED_ROWS]) // ms.MANAGED_WORDS
    m[at + ms.FAULT_LEAF], m[at + ms.FAULT_COUNT], m[at + ms.FAULT_TO] = leaf, count, to


@compiled
def make_room(m, row, needed, now):
    """Sends the blocks whose leaves came longest ago back to the host until so many leaves have room; return the ticks
    that this takes. Not measured: as long as the driver's copying to the host."""
    takes = 0
    while m[ms.P_MANAGED_HERE] + needed > m[ms.P_MANAGED_ROOM]:
        oldest, of, first = -1, -1, 0
        for k in range(m[ms.P_MANAGED]):
            other = m[ms.P_MANAGED_ROWS] + k * ms.MANAGED_WORDS
            for leaf in range(0, m[other + ms.MANAGED_LEAVES], ms.BLOCK_LEAVES):
                block = block_of(m, other, leaf)
                moved = m[block + ms.BLOCK_MOVED]
                leaves = moved > 0 and m[block + ms.BLOCK_BATCH] != m[ms.P_FAULT_BATCH]
                if leaves and (oldest < 0 or moved < m[oldest + ms.BLOCK_MOVED]):
                    oldest, of, first = block, other, leaf
        if oldest < 0:  # what the batch itself brings stays
            return takes
        gone = 0
        for leaf in range(first, min(first + ms.BLOCK_LEAVES, m[of + ms.MANAGED_LEAVES])):
            word = word_of(m, of, leaf)
            gone += m[word] & ms.ON_GPU != 0
            m[word] = ms.ON_HOST if m[word] & _WHERE != 0 else ms.UNTOUCHED
        m[oldest + ms.BLOCK_MOVED] = 0
        m[ms.P_MANAGED_HERE] -= gone
        takes += gone * m[ms.P_FAULT_EVICT]
        note_fault(m, of, now >> ms.TICK_BITS, (now + takes) >> ms.TICK_BITS, first, gone, ms.ON_HOST)
    return takes


@compiled
def has_room(m, sm):
    """Return whether the present batch takes another page of an SM."""
    of = m[m[ms.P_FAULT_SMS] + sm]
    full = of >> _COUNT_BITS == m[ms.P_FAULT_BATCH] and of & _COUNT >= m[ms.P_FAULT_SM_MOST]
    return m[ms.P_FAULT_ENTRIES] < m[ms.P_FAULT_MOST] and not full


@compiled
def gather(m, sm, now):
    """A page is asked for: it is of the batch that gathers, or of the next one."""
    if now >= m[ms.P_FAULT_START] or not has_room(m, sm):
        start = now + m[ms.P_FAULT_GATHER]
        if now - m[ms.P_FAULT_END] > m[ms.P_FAULT_PAUSE]:
            start += m[ms.P_FAULT_WAKE]
        m[ms.P_FAULT_START] = max(start, m[ms.P_FAULT_END])
        m[ms.P_FAULT_END] = m[ms.P_FAULT_START]
        m[ms.P_FAULT_BATCH] += 1
        m[ms.P_FAULT_ENTRIES] = 0


@compiled
def ask_page(m, sm, word, page):
    """A page of a leaf that the present batch serves takes its part of the batch's time, once."""
    if m[word + 1] >> page & 1 == 0:
        of = m[ms.P_FAULT_SMS] + sm
        if m[of] >> _COUNT_BITS != m[ms.P_FAULT_BATCH]:
            m[of] = m[ms.P_FAULT_BATCH] << _COUNT_BITS
        m[of] += 1
        m[word + 1] |= 1 << page
        m[ms.P_FAULT_ENTRIES] += 1
        m[ms.P_FAULT_END] += m[ms.P_FAULT_PAGE]


@compiled
def fill_leaf(m, row, sm, leaf, now):
    """A copy engine writes a leaf into L2."""
    first = m[row + ms.PEER_FIRST] + leaf * ms.LEAF_LINES
    for line in range(first, min(first + ms.LEAF_LINES, m[row + ms.PEER_END])):
        l2.write_home(m, target_of(m, sm, line, ms.CLASS_SAME), _WHOLE, ms.SECTOR_BYTES, now)


@compiled_on_demand(types.int64)
def ready_at(m, row, sm, line, writes, now):
    """Ticks from which a line of managed memory is there; a fault if its leaf is not and has not been asked for."""
    at = line - m[row + ms.PEER_FIRST]
    leaf, page = at // ms.LEAF_LINES, at % ms.LEAF_LINES // ms.PAGE_LINES
    word = word_of(m, row, leaf)
    where = m[word] & _WHERE
    collapses = writes and where == ms.ON_GPU | ms.ON_HOST
    if where & ms.ON_GPU != 0 and not collapses:
        ready = m[word] >> ms.READY_BITS
        gathers = m[word + 1] >> ms.LEAF_PAGES == m[ms.P_FAULT_BATCH] and now < m[ms.P_FAULT_START]
        if ready <= now or not gathers or m[word + 1] >> page & 1 != 0:
            return max(ready, now)
        if has_room(m, sm):
            ask_page(m, sm, word, page)
            m[word] = m[ms.P_FAULT_END] << ms.READY_BITS | where
        return m[ms.P_FAULT_END]
    gather(m, sm, now)
    block = block_of(m, row, leaf)
    if m[block + ms.BLOCK_BATCH] != m[ms.P_FAULT_BATCH]:
        m[block + ms.BLOCK_BATCH] = m[ms.P_FAULT_BATCH]
        m[ms.P_FAULT_END] += m[ms.P_FAULT_SERVICE]
        if m[block + ms.BLOCK_MOVED] == 0:
            m[ms.P_FAULT_END] += m[ms.P_FAULT_NEW]
    first, count = (leaf, 1) if collapses else comes_with(m, row, leaf, ms.ON_GPU)
    if collapses:
        m[ms.P_FAULT_END] += m[ms.P_FAULT_COLLAPSE]
    else:
        bring(m, row, sm, first, count, now)
    m[word + 1] = m[ms.P_FAULT_BATCH] << ms.LEAF_PAGES
    ask_page(m, sm, word, page)
    ready = m[ms.P_FAULT_END]
    stays_there = ms.ON_HOST if m[row + ms.MANAGED_ADVICE] & ms.READ_MOSTLY and not writes else 0
    for each in range(first, first + count):
        other = word_of(m, row, each)
        if m[other] & ms.ON_GPU == 0 or collapses:
            m[other] = ready << ms.READY_BITS | ms.ON_GPU | (m[other] & stays_there)
            if each != leaf:
                m[other + 1] = m[ms.P_FAULT_BATCH] << ms.LEAF_PAGES
    m[block + ms.BLOCK_MOVED] = ready
    note_fault(m, row, now >> ms.TICK_BITS, ready >> ms.TICK_BITS, first, count, ms.ON_GPU)
    return ready


@compiled
def bring(m, row, sm, first, count, now):
    """The present batch brings those leaves of a range that are not on the GPU, and makes room for them."""
    needed = 0
    for each in range(first, first + count):
        if m[word_of(m, row, each)] & ms.ON_GPU == 0:
            needed += 1
            fill_leaf(m, row, sm, each, now)
    m[ms.P_FAULT_END] += make_room(m, row, needed, m[ms.P_FAULT_START]) + needed * m[ms.P_FAULT_LEAF]
    m[ms.P_MANAGED_HERE] += needed
