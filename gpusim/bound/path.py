"""The course of one block's warps: what they issue, and how far away the data of each access is at least."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.bound.footprint import Accesses, Touched
from gpusim.bound.work import Kinds
from gpusim.tracing.trace import SPACES, Trace
from isa import microops as M

_CONSTANT = SPACES.index("constant")
#: Issues of a block that are walked along; of a longer one only the longest warp is, as far as that goes.
_MOST = 100_000
#: How far away data is at least; that of later blocks stands times LATER.
NEAR, IN_L2, IN_MEMORY = range(3)
LATER = 4


class Path(NamedTuple):
    """What the warps of a block issue, one after the other.

    pc: int32 [issues]; bounds: where each warp's begin and end, int64 [warps + 1]; level: int8 [issues], for an access
    to global memory how far away its data is at least, for the first blocks and, times 4, for later ones: NEAR, in L2
    or in MEMORY; turns: int16 [issues], least wavefronts of an access to shared memory, addresses of one to constants.
    joined: whether all warps meet at every barrier.
    """

    pc: np.ndarray
    bounds: np.ndarray
    level: np.ndarray
    turns: np.ndarray
    joined: bool


def path_of(trace: Trace, issues: np.ndarray, touched: Touched, code: np.ndarray) -> Path:
    """The path of a block by its issues, sorted by warp."""
    level = _levels(trace, issues, touched, code)
    turns = np.maximum(np.where(issues["space"] == _CONSTANT, issues["lines"], issues["ideal"]), 1)
    first = np.flatnonzero(np.diff(issues["warp"], prepend=-1))
    bounds = np.append(first, len(issues))
    barrier = (code[:, M.COL_CLASS] == M.CLS_BARRIER) & (code[:, M.COL_OP] == M.OP_BAR)
    meets = barrier & (code[:, M.COL_AUX0] != M.BAR_ARRIVE) & (code[:, M.COL_AUX2] == 0)
    count = np.add.reduceat(barrier[issues["pc"]].astype(np.int64), bounds[:-1]) if len(first) else np.zeros(0)
    joined = bool((count == count[:1]).all() and (meets | ~barrier)[issues["pc"]].all())
    if len(issues) > _MOST and len(first):
        longest = int(np.argmax(np.diff(bounds)))
        keep = slice(int(bounds[longest]), int(min(bounds[longest + 1], bounds[longest] + _MOST)))
        issues, level, turns, joined = issues[keep], level[keep], turns[keep], False
        bounds = np.array([0, len(issues)])
    return Path(
        issues["pc"].astype(np.int32),
        bounds.astype(np.int64),
        level,
        turns.astype(np.int16),
        joined,
    )


def _levels(trace: Trace, issues: np.ndarray, touched: Touched, code: np.ndarray) -> np.ndarray:
    """For every issue, how near the data of its access can be."""
    level = np.zeros(len(issues), np.int8)
    accesses = Accesses.of(trace, issues)
    kinds = Kinds(code)
    reads = ~kinds.stores[accesses.pc]
    if not touched.complete:
        # Nobody has touched anything before the first access of a warp.
        level[accesses.issue[(accesses.turn == 0) & reads]] = IN_MEMORY
        return level
    active = (accesses.addresses >= 0) & reads[:, None]
    at = np.clip((accesses.addresses >> 5) - touched.first, 0, len(touched.read) - 1)
    turn = accesses.turn[:, None]
    new = active & touched.read[at] & (touched.turn[at] >= turn)
    new &= ~(touched.written[at] | touched.maybe_written[at])
    alone = new & (touched.sharers[at] <= 1)
    # Whatever a miss fetches together with others, a line at most, has to be new.
    new_line, line_alone = new.copy(), alone.copy()
    for k in range(4):
        other = np.minimum(at // 4 * 4 + k, len(touched.read) - 1)
        new_line &= touched.turn[other] >= turn
        line_alone &= touched.sharers[other] <= 1
    first = new.any(axis=1) * IN_L2 + new_line.any(axis=1) * (IN_MEMORY - IN_L2)
    later = alone.any(axis=1) * IN_L2 + (line_alone & new_line).any(axis=1) * (IN_MEMORY - IN_L2)
    level[accesses.issue] = first + LATER * later
    return level
