"""Loops that never end: a warp that comes to a backward branch once more with all that it had there before.

Only while somebody looks (`engine.endless`). A warp keeps what it holds at a backward branch, and compares it at those
that follow; it keeps anew at each power of two of them (R. P. Brent, "An improved Monte Carlo factorization algorithm",
BIT 20, 1980), so a cycle of any length is found within three times as many branches as there were before it and are in
it.
Registers, predicates and control flow are compared word by word. `gpusim.engine.endless` says when that is for ever.
"""

import numpy as np

from gpusim.engine.sm.lane_states import can_run
from gpusim.engine.state import L, P, compiled

NOT_KEPT, KEPT, REPEATS = range(3)
_LANES, _EVERY = 32, 8  # the second: branches of which one is looked at without time
_PREDICATES = 16


def kept_words(rows: int) -> int:
    """Words that are kept of a warp with so many rows of registers."""
    return _LANES * rows + _PREDICATES + L.SPLIT_KEPT + 2


@compiled
def word(st, w, n, registers):
    """Word n of what a warp holds: of its registers, its predicates, its lanes that do not run and those that do."""
    if n < registers:
        return np.int64(st.regs[_LANES * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP]) + n])
    if n < registers + _PREDICATES:
        return np.int64(st.preds[_PREDICATES * w + n - registers])
    n -= registers + _PREDICATES
    # How long its lanes have spun tells only when others of the warp get their turn.
    if n == L.SPLIT_SPIN and can_run(st.warp, st.split, w) | st.split[w, L.SPLIT_YIELDED] == 0:
        return np.int64(0)
    return st.split[w, n] if n < L.SPLIT_KEPT else st.warp[w, L.WARP_PC if n == L.SPLIT_KEPT else L.WARP_ACTIVE]


@compiled
def look(st, w):
    """The active lanes have all branched backward. Not while results or stores of the warp are under way."""
    warp, lanes = st.warp[w], st.split[w]
    if lanes[L.SPLIT_KEPT] == REPEATS or warp[L.WARP_STORES] != 0:
        return
    if warp[L.WARP_PENDING : L.WARP_PENDING + 6].any():
        return
    lanes[L.SPLIT_TURNS] += 1
    if st.par[P.MODE] & L.BOOKS == 0 and lanes[L.SPLIT_TURNS] & _EVERY - 1 != 0 and lanes[L.SPLIT_KEPT] != NOT_KEPT:
        return
    registers = _LANES * st.par[P.ROWS_PER_WARP]
    words = registers + _PREDICATES + L.SPLIT_KEPT + 2
    if lanes[L.SPLIT_KEPT] == NOT_KEPT or lanes[L.SPLIT_TURNS] & (lanes[L.SPLIT_TURNS] - 1) == 0:
        for n in range(words):
            st.kept[w, n] = word(st, w, n, registers)
        lanes[L.SPLIT_KEPT] = KEPT
        return
    for n in range(words - 1, -1, -1):  # where the warp is tells most, and comes last
        if st.kept[w, n] != word(st, w, n, registers):
            return
    lanes[L.SPLIT_KEPT] = REPEATS
