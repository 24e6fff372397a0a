"""A memory instruction on its way through the SM, as the functions that it passes hand it on."""

from typing import NamedTuple

import numpy as np

from gpusim.engine.state.jit import compiled


class Access(NamedTuple):
    """Who issued it, for which lanes, and when. Its addresses and lines are those at hand in the SM: `State.address`,
    `State.touched`."""

    smsp: int
    warp: int
    pc: int
    base: int  # element of its warp's first register
    mask: int
    size: int  # bytes of a lane, 0 if the addresses are not at hand
    time: int
    policy: int  # for L2, see `memory.policy`; 0: none


@compiled
def access(smsp, warp, pc, base, mask, size, time, policy=0):
    """An Access of 64-bit numbers only, so that what takes one is compiled once."""
    return Access(
        np.int64(smsp), np.int64(warp), np.int64(pc), np.int64(base), np.int64(mask), np.int64(size), np.int64(time),
        np.int64(policy),
    )  # fmt: skip
