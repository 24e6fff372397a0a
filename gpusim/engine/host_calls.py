"""Warps that wait for what happens outside the SMs: which ones, and how they go on once it has.

A SYSCALL instruction stops its warp (`control`); between two lookahead windows the device lets the host serve the calls
(`gpusim.host.syscalls`). So does ACQBULK until the grid before it in the stream is over.
"""

import numpy as np

from gpusim.engine.sm.readiness import wake
from gpusim.engine.state import L, P
from gpusim.engine.state.arrays import State


def asked(state: State) -> np.ndarray:
    """Numbers of the launch's warps that wait for the host, in the order of cycle, SM and warp."""
    warps = _waiting(state, L.WAIT_HOST)
    return warps[np.lexsort((warps, state.warp[warps, L.WARP_CALL]))]


def let_on(state: State, now: int) -> None:
    """The grid before a launch is over: its warps that wait for that go on, and others do not stop."""
    state.par[P.DEPENDS] = 0
    for w in _waiting(state, L.WAIT_GRID).tolist():
        wake(state, sm_of(state, w), w, now)


def _waiting(state: State, what: int) -> np.ndarray:
    own = state.warp[:, L.WARP_SEAT] == state.par[P.SEAT]
    return np.flatnonzero(own & (state.warp[:, L.WARP_STATE] == what))


def sm_of(state: State, w: int) -> int:
    """SM of a row of `state.warp`."""
    return w // int(state.par[P.SUB_PARTITIONS] * state.par[P.WARP_SLOTS])
