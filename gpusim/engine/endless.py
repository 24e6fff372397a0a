"""Launches that never end, found while they run.

What spins changes nothing, and nothing else is left that could: then every warp does for ever what it does now, in
whatever order they come. So between two looks, which are some windows apart,

- every warp that is resident has come to a backward branch again with the same registers, predicates and control flow
  (`engine.sm.spinning`), or waits for others at a barrier, with no result or store under way;
- no instruction was executed but those that only work on registers, read memory, look at an mbarrier, branch, or are
  atomics, and none of these changed a word. A clock, a store, a barrier, an exit end the proof: what may still change
  is never reported;
- no block is left that could still find room.

The launch is the only one, and nothing else is under way: neither the host nor another launch writes while it runs. It
is not watched where it could read what the host writes, nor in a cluster. A machine whose lanes never give way to each
other (`issue.reconvergence = "stack"`) is looked at from the start, others after a while and for a fifth of the time.
"""

from __future__ import annotations

import numpy as np

from gpusim.engine.dispatcher import G_NEXT, G_TOTAL
from gpusim.engine.sm.spinning import NOT_KEPT, REPEATS
from gpusim.engine.state import L, P
from gpusim.engine.state.arrays import State
from isa import microops as M

_FIRST_WAIT = 1  # looks of the host from one of ours to the next, which doubles
_LATER, _LATER_FUNCTIONAL = 4096, 4  # the same where lanes give way: before the first, and four times between two
_ARITHMETIC = (
    *(M.CLS_INT, M.CLS_FLOAT, M.CLS_DOUBLE, M.CLS_CONVERT, M.CLS_PRED, M.CLS_CROSS, M.CLS_HALF), M.CLS_SPECIAL
)
_MEMORY = (M.OP_LOAD, M.OP_LDC, M.OP_ATOM)
_CONTROL = (
    *(M.OP_BRA, M.OP_BRX, M.OP_JMP, M.OP_JMX, M.OP_CALL, M.OP_RET, M.OP_BSSY, M.OP_BSYNC, M.OP_BREAK, M.OP_WARPSYNC),
    *(M.OP_BMOV, M.OP_YIELD, M.OP_NOP, M.OP_NANOSLEEP, M.OP_DEPBAR, M.OP_MEMBAR, M.OP_ERRBAR, M.OP_CCTL, M.OP_LEPC),
    *(M.OP_ELECT, M.OP_GRID_TRIGGER),
)
_TIMES = (M.SR_CLOCKLO, M.SR_CLOCKHI, M.SR_GLOBALTIMERLO, M.SR_GLOBALTIMERHI)


class NeverEnds(Exception):
    """No warp can ever do anything else than it does. `warp` spins, or lanes of it do for which others of it wait."""

    def __init__(self, warp: int):
        self.warp = warp


class EndlessWatch:
    """Looks at a launch now and then."""

    def __init__(self, state: State, dispatch: np.ndarray):
        self._state, self._dispatch = state, dispatch
        self._stack = bool(state.par[P.STACK])
        later = _LATER if state.par[P.MODE] & L.BOOKS else _LATER_FUNCTIONAL
        self._wait = self._left = _FIRST_WAIT if self._stack else later
        self._before: tuple[np.ndarray, int] | None = None
        state.par[P.WATCHED] = self._stack

    @staticmethod
    def of(state: State, dispatch: np.ndarray) -> EndlessWatch | None:
        """The watch of a launch; None where what it does is not all in its warps' instructions."""
        par = state.par
        apart = par[P.CLUSTER_BLOCKS] > 0 or state.chosen.size > 0
        return None if apart else EndlessWatch(state, dispatch)

    def look(self) -> None:
        """Called between windows. Raises NeverEnds."""
        self._left -= 1
        if self._left > 0:
            return
        now = self._state.counters[:, :, L.COUNT_EXECUTED].sum(0), int(self._state.sm[:, L.SM_CHANGED].sum())
        if self._before is not None and (warp := self._for_ever(*self._before, *now)) is not None:
            raise NeverEnds(warp)
        if self._stack or self._before is not None:
            self._wait *= 2
        begins = self._stack or self._before is None
        self._left = self._wait if self._stack or not begins else max(self._wait // 4, 1)
        self._before = now if begins else None
        self._state.par[P.WATCHED] = begins
        self._state.split[:, [L.SPLIT_KEPT, L.SPLIT_TURNS]] = NOT_KEPT, 0

    def _harmless(self) -> np.ndarray:
        """Instructions after which the proof goes on, as bool [instructions]."""
        code = self._state.code
        kind, op = code[:, M.COL_CLASS], code[:, M.COL_OP]
        times = (kind == M.CLS_SPECIAL) & np.isin(code[:, M.COL_AUX0], _TIMES)
        looks = (op == M.OP_SYNCS) & (code[:, M.COL_AUX4] == M.SYNCS_CHECK)
        memory = (kind == M.CLS_MEMORY) & (np.isin(op, _MEMORY) | looks)
        return np.isin(kind, _ARITHMETIC) & ~times | memory | (kind == M.CLS_CONTROL) & np.isin(op, _CONTROL)

    def _for_ever(self, executed: np.ndarray, changed: int, now: np.ndarray, changed_now: int) -> int | None:
        """A warp that does the same for ever, if all that is resident does."""
        state, dispatch = self._state, self._dispatch
        warps = np.flatnonzero(state.warp[:, L.WARP_STATE] != L.FREE)
        rows = state.warp[warps]
        spins = state.split[warps, L.SPLIT_KEPT] == REPEATS
        under_way = rows[:, [L.WARP_STORES, *range(L.WARP_PENDING, L.WARP_PENDING + 6)]].any(1)
        at_barrier = (rows[:, L.WARP_STATE] == L.WAIT_BARRIER) & ~under_way
        room = dispatch[G_NEXT] < dispatch[G_TOTAL] and (state.sm[:, L.SM_BLOCKS] == 0).any()
        if not (spins | at_barrier).all() or room:
            return None
        if changed_now != changed or not self._harmless()[now > executed].all():
            return None
        parted = np.flatnonzero(spins & (rows[:, L.WARP_ACTIVE] != rows[:, L.WARP_ALIVE]))
        found = parted if self._stack and parted.size else np.flatnonzero(spins)
        return int(warps[found[0]]) if found.size else None
