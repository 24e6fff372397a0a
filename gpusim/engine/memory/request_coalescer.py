"""Merging of reads: L2 is asked once for sectors that SMs of one GPC read at the same time.

The unit that Nsight Compute calls the L2 request coalescer (LRC) holds a read until its data is back. Reads of the same
sectors by SMs of the same GPC join it meanwhile, four together at most, and get the data with it. One of other sectors
of the line goes to L2 by itself, and ends that. A full way to 14 SMs did not prolong it on an H200, but tensor kernels
of 2,048 join as if it did, and are 5 to 14 % slower here otherwise. Sectors that an H200's L2 is asked for: by 1 to 4
SMs that read the same lines in step as many as by one, by 6 and 8 twice, by 16 four times as many, however many lines
and sectors; by eight that read one sector and eight another one of the same lines, within 30 cycles, 12.7 for 16, where
the order alone says 12.0. SMs of different GPCs never join.
"""

from gpusim.engine.state import compiled, ms
from gpusim.engine.state.address_map import spread

NOBODY, ALONE = -1, -2
_ALL = (1 << ms.SECTORS_PER_LINE) - 1


@compiled
def entry_of(m, gpc, line):
    """Return where a read of `line` is noted. Two lines of one entry displace each other, and lose their company."""
    return m[ms.P_LRC] + (gpc * ms.LRC_ENTRIES + spread(line, ms.LRC_ENTRIES)) * ms.LRC_WORDS


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
def note(m, gpc, line, sectors, reply):
    """Let others join a read that goes to L2 until its data has come."""
    entry = entry_of(m, gpc, line)
    m[entry] = (line + 1) << ms.LRC_LINE_SHIFT | 1 << ms.LRC_COUNT_SHIFT | sectors
    m[entry + ms.LRC_UNTIL] = reply - m[ms.P_NEAR] + m[ms.P_LRC_WINDOW]
    m[entry + ms.LRC_REPLY] = reply
