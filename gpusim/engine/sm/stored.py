"""Stores that wait in the SM for their way to L2.

A line that is stored to waits until its store has had its turns of the data stage and 8 cycles more; then lines leave
in order, one a cycle while the way takes them; two of those written in part take a turn of that stage (32 warps with
loads of 32 turns and stores of 32 lines: 48 to 51 for a store, 65 without loads). A store to a line that waits joins
it, of whichever warp, and makes it wait anew. Loads neither hold lines up nor drive them out. On an H200 a second store
to the same 1, 2, 4, 8 or 16 lines joins if it comes within 10, 12, 15, 24 or 42 cycles, whatever comes between; to 5
lines with one turn within 12.
"""

import numpy as np

from gpusim.engine.sm.flight import hold_flits, send
from gpusim.engine.state import L, P, compiled, ms, popc

_WORD_BYTES = 4
_WAY_CYCLES = 20
"""The way holds lines for so many cycles, which nothing joins. H200: of 16 that it takes one of in 3 cycles 9 have left
9 cycles after the first could, 15 after 25."""


@compiled
def words_of(sectors):
    """All words of sectors of a line."""
    low = (sectors & 1) * 0xFF | (sectors & 2) * 0x7F80
    return np.int64(low | (sectors & 4) * 0x3FC000 | (sectors & 8) * 0x1FE00000)


@compiled
def store_cycles(par, sectors, whole):
    """Cycles that a line with so many sectors keeps the way to L2 busy: one each, and one for which bytes are meant.

    H200: whole lines take 4 cycles, lines of which a quarter is written in all sectors 5, one sector of a line 2.
    """
    return max(popc(sectors) + (0 if whole else 1), par[P.STORE_LINE])


@compiled
def first_leaves(st, sm):
    """Cycle at which the oldest line leaves; NEVER if there is none, or if L2 takes no further one now."""
    s = st.sm[sm]
    if s[L.SM_STORED] == 0 or s[L.SM_FLITS] >= st.par[P.MAX_FLITS]:
        return L.NEVER
    ready = st.stored[sm, s[L.SM_STORED_FIRST], L.STORED_READY]
    return max(max(s[L.SM_STORE_LEFT] + 1, s[L.SM_STORE_FREE] - _WAY_CYCLES), ready)


@compiled
def send_first(st, sm, time):
    """The oldest line leaves."""
    s = st.sm[sm]
    line = st.stored[sm, s[L.SM_STORED_FIRST]]
    s[L.SM_STORED_FIRST] = (s[L.SM_STORED_FIRST] + 1) % L.STORED_MOST
    s[L.SM_STORED] -= 1
    s[L.SM_STORE_LEFT] = time
    time = max(time, s[L.SM_STORE_FREE])
    sectors = line[L.STORED_SECTORS]
    whole = line[L.STORED_WORDS] == words_of(sectors)
    s[L.SM_DATA_FREE] += not whole and s[L.SM_STORED_FIRST] % 2 == 1 and s[L.SM_STORE_LEFT] < s[L.SM_DATA_FREE]
    s[L.SM_STORE_FREE] = time + store_cycles(st.par, sectors, whole)
    hold_flits(st, sm, line[L.STORED_TOKEN], 1, max(popc(sectors), 2))
    size = popc(sectors) * ms.SECTOR_BYTES
    bytes_ = size if whole else min(line[L.STORED_BYTES], size - 1)
    kind = np.int64(ms.KIND_WRITE if whole else ms.KIND_WRITE_PARTIAL)
    what = 2 * line[L.STORED_TOKEN]
    send(st, sm, time + st.par[P.L1_REQUEST], line[L.STORED_LINE], sectors, kind, what, bytes_, line[L.STORED_POLICY])


@compiled
def send_stored(st, sm, until):
    """Lines leave that can before `until`."""
    time = first_leaves(st, sm)
    while time < until:
        send_first(st, sm, time)
        time = first_leaves(st, sm)


@compiled
def take_turns(st, sm, lines, time):
    """True if sub-partitions that store so many lines at a time push each other's out.

    Here sub-partitions store in the order of issue. On an H200 the queues that are not empty take turns, so lines of
    others come between those of one: fields that four warps store join nothing if they have 8 lines, of 6 nine in ten.
    """
    smsps = st.par[P.SUB_PARTITIONS]
    count = 0
    for q in range(sm * smsps, (sm + 1) * smsps):
        smsp = st.smsp[q]
        count += smsp[L.SMSP_LEAVES + (smsp[L.SMSP_ENTERED] - 1) % L.QUEUE_MOST] >= time
    return lines * max(count, 1) >= st.par[P.STORED_LINES]


@compiled
def join_stored(st, sm, q, line, sectors, words, bytes_, ready, turns):
    """True if a line that waits has taken in what sub-partition q stores there; it leaves from `ready` on.

    turns: True if the lines of other sub-partitions push out its own before its next store, see `take_turns`.
    """
    s = st.sm[sm]
    for n in range(s[L.SM_STORED] - 1, -1, -1):
        waits = st.stored[sm, (s[L.SM_STORED_FIRST] + n) % L.STORED_MOST]
        if waits[L.STORED_LINE] == line:
            if turns and waits[L.STORED_SMSP] == q:
                return False
            new = popc(words & ~waits[L.STORED_WORDS]) * _WORD_BYTES if words != 0 else bytes_
            waits[L.STORED_BYTES] += new
            waits[L.STORED_SECTORS] |= sectors
            waits[L.STORED_WORDS] |= words
            waits[L.STORED_READY] = max(waits[L.STORED_READY], ready)
            return True
    return False


@compiled
def store_line(st, sm, a, line, sectors, words, bytes_, time, ready, token):
    """A line waits from `time` to `ready`; if all room is taken, the oldest goes first. Returns when it has room."""
    s = st.sm[sm]
    if s[L.SM_STORED] >= st.par[P.STORED_LINES]:
        first = st.stored[sm, s[L.SM_STORED_FIRST]]
        first[L.STORED_READY] = min(first[L.STORED_READY], time)
        leaves = max(max(s[L.SM_STORE_LEFT] + 1, s[L.SM_STORE_FREE] - _WAY_CYCLES), first[L.STORED_READY])
        send_first(st, sm, leaves)
        time = max(time, leaves)
    waits = st.stored[sm, (s[L.SM_STORED_FIRST] + s[L.SM_STORED]) % L.STORED_MOST]
    s[L.SM_STORED] += 1
    waits[L.STORED_LINE] = line
    waits[L.STORED_SECTORS] = sectors
    waits[L.STORED_WORDS] = words
    waits[L.STORED_BYTES] = bytes_
    waits[L.STORED_READY] = max(ready, time)
    waits[L.STORED_TOKEN] = token
    waits[L.STORED_POLICY] = a.policy
    waits[L.STORED_SMSP] = a.smsp
    return time


@compiled
def behind_stored(st, sm, time):
    """Cycle from which a load that misses at `time` has the way, behind the lines that wait and may still be joined.

    H200: blocks of 16 warps on 25 SMs that read 8 KB of their own in 368 cycles a round take 450 if they also store it.
    """
    send_stored(st, sm, time)
    s = st.sm[sm]
    free = max(s[L.SM_STORE_FREE], time)
    for n in range(s[L.SM_STORED]):
        waits = st.stored[sm, (s[L.SM_STORED_FIRST] + n) % L.STORED_MOST]
        sectors = waits[L.STORED_SECTORS]
        free += store_cycles(st.par, sectors, waits[L.STORED_WORDS] == words_of(sectors))
    return free
