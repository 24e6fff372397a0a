"""Merging of reads: L2 is asked once for sectors that SMs of one GPC read at the same time.

The unit that Nsight Compute calls the L2 request coalescer (LRC) holds a read until its data is back. A read of the
same sectors by an SM of the same GPC joins it meanwhile, four together at most, and all get the data at once. Measured
on an H200 with SMs that read the same lines in step: 1 to 4 SMs of a GPC ask L2 for as many sectors as one, 6 and 8 for
twice, 16 for four times as many; SMs of different GPCs never join. Nor do reads of different sectors of a line, even if
the one has all that the other wants: neighbouring blocks that share a sector at their edge ask for it twice
(`access/offset`, `grid3d/textbook`).
"""

from gpusim.engine.state import compiled, ms
from gpusim.engine.state.address_map import spread

_ALL = (1 << ms.SECTORS_PER_LINE) - 1


@compiled
def entry_of(m, gpc, line):
    """Return where a read of `line` is noted. Two lines of one entry displace each other, and lose their company."""
    return m[ms.P_LRC] + (gpc * ms.LRC_ENTRIES + spread(line, ms.LRC_ENTRIES)) * ms.LRC_WORDS


@compiled
def join(m, gpc, line, sectors, now):
    """Reply time of a read of the same sectors that is under way, which the caller's joins; -1 if there is none."""
    entry = entry_of(m, gpc, line)
    state = m[entry]
    if state >> ms.LRC_LINE_SHIFT != line + 1 or m[entry + ms.LRC_UNTIL] <= now or state & _ALL != sectors:
        return -1
    count = (state >> ms.LRC_COUNT_SHIFT) & (1 << (ms.LRC_LINE_SHIFT - ms.LRC_COUNT_SHIFT)) - 1
    if count >= m[ms.P_LRC_MOST]:
        return -1
    m[entry] = state + (1 << ms.LRC_COUNT_SHIFT)
    return max(m[entry + ms.LRC_REPLY], now + m[ms.P_NEAR])


@compiled
def note(m, gpc, line, sectors, now, reply):
    """A read goes to L2, and others may join it until its data has come."""
    entry = entry_of(m, gpc, line)
    m[entry] = (line + 1) << ms.LRC_LINE_SHIFT | 1 << ms.LRC_COUNT_SHIFT | sectors
    m[entry + ms.LRC_UNTIL] = reply - m[ms.P_NEAR] + m[ms.P_LRC_WINDOW]
    m[entry + ms.LRC_REPLY] = reply
