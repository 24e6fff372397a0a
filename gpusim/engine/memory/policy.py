"""L2's policies for requests: those of single loads and stores, and the window of a launch.

A policy is the upper word of the descriptor that `createpolicy` makes and that a load or store names, as the code of
ptxas shows which computes it:

| bits | meaning |
|---|---|
| 28..31 | 1: a policy |
| 27 | its lines are chosen by address (`.range`), else a share of all (`.fractional`) |
| 25, 26 | class of the chosen lines: 0 as they are, 1 evict-first, 2 evict-last, 3 normal |
| 24 | the others are evict-first, else as they are |
| 20..23 | sixteenths that are chosen, less 1; or log2 of a block's bytes, less 12 |
| 12..18, 5..11 | of a range: its first block, modulo 128, and how many it has |
"""

from gpusim.engine.state import compiled, ms
from gpusim.engine.state.address_map import spread

_LINE_BITS = (ms.LINE_BYTES - 1).bit_length()
_BLOCK_BITS = 12 - _LINE_BITS
_CHUNK_BITS = 2
RATIO_OF = 16


@compiled
def chosen(line, sixteenths):
    """Return True if a line is among the chosen sixteenths, by the hash of its address, the same for 512 bytes."""
    return spread(line >> _CHUNK_BITS, RATIO_OF) < sixteenths


@compiled
def class_of(m, line, policy):
    """CLASS_* of a request for a line: what its own policy says, else the launch's window."""
    if policy >> 28 == 1:
        if policy >> 27 & 1:
            block = (line >> _BLOCK_BITS + (policy >> 20 & 15)) - (policy >> 12 & 127)
            hit = block & 127 < (policy >> 5 & 127)
        else:
            hit = chosen(line, (policy >> 20 & 15) + 1)
        return policy >> 25 & 3 if hit else policy >> 24 & 1
    if m[ms.P_WINDOW_FIRST] <= line < m[ms.P_WINDOW_END]:
        return m[ms.P_WINDOW_HIT] if chosen(line, m[ms.P_WINDOW_RATIO]) else m[ms.P_WINDOW_MISS]
    return ms.CLASS_SAME
