"""Warps that wait for the host: which ones ask, and how they go on once it has answered.

A SYSCALL instruction stops its warp (`control`); between two lookahead windows the device lets the host serve the calls
(`gpusim.syscalls`).
"""

import numpy as np

from gpusim.engine import layout as L
from gpusim.engine.jit import compiled
from gpusim.engine.readiness import wake


def asked(state: L.State) -> np.ndarray:
    """Numbers of the warps that wait for the host, in the order of cycle, SM and warp."""
    warps = np.flatnonzero(state.warp[:, L.W_STATE] == L.WAIT_HOST)
    return warps[np.lexsort((warps, state.warp[warps, L.W_CALL]))]


@compiled
def resume(st, sm, w, now):
    """The host has answered: the warp goes on at its next instruction, at `now` or later."""
    wake(st, sm, w, now)
