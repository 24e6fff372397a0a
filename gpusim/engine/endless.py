"""Launches that never end on a machine whose lanes do not give way to each other, found while they run.

What spins changes nothing, and nothing else is left that could: then every warp does for ever what it does now, in
whatever order they come. So between two looks, which are some windows apart,

- every warp that is resident has come to a backward branch again with the same registers, predicates and control flow
  (`engine.sm.spinning`), or waits for others at a barrier, with no result or store under way;
- no instruction was executed but those that only work on registers, read memory, branch, or are atomics, and none of
  these changed a word. A clock, a store, a barrier, an exit end the proof: what may still change is never reported;
- no block is left that could still find room.

The launch is the only one, and nothing else is under way: neither the host nor another launch writes while it runs. At
least one of the warps has lanes that wait for those that spin; without, the loop has nothing to do with divergence, and
`max_cycles` ends it.
"""

from __future__ import annotations

import numpy as np

from gpusim.engine.dispatcher import G_NEXT, G_TOTAL
from gpusim.engine.sm.spinning import NOT_KEPT, REPEATS
from gpusim.engine.state import L, P
from gpusim.engine.state.arrays import State
from isa import microops as M

_FIRST_WAIT = 1  # looks of the host from one of ours to the next, which doubles
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
_ASYNCHRONOUS = (M.OP_LDGSTS, M.OP_SYNCS, M.OP_ARRIVES, M.OP_BULK_COPY, M.OP_STAS, M.OP_NEXT_BLOCK)


class NeverEnds(Exception):
    """No warp can ever do anything else than it does; `warp` has lanes that wait for others that spin."""

    def __init__(self, warp: int):
        self.warp = warp
        super().__init__(warp)


class EndlessWatch:
    """Looks at a launch now and then."""

    def __init__(self, state: State, dispatch: np.ndarray):
        self._state, self._dispatch = state, dispatch
        self._wait = self._left = _FIRST_WAIT
        self._before: tuple[np.ndarray, int] | None = None
        code = state.code
        kind, op = code[:, M.COL_CLASS], code[:, M.COL_OP]
        times = (kind == M.CLS_SPECIAL) & np.isin(code[:, M.COL_AUX0], _TIMES)
        self._harmless = np.isin(kind, _ARITHMETIC) & ~times
        self._harmless |= (kind == M.CLS_MEMORY) & np.isin(op, _MEMORY)
        self._harmless |= (kind == M.CLS_CONTROL) & np.isin(op, _CONTROL)

    @staticmethod
    def of(state: State, dispatch: np.ndarray) -> EndlessWatch | None:
        """The watch of a launch; None where lanes give way, or what it does is not all in its warps' instructions."""
        par, code = state.par, state.code
        bulk = (code[:, M.COL_CLASS] == M.CLS_MEMORY) & np.isin(code[:, M.COL_OP], _ASYNCHRONOUS)
        apart = par[P.CLUSTER_BLOCKS] > 0 or par[P.MODE] == L.REPLAYS or state.chosen.size > 0 or bulk.any()
        return None if par[P.STACK] == 0 or apart else EndlessWatch(state, dispatch)

    def look(self) -> None:
        """Called between windows. Raises NeverEnds."""
        self._left -= 1
        if self._left > 0:
            return
        now = self._state.counters[:, :, L.COUNT_EXECUTED].sum(0), int(self._state.sm[:, L.SM_CHANGED].sum())
        if self._before is not None and (warp := self._for_ever(*self._before, *now)) is not None:
            raise NeverEnds(warp)
        self._wait = self._left = 2 * self._wait
        self._before = now
        self._state.split[:, [L.SPLIT_KEPT, L.SPLIT_TURNS]] = NOT_KEPT, 0

    def _for_ever(self, executed: np.ndarray, changed: int, now: np.ndarray, changed_now: int) -> int | None:
        """A warp whose lanes wait for ever, if all that is resident does the same for ever."""
        state, dispatch = self._state, self._dispatch
        warps = np.flatnonzero(state.warp[:, L.WARP_STATE] != L.FREE)
        rows = state.warp[warps]
        spins = state.split[warps, L.SPLIT_KEPT] == REPEATS
        under_way = rows[:, [L.WARP_STORES, *range(L.WARP_PENDING, L.WARP_PENDING + 6)]].any(1)
        at_barrier = (rows[:, L.WARP_STATE] == L.WAIT_BARRIER) & ~under_way
        room = dispatch[G_NEXT] < dispatch[G_TOTAL] and (state.sm[:, L.SM_BLOCKS] == 0).any()
        if not (spins | at_barrier).all() or room:
            return None
        if changed_now != changed or not self._harmless[now > executed].all():
            return None
        parted = np.flatnonzero(spins & (rows[:, L.WARP_ACTIVE] != rows[:, L.WARP_ALIVE]))
        return int(warps[parted[0]]) if parted.size else None
