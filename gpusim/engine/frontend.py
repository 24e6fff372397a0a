"""Instruction supply: an L0 cache with a stream prefetcher per sub-partition, L1 and L1.5 per SM, then what the GPU
shares.

A line is 128 bytes, eight instructions. Each level keeps (line, cycle from which it is there, last use). A line that
no cache of the SM holds comes from the GPU's shared instruction cache after a fixed time: under Nsight Compute, which
empties all caches before a launch, a short kernel still waits only some 140 cycles a warp for instructions, so the
launch must have brought its code nearer than L2 and memory.
"""

from gpusim.engine import layout as L
from gpusim.engine.jit import compiled

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
    """Replaces the least recently used of `ways` entries from `first` on."""
    victim = first
    for k in range(first + 1, first + ways):
        if cache[k, USED] < cache[victim, USED]:
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
    """Cycle at which an L0 can have `line`, out of L1, L1.5 or what lies beyond the SM."""
    par = st.par
    cache = st.icache[sm]
    ways = par[L.P_ICACHE_WAYS]
    k = look_up(cache, l1_set(st, line), ways, line)
    if k >= 0:
        cache[k, USED] = now
        start = max(now, st.sm[sm, L.S_IL1_FREE])
        st.sm[sm, L.S_IL1_FREE] = start + par[L.P_IL1_INTERVAL]
        return max(start + par[L.P_IL1_LATENCY], cache[k, READY])
    k = look_up(cache, l15_set(st, line), ways, line)
    start = max(now, st.sm[sm, L.S_IL15_FREE])
    if k >= 0:
        cache[k, USED] = now
        st.sm[sm, L.S_IL15_FREE] = start + par[L.P_IL15_INTERVAL]
        ready = max(start + par[L.P_IL15_LATENCY], cache[k, READY])
    else:
        st.sm[sm, L.S_IL15_FREE] = start + par[L.P_IL2_INTERVAL]
        ready = start + par[L.P_IL2_LATENCY]
        insert(cache, l15_set(st, line), ways, line, ready, now)
    insert(cache, l1_set(st, line), ways, line, ready, now)
    return ready


@compiled
def fetch(st, sm, q, line, now):
    """Cycle at which the sub-partition can decode from `line`; the lines that follow are asked for as well."""
    par = st.par
    cache = st.icache[sm]
    first = l0_first(st, q)
    ways = par[L.P_L0_LINES]
    last = (st.code.shape[0] - 2) >> 3  # the last row is no instruction of the kernel
    k = look_up(cache, first, ways, line)
    if k >= 0:
        cache[k, USED] = now
        ready = cache[k, READY]
    else:
        ready = from_l1(st, sm, line, now)
        insert(cache, first, ways, line, ready, now)
    for ahead in range(1, par[L.P_PREFETCH] + 1):
        following = line + ahead
        if following > last:
            break
        if look_up(cache, first, ways, following) < 0:
            insert(cache, first, ways, following, from_l1(st, sm, following, now), now)
    return max(ready, now)
