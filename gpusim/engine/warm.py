"""Getting the compiled core ready before a run: loading it from disk, or compiling it, which a user should be told."""

from __future__ import annotations

import time

import numpy as np
from numba import typeof

from gpusim.engine.dispatcher import fill, refill
from gpusim.engine.memory.system import process_window
from gpusim.engine.sm.atomics import apply_deferred
from gpusim.engine.sm.cluster import open_barriers
from gpusim.engine.sm.flight import deliver
from gpusim.engine.sm.sm import advance_range
from gpusim.engine.state import layout as L
from gpusim.engine.state import memory as ms
from gpusim.engine.state.code_cache import core_folder

_MARK = "complete"
"""File in the core's folder that says that all of the core is in it."""


def core_is_cached() -> bool:
    """True if the core for these sources has been compiled on this machine before."""
    return (core_folder() / _MARK).exists()


def prepare_core(state: L.State, memory_state: np.ndarray, dispatch: np.ndarray) -> float:
    """Compile the core's entry points, or load them from the disk cache. Returns the seconds this took."""
    if open_barriers.entry.overloads:  # the last of them: an earlier launch got all of them ready
        return 0.0
    started = time.perf_counter()
    pairs = np.zeros((1, ms.ORDER_WORDS), np.int64)
    number = 0
    calls = (
        (fill, (state, dispatch, number, np.zeros(1, np.int64), number)),
        (refill, (state, dispatch, number, number)),
        (advance_range, (state, number, number, number, number, number)),
        (process_window, (memory_state, state.request, state.requests, pairs)),
        (apply_deferred, (state, pairs, number)),
        (deliver, (state, pairs, number)),
        (open_barriers, (state, number)),
    )
    for function, arguments in calls:
        function.entry.compile(tuple(typeof(each) for each in arguments))
    if not core_is_cached():
        core_folder().mkdir(parents=True, exist_ok=True)
        (core_folder() / _MARK).touch()
    return time.perf_counter() - started
