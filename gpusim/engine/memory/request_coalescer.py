"""Merging of reads: L2 is asked once for sectors that SMs of one GPC read at the same time.

The unit that Nsight Compute calls the L2 request coalescer (LRC) holds a read until L2 has its data. Reads of the same
sectors by SMs of the same GPC join it meanwhile, four together at most, and get the data with it. One of other sectors
of the line goes to L2 by itself, and ends that. A full way to the GPC prolongs nothing: beside 14 SMs that copy all
the time, bulk copies of two join 40 cycles behind, not 80 (H200; out of memory 300, not 600). Sectors that an H200's L2
is asked for: by 1 to 4 SMs that read lines in step as many as by one, by 6 and 8 twice, by 16 four times as many; by 8
that read one sector and 8 another one, within 30 cycles, 12.7 for 16 (by the order alone 12.0). GPCs never join.
"""

from gpusim.engine.state import compiled, ms
from gpusim.engine.state.address_map import spread

NOBODY, ALONE = -1, -2
_ALL = (1 << ms.SECTORS_PER_LINE) - 1


@compiled
def entry_of(m, gpc, line):
    """Return where a read of `line` is noted, or else is to be: of two places the one that is free first."""
    first = m[ms.P_LRC] + (gpc * ms.LRC_ENTRIES + 2 * spread(line, ms.LRC_ENTRIES // 2)) * ms.LRC_WORDS
    second, other = first + ms.LRC_WORDS, m[first] >> ms.LRC_LINE_SHIFT != line + 1
    held = m[second] >> ms.LRC_LINE_SHIFT == line + 1
    return second if other and (held or m[second + ms.LRC_UNTIL] < m[first + ms.LRC_UNTIL]) else first


@compiled
def join(m, gpc, line, sectors, now):
    """Reply time of the read that the caller's joins; NOBODY, or ALONE if one of other sectors was under way."""
    entry = entry_of(m, gpc, line)
    state = m[entry]
    if state >> ms.LRC_LINE_SHIFT != line + 1 or m[entry + ms.LRC_UNTIL] <= now:
        return NOBODY
    if state & _ALL != sectors:
        m[entry] = 0
        return ALONE
    count = (state >> ms.LRC_COUNT_SHIFT) & (1 << (ms.LRC_LINE_SHIFT - ms.LRC_COUNT_SHIFT)) - 1
    if count >= m[ms.P_LRC_MOST]:
        return NOBODY
    m[entry] = state + (1 << ms.LRC_COUNT_SHIFT)
    return m[entry + ms.LRC_REPLY]


@compiled
def note(m, gpc, line, sectors, reply, found):
    """Let others join a read that goes to L2 until its data is `found`, and for as long as one that hits."""
    entry = entry_of(m, gpc, line)
    m[entry] = (line + 1) << ms.LRC_LINE_SHIFT | 1 << ms.LRC_COUNT_SHIFT | sectors
    m[entry + ms.LRC_UNTIL] = found + m[ms.P_LRC_WINDOW]
    m[entry + ms.LRC_REPLY] = reply
