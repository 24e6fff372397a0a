"""Instruction supply: an L0 cache with a stream prefetcher per sub-partition, L1 and L1.5 per SM, then what the GPU
shares.

An H200's line is 128 bytes, eight instructions. Each level keeps (line, cycle from which it is there, last use). Under
Nsight Compute, which empties all caches before a launch, SMs wait for the first line, those of a GPC one after the
other, and jumps take as long as to lines that L1.5 holds: a launch brings the first 64 KB of its code there.
"""

from gpusim.engine.state import L, P, compiled

TAG, READY, USED = 0, 1, 2
INSTRUCTION_BITS = 4  # 16 bytes


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
def l1_set(st, line):
    first = st.par[P.SUB_PARTITIONS] * st.par[P.L0_LINES]
    return first + (line % st.par[P.IL1_SETS]) * st.par[P.ICACHE_WAYS]


@compiled
def l15_set(st, line):
    first = st.par[P.SUB_PARTITIONS] * st.par[P.L0_LINES] + st.par[P.IL1_SETS] * st.par[P.ICACHE_WAYS]
    return first + (line % st.par[P.IL15_SETS]) * st.par[P.ICACHE_WAYS]


@compiled
def from_beyond(st, sm, line, ahead, now):
    """Brings `line` into L1, out of L1.5 or what lies beyond the SM; returns when it is there.

    What a warp waits for does not queue behind what is asked for ahead.
    """
    par, cache = st.par, st.icache[sm]
    ways = par[P.ICACHE_WAYS]
    s, server = st.sm[sm], L.SM_IL15_AHEAD if ahead else L.SM_IL15_FREE
    start = max(now, s[server])
    latency, interval = par[P.IL15_LATENCY], par[P.IL15_INTERVAL]
    k = look_up(cache, l15_set(st, line), ways, line)
    if k >= 0:
        cache[k, USED] = now
        ready = max(start + latency, cache[k, READY])
    else:
        if line < s[L.SM_CODE_SEEN]:
            latency, interval = par[P.IL2_LATENCY], par[P.IL2_INTERVAL]
        elif line - par[P.CODE_LINE] >= par[P.LAUNCH_LINES]:
            latency, interval = par[P.CODE_FAR], par[P.IL2_FAR_INTERVAL]
        elif line == par[P.CODE_LINE]:
            latency = par[P.IL2_LATENCY]
            s[L.SM_IL15_AHEAD] = start + latency - par[P.IL15_LATENCY]  # those ahead come behind it
        s[L.SM_CODE_SEEN] = max(s[L.SM_CODE_SEEN], line + 1)
        ready = start + latency + (0 if ahead else s[L.SM_CODE_WAIT])
        insert(cache, l15_set(st, line), ways, line, ready, now)
    s[server] = start + interval
    insert(cache, l1_set(st, line), ways, line, ready, now)
    return ready


@compiled
def from_l1(st, sm, line, asked_ahead, now):
    """Cycle at which an L0 can have `line` out of L1, which gets it first if need be.

    L1 gives a line every few cycles. What has been asked for ahead (`asked_ahead`) waits only if L1 is behind by more
    than that; what has not waits for others of its kind as well.
    """
    par = st.par
    ahead = par[P.PREFETCH] << par[P.ICACHE_SHIFT]  # a warp is in a line for that many cycles at least
    cache = st.icache[sm]
    k = look_up(cache, l1_set(st, line), par[P.ICACHE_WAYS], line)
    if k < 0:
        return from_beyond(st, sm, line, False, now)
    cache[k, USED] = now
    s = st.sm[sm]
    start = max(now - ahead, s[L.SM_IL1_AHEAD])
    s[L.SM_IL1_AHEAD] = start + par[P.IL1_INTERVAL]
    if not asked_ahead:
        start = max(start, now, s[L.SM_IL1_FREE])
        s[L.SM_IL1_FREE] = start + par[P.IL1_INTERVAL]
    return max(start + par[P.IL1_LATENCY], cache[k, READY])


@compiled
def fetch(st, sm, q, before, line, now):
    """Cycle at which the sub-partition can decode from `line`, for a warp that was in line `before`.

    The line that follows the one a warp is in has been asked for ahead, into a buffer of its own; several warps in
    different places do not push each other's lines out of L0 with it (H200: a loop of 3 to 24 KB runs at full speed,
    with one warp or with eight that are in different places of it). Of L1 the lines ahead are asked for as well, two of
    them behind a jump (H200, clocks in a lone warp's cold code: the next two lines are there, the fourth is not).
    """
    par, cache = st.par, st.icache[sm]
    ways = par[P.L0_LINES]
    first = q % par[P.SUB_PARTITIONS] * ways
    ahead = par[P.PREFETCH] if line == before + 1 else min(par[P.PREFETCH], 2)
    # The last row is no instruction of the kernel.
    last = min((st.code.shape[0] - 2) >> par[P.ICACHE_SHIFT], line + ahead) + par[P.CODE_LINE]
    line += par[P.CODE_LINE]
    before += par[P.CODE_LINE]
    k = look_up(cache, first, ways, line)
    if k >= 0:
        cache[k, USED] = now
        ready = cache[k, READY]
    else:
        ready = from_l1(st, sm, line, line == before + 1, now)
        insert(cache, first, ways, line, ready, now)
    for following in range(line + 1, last + 1):
        if look_up(cache, l1_set(st, following), par[P.ICACHE_WAYS], following) < 0:
            from_beyond(st, sm, following, True, now)
    return max(ready, now)
