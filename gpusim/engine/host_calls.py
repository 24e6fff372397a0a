"""Warps that wait for the host: which ones ask, and how they go on once it has answered.

A SYSCALL instruction stops its warp (`control`); between two lookahead windows the device lets the host serve the calls
(`gpusim.host.syscalls`).
"""

import numpy as np

from gpusim.engine.sm.readiness import wake
from gpusim.engine.state import layout as L
from gpusim.engine.state.jit import compiled


def asked(state: L.State) -> np.ndarray:
    """Numbers of the warps that wait for the host, in the order of cycle, SM and warp."""
    warps = np.flatnonzero(state.warp[:, L.W_STATE] == L.WAIT_HOST)
    return warps[np.lexsort((warps, state.warp[warps, L.W_CALL]))]


def sm_of(state: L.State, w: int) -> int:
    """SM of a row of `state.warp`."""
    return w // int(state.par[L.P_SUB_PARTITIONS] * state.par[L.P_WARP_SLOTS])


@compiled
def resume(st, sm, w, now):
    """The host has answered: the warp goes on at its next instruction, at `now` or later."""
    wake(st, sm, w, now)
