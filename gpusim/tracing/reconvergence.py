"""The divergence tree of a warp: which lanes ran together, from where to where, and where they met again.

The tree follows from the active masks of the warp's issues alone. A group is a set of lanes that issue together. When
an issue has fewer lanes than the group that they were in, they have parted from it and are a group of their own, its
child. When an issue joins lanes of several groups, those groups have ended, and the group that they all had come from
goes on, if it is whole again; lanes that have exited do not count.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(slots=True)
class LaneGroup:
    """Lanes that ran together.

    lanes: mask of the lanes, as they were when the group began. parent: index of the group that they parted from, -1 of
    the whole warp. parted_pc: the instruction after which they parted, -1 if they did not. rows: its issues, as indices
    into the warp's, in order of time. met_pc: the first instruction that they issued together with others again, and
    met_row its index among the warp's issues; -1 if they never did.
    """

    lanes: int
    parent: int = -1
    parted_pc: int = -1
    rows: list[int] = field(default_factory=list)
    met_pc: int = -1
    met_row: int = -1


def lane_groups(issues: np.ndarray, exits: np.ndarray) -> tuple[LaneGroup, ...]:
    """The groups of one warp, in the order of their first issue.

    issues: rows of `Trace.issues` of one warp, in order of time. exits: bool [instructions], those that end the lanes
    that execute them.
    """
    if not len(issues):
        return ()
    groups = [LaneGroup(int(issues["active"][0]))]
    owner = [0] * 32
    ended = 0
    for row, (active, executed, pc) in enumerate(issues[["active", "executed", "pc"]].tolist()):
        owners = {owner[lane] for lane in range(32) if active >> lane & 1}
        home = _common(groups, owners)
        if groups[home].lanes & ~ended != active:
            # Of one group's lanes some are missing: they part. Of several groups: they meet before their ancestor is
            # whole again.
            parted_pc = int(issues["pc"][groups[home].rows[-1]]) if groups[home].rows else -1
            groups.append(LaneGroup(active, home, parted_pc))
            new = len(groups) - 1
        else:
            new = home
        if len(owners) > 1:
            for each in owners - {home}:
                _meet(groups, each, home, row, pc)
        groups[new].rows.append(row)
        for lane in range(32):
            if active >> lane & 1:
                owner[lane] = new
        if exits[pc]:
            ended |= executed
    return tuple(groups)


def _ancestors(groups: list[LaneGroup], group: int) -> list[int]:
    """A group and those that it comes from, the whole warp last."""
    found = [group]
    while groups[found[-1]].parent >= 0:
        found.append(groups[found[-1]].parent)
    return found


def _common(groups: list[LaneGroup], owners: set[int]) -> int:
    """The nearest group that all of `owners` are or come from."""
    first, *others = owners
    lines = [set(_ancestors(groups, each)) for each in others]
    return next(each for each in _ancestors(groups, first) if all(each in line for line in lines))


def _meet(groups: list[LaneGroup], group: int, home: int, row: int, pc: int) -> None:
    """A group and those between it and `home` have met others at an issue."""
    while group != home:
        if groups[group].met_row < 0:
            groups[group].met_row, groups[group].met_pc = row, pc
        group = groups[group].parent
