"""Where many lines live, for tests of the memory system, which maps one at a time."""

import numpy as np

from gpusim.engine.memory.dram import refreshed
from gpusim.engine.state import memory as ms
from gpusim.engine.state.address_map import locate, memory_location, set_and_tag
from gpusim.engine.state.jit import compiled


@compiled
def map_into(m, lines, out):
    for i in range(lines.size):
        home, index, quotient = locate(m, lines[i])
        slice_ = home * m[ms.P_INDICES] + index
        out[i, 0], out[i, 1] = home, slice_
        out[i, 2], _ = set_and_tag(m, home, quotient)
        out[i, 3], out[i, 4], out[i, 5] = memory_location(m, slice_, quotient)


@compiled
def late_pairs(m, first, second, now, least):
    """Among pairs of lines wanted at `now` (ticks): how often both are late by `least` for a refresh, and the first."""
    both, one = 0, 0
    for i in range(first.size):
        late = 0
        for line in (first[i], second[i]):
            home, index, quotient = locate(m, line)
            wait = refreshed(m, home * m[ms.P_INDICES] + index, quotient, now[i]) - now[i]
            late = 2 * late + np.int64(wait >= least)
        both += late == 3
        one += late >= 2
    return both, one


def map_lines(m: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Home partition, slice (over all partitions), set, channel, bank and row of each line: int64[n, 6]."""
    out = np.empty((lines.size, 6), np.int64)
    map_into(m, lines, out)
    return out
