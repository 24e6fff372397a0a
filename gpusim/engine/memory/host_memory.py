"""Saving the host's time: L2 sets loaded before they are needed. Without it most of a request's cost is waiting."""

from __future__ import annotations

from gpusim.engine.memory.l2 import set_start
from gpusim.engine.memory.place import target_of
from gpusim.engine.state import memory as ms
from gpusim.engine.state.bits import prefetch
from gpusim.engine.state.jit import compiled

_HOST_LINE_WORDS = 8


@compiled
def prefetch_line(m, sm, line):
    """Start to load the sets in which a request of `sm` for `line` will look."""
    target = target_of(m, sm, line, ms.CLASS_SAME)
    first = set_start(m, target.home_slice, target.set_number)
    for word in range(0, ms.LINE_WORDS * m[ms.P_WAYS], _HOST_LINE_WORDS):
        prefetch(m, first + word)
    if target.near != target.home:
        first = set_start(m, target.near_slice, target.set_number)
        for word in range(0, ms.LINE_WORDS * m[ms.P_WAYS], _HOST_LINE_WORDS):
            prefetch(m, first + word)
