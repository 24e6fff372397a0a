"""Instruction supply: an L0 cache with a stream prefetcher per sub-partition, L1 and L1.5 per SM, then the L2.

A line is 128 bytes, eight instructions. Each level keeps (line, cycle from which it is there, last use); a line that is
on its way from L2 has the time NEVER, and warps that want it wait for the reply.
"""


from gpusim.engine import layout as L
from gpusim.engine.flight import FOR_LINE, send
from gpusim.engine.jit import compiled
from gpusim.engine.memory_state import KIND_INSTRUCTION

TAG, READY, USED = 0, 1, 2


@compiled
def look_up(cache, first, ways, line):
    """Entry that holds `line` among `ways` from `first` on, or -1."""
    for k in range(first, first + ways):
        if cache[k, TAG] == line:
            return k
    return -1


@compiled
def insert(cache, first, ways, line, ready, now):
    """Replaces the least recently used entry that is not on its way (if all are: the first)."""
    victim = first
    oldest = L.NEVER
    for k in range(first, first + ways):
        if cache[k, READY] < L.NEVER and cache[k, USED] < oldest:
            oldest = cache[k, USED]
            victim = k
    cache[victim, TAG] = line
    cache[victim, READY] = ready
    cache[victim, USED] = now


@compiled
def l0_first(st, q):
    return (q % st.par[L.P_SUB_PARTITIONS]) * st.par[L.P_L0_LINES]


@compiled
def l1_set(st, line):
    first = st.par[L.P_SUB_PARTITIONS] * st.par[L.P_L0_LINES]
    return first + (line % st.par[L.P_IL1_SETS]) * st.par[L.P_ICACHE_WAYS]


@compiled
def l15_set(st, line):
    first = st.par[L.P_SUB_PARTITIONS] * st.par[L.P_L0_LINES] + st.par[L.P_IL1_SETS] * st.par[L.P_ICACHE_WAYS]
    return first + (line % st.par[L.P_IL15_SETS]) * st.par[L.P_ICACHE_WAYS]


@compiled
def from_l1(st, sm, line, now):
    """Cycle at which an L0 can have `line`, out of L1 or L1.5; NEVER if it has to come from L2 (and is asked for)."""
    par = st.par
    cache = st.icache[sm]
    ways = par[L.P_ICACHE_WAYS]
    k = look_up(cache, l1_set(st, line), ways, line)
    if k >= 0:
        cache[k, USED] = now
        if cache[k, READY] >= L.NEVER:
            return L.NEVER
        start = max(now, st.sm[sm, L.S_IL1_FREE])
        st.sm[sm, L.S_IL1_FREE] = start + par[L.P_IL1_INTERVAL]
        return max(start + par[L.P_IL1_LATENCY], cache[k, READY])
    k = look_up(cache, l15_set(st, line), ways, line)
    if k >= 0 and cache[k, READY] < L.NEVER:
        cache[k, USED] = now
        start = max(now, st.sm[sm, L.S_IL15_FREE])
        st.sm[sm, L.S_IL15_FREE] = start + par[L.P_IL15_INTERVAL]
        ready = max(start + par[L.P_IL15_LATENCY], cache[k, READY])
        insert(cache, l1_set(st, line), ways, line, ready, now)
        return ready
    if k < 0:
        insert(cache, l15_set(st, line), ways, line, L.NEVER, now)
        insert(cache, l1_set(st, line), ways, line, L.NEVER, now)
        send(st, sm, now + 8, par[L.P_CODE_LINE] + line, 15, KIND_INSTRUCTION, 4 * line + FOR_LINE, 0, 0)
    return L.NEVER


@compiled
def fetch(st, sm, q, line, now):
    """Cycle at which the sub-partition can decode from `line`; NEVER while it is on its way from L2."""
    par = st.par
    cache = st.icache[sm]
    first = l0_first(st, q)
    ways = par[L.P_L0_LINES]
    last = (st.code.shape[0] - 1) >> 3
    k = look_up(cache, first, ways, line)
    ready = now
    if k >= 0:
        cache[k, USED] = now
        ready = cache[k, READY]
    if k < 0 or ready >= L.NEVER:
        ready = from_l1(st, sm, line, now)
        if k >= 0:
            cache[k, READY] = ready
        else:
            insert(cache, first, ways, line, ready, now)
    for ahead in range(1, par[L.P_PREFETCH] + 1):
        following = line + ahead
        if following > last:
            break
        if look_up(cache, first, ways, following) < 0:
            insert(cache, first, ways, following, from_l1(st, sm, following, now), now)
    return max(ready, now)


@compiled
def line_arrived(st, sm, line, now):
    """A line has come from L2: every level that waits for it has it now."""
    cache = st.icache[sm]
    for k in range(cache.shape[0]):
        if cache[k, TAG] == line and cache[k, READY] >= L.NEVER:
            cache[k, READY] = now
