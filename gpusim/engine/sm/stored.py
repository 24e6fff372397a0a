"""Stores that wait in the SM for their way to L2.

A line that is stored to waits for a while, or until a store to others comes, and then until nothing else wants the
data stage, of which it takes a turn; lines leave in order, a sector a cycle. A store to a line that waits joins it,
whichever warp it is of. On an H200 four stores of a quarter of every sector of 8 lines, one behind the other, become
one request a line; two with two others between them still do, with three they do not; of one line each they never do.
Four warps that store to the same words send them once, 32 warps whose stores come every 11 cycles one in three.
"""

import numpy as np

from gpusim.engine.sm.flight import hold_flits, send
from gpusim.engine.state import L, P, compiled, ms, popc

_WORD_BYTES = 4


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
    """Cycle at which the oldest line leaves if nothing comes between; NEVER if L2 takes no further one now."""
    s = st.sm[sm]
    if s[L.SM_STORED] == 0 or s[L.SM_FLITS] >= st.par[P.MAX_FLITS]:
        return L.NEVER
    ready = st.stored[sm, s[L.SM_STORED_FIRST], L.STORED_READY]
    return max(max(s[L.SM_STORE_FREE], s[L.SM_DATA_ENDS]), ready)


@compiled
def send_first(st, sm, time):
    """The oldest line leaves."""
    s = st.sm[sm]
    line = st.stored[sm, s[L.SM_STORED_FIRST]]
    s[L.SM_STORED_FIRST] = (s[L.SM_STORED_FIRST] + 1) % L.STORED_MOST
    s[L.SM_STORED] -= 1
    sectors = line[L.STORED_SECTORS]
    whole = line[L.STORED_WORDS] == words_of(sectors)
    cycles = store_cycles(st.par, sectors, whole)
    s[L.SM_STORE_FREE] = time + cycles
    s[L.SM_DATA_FREE] += time < s[L.SM_DATA_FREE]
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
def storing(st, sm, time):
    """Sub-partitions whose queues are not empty at `time`: as many take turns."""
    smsps = st.par[P.SUB_PARTITIONS]
    count = 0
    for q in range(sm * smsps, (sm + 1) * smsps):
        smsp = st.smsp[q]
        count += smsp[L.SMSP_LEAVES + (smsp[L.SMSP_ENTERED] - 1) % L.QUEUE_MOST] >= time
    return max(count, 1)


@compiled
def join_stored(st, sm, q, line, sectors, words, bytes_, time):
    """True if a line that waits has taken in what is stored by sub-partition q.

    Here sub-partitions store in the order of issue. On an H200 their queues take turns, so the lines of others come
    between those of one: eight warps that each store a quarter of 8 lines four times join nothing, of 4 lines all.
    """
    s = st.sm[sm]
    between = np.int64(0)
    turns = np.int64(0)
    for n in range(s[L.SM_STORED] - 1, -1, -1):
        waits = st.stored[sm, (s[L.SM_STORED_FIRST] + n) % L.STORED_MOST]
        between += waits[L.STORED_SMSP] == q
        if waits[L.STORED_LINE] == line:
            if waits[L.STORED_SMSP] == q and between > 1:
                turns = storing(st, sm, time)
            if between * turns >= st.par[P.STORED_LINES]:
                return False
            new = popc(words & ~waits[L.STORED_WORDS]) * _WORD_BYTES if words != 0 else bytes_
            waits[L.STORED_BYTES] += new
            waits[L.STORED_SECTORS] |= sectors
            waits[L.STORED_WORDS] |= words
            return True
    return False


@compiled
def hurry_stored(st, sm, time):
    """A store to other lines has come: those that wait go as soon as they can."""
    s = st.sm[sm]
    for n in range(s[L.SM_STORED] - 1, -1, -1):
        waits = st.stored[sm, (s[L.SM_STORED_FIRST] + n) % L.STORED_MOST]
        if waits[L.STORED_READY] <= time:
            return
        waits[L.STORED_READY] = time


@compiled
def store_line(st, sm, q, line, sectors, words, bytes_, time, token, policy):
    """A line waits from `time` on; if all room is taken, the oldest one goes first. Returns when it has room."""
    s = st.sm[sm]
    if s[L.SM_STORED] >= st.par[P.STORED_LINES]:
        leaves = max(s[L.SM_STORE_FREE], min(st.stored[sm, s[L.SM_STORED_FIRST], L.STORED_READY], time))
        send_first(st, sm, leaves)
        time = max(time, leaves)
    waits = st.stored[sm, (s[L.SM_STORED_FIRST] + s[L.SM_STORED]) % L.STORED_MOST]
    s[L.SM_STORED] += 1
    waits[L.STORED_LINE] = line
    waits[L.STORED_SECTORS] = sectors
    waits[L.STORED_WORDS] = words
    waits[L.STORED_BYTES] = bytes_
    waits[L.STORED_READY] = time + st.par[P.STORED_CYCLES]
    waits[L.STORED_TOKEN] = token
    waits[L.STORED_POLICY] = policy
    waits[L.STORED_SMSP] = q
    return time


@compiled
def let_stored_pass(st, sm, time):
    """A load that misses comes behind the lines that wait: they leave before it. Returns when their way is free.

    H200: blocks of 16 warps on 25 SMs that read 8 KB of their own in 368 cycles a round take 450 if they also store it.
    """
    s = st.sm[sm]
    while s[L.SM_STORED] > 0 and s[L.SM_FLITS] < st.par[P.MAX_FLITS]:
        send_first(st, sm, max(s[L.SM_STORE_FREE], time))
    return s[L.SM_STORE_FREE]
