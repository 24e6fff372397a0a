"""Whose turn it is: the policies of `issue.policy`, each a choice among the ready warps of a scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpusim.engine.sm.policies import LONGEST_WAIT, SHORT_WAIT
from gpusim.machine.warp import Warp

Policy = Callable[[Any, list[Warp]], Warp]


def by_block(scheduler: Any, ready: list[Warp]) -> Warp:
    """The one that has issued last, unless warps take turns; else of the oldest block's the one that has waited
    longest, as far as that is told apart (H200: `turns_*` in validate/microbench/issue.py)."""
    now, slots, before, longest = scheduler.env.now, scheduler.slots, scheduler.slots, SHORT_WAIT
    if scheduler.in_turn:
        before, longest = (scheduler.last.place if scheduler.last else before), LONGEST_WAIT
    elif scheduler.last in ready and scheduler.goes_on == now:
        return scheduler.last  # type: ignore[no-any-return]
    return min(ready, key=lambda w: (w.block, -min(now - w.ready, longest), (before - 1 - w.place) % slots))


def oldest(scheduler: Any, ready: list[Warp]) -> Warp:
    """The one that was launched first."""
    return min(ready, key=lambda warp: warp.age)


def youngest(scheduler: Any, ready: list[Warp]) -> Warp:
    """The one that was launched last."""
    return max(ready, key=lambda warp: warp.age)


def next_in_turn(scheduler: Any, ready: list[Warp]) -> Warp:
    """The next one behind that which has issued last."""
    turn = scheduler.last.place + 1 if scheduler.last else 0
    return min(ready, key=lambda warp: (warp.place - turn) % scheduler.slots)


def greedy(then: Policy) -> Policy:
    """The one that has issued last as long as it can; else another policy's."""
    return lambda scheduler, ready: scheduler.last if scheduler.last in ready else then(scheduler, ready)


POLICIES: dict[str, Policy] = {
    "block": by_block,
    "glrr": greedy(next_in_turn),
    "gto": greedy(oldest),
    "gty": greedy(youngest),
    "lrr": next_in_turn,
    "oldest": oldest,
}
