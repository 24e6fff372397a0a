"""Getting the compiled core ready before a run: loading it from disk, or compiling it, which a user should be told."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

try:
    import fcntl
except ModuleNotFoundError:  # on Windows
    fcntl = None  # type: ignore[assignment]

import numpy as np
from numba import typeof

from gpusim.engine.dispatcher import C_FIELDS, G_FIELDS, fill, fill_beside, place_blocks, refill
from gpusim.engine.functional import run_grid
from gpusim.engine.memory.system import process_window
from gpusim.engine.rows.convert import exec_convert, narrow_conversion
from gpusim.engine.rows.cross import exec_cross
from gpusim.engine.rows.double import exec_double
from gpusim.engine.rows.half import exec_half
from gpusim.engine.rows.tensor import exec_tensor, narrow_product
from gpusim.engine.sm.async_copy import async_access
from gpusim.engine.sm.atomics import execute_atomic
from gpusim.engine.sm.bulk_effect import apply_copy, apply_remote, land, leave_with_block
from gpusim.engine.sm.cluster import cluster_barrier, open_barriers
from gpusim.engine.sm.deferred import apply_deferred
from gpusim.engine.sm.flight import deliver
from gpusim.engine.sm.group_matrix import group_matrix
from gpusim.engine.sm.lsu import remote_access
from gpusim.engine.sm.matrix_load import watch_matrices
from gpusim.engine.sm.readiness import wake
from gpusim.engine.sm.shadow import watch_global, watch_local, watch_shared
from gpusim.engine.sm.shadow_clocks import meet_cluster
from gpusim.engine.sm.shadow_copies import ON_DEMAND
from gpusim.engine.sm.sm import advance_range
from gpusim.engine.sm.tensor_memory import tmem_access, tmem_begin, tmem_effect, tmem_end
from gpusim.engine.state import P, code_cache, ms
from gpusim.engine.state.arrays import State
from gpusim.engine.state.code_cache import core_folder
from isa import microops as M

_MARK = "complete"
"""File in the core's folder that says that all of the core is in it."""


def core_is_cached() -> bool:
    """True if the core for these sources has been compiled on this machine before."""
    return (core_folder() / _MARK).exists()


def prepare_core(state: State, memory_state: np.ndarray | None, shared: bool = False) -> float:
    """Compile what a launch needs of the core, or load it from the disk cache; of several processes that would compile
    it one does, and the others load it then. Returns the seconds this took.

    memory_state: of the memory system, None for a functional run, which has none. shared: launches share the GPU.
    """
    started = time.perf_counter()
    if fcntl is None or core_is_cached():
        _prepare(state, memory_state, shared)
        return time.perf_counter() - started
    core_folder().mkdir(parents=True, exist_ok=True)
    with (core_folder() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            for watcher in code_cache.watchers:
                watcher("what another process is compiling")
            with suppress(OSError):  # a network drive may have no locks
                fcntl.flock(lock, fcntl.LOCK_EX)
        _prepare(state, memory_state, shared)
    return time.perf_counter() - started


def _prepare(state: State, memory_state: np.ndarray | None, shared: bool) -> None:
    pairs = np.zeros((1, ms.ORDER_WORDS), np.int64)
    number = 0
    table, seats, clock = np.zeros((1, G_FIELDS), np.int64), np.zeros(1, np.int64), np.zeros(C_FIELDS, np.int64)
    calls: list[tuple[Any, tuple[Any, ...]]] = [(fill, (state, table[0], clock, number, seats, number))]
    if memory_state is None:
        calls += [
            (run_grid, (state, table, seats, clock, number, number, number)),
            (place_blocks, (state, table[0], number, number, number)),
        ]
    else:
        calls += [
            (refill, (state, table, seats, clock, number, number)),
            (advance_range, (state, number, number, number, number, number)),
            (process_window, (memory_state, state.request, state.requests, pairs, number)),
            (apply_deferred, (state, pairs, number)),
            (deliver, (state, pairs, number, memory_state)),
        ]
    if shared:
        calls.append((fill_beside, (state, table[0], clock, number, seats, number)))
    if memory_state is not None and state.par[P.CLUSTER_BLOCKS] > 0:
        calls.append((open_barriers, (state, number)))
    if np.isin(state.code[:, M.COL_OP], (M.OP_SYSCALL, M.OP_GRID_WAIT)).any():
        calls.append((wake, (state, number, number, number)))
    for function, arguments in calls:
        function.entry.compile(tuple(typeof(each) for each in arguments))
    for function in _on_demand(state):
        function.load()
    if not core_is_cached():
        core_folder().mkdir(parents=True, exist_ok=True)
        (core_folder() / _MARK).touch()


def _on_demand(state: State) -> list[Any]:
    """Return the functions compiled on demand that this launch needs; a stub would load what is missing here."""
    code, par = state.code, state.par
    kinds, ops = set(code[:, M.COL_CLASS].tolist()), code[:, M.COL_OP]
    memory = ops[code[:, M.COL_CLASS] == M.CLS_MEMORY]
    copies = (memory >= M.OP_LDGSTS) & (memory != M.OP_QSPC)
    checks, clusters = par[P.CHECKS] != 0, par[P.CLUSTER_BLOCKS] > 0
    needed = {
        exec_double: M.CLS_DOUBLE in kinds,
        exec_convert: M.CLS_CONVERT in kinds,
        exec_cross: M.CLS_CROSS in kinds,
        exec_half: M.CLS_HALF in kinds,
        exec_tensor: M.CLS_TENSOR in kinds,
        group_matrix: (ops == M.OP_GMMA).any(),
        narrow_product: (ops == M.OP_QMMA).any(),
        narrow_conversion: (ops == M.OP_F2FP_NARROW).any(),
        async_access: copies.any(),
        apply_remote: copies.any() and (clusters or (memory == M.OP_STAS).any()),
        execute_atomic: np.isin(memory, (M.OP_ATOM, M.OP_RED)).any(),
        watch_matrices: checks and np.isin(memory, (M.OP_LDSM, M.OP_STSM)).any(),
        meet_cluster: checks and clusters,
        **dict.fromkeys((land, apply_copy, leave_with_block), (memory == M.OP_BULK_COPY).any()),
        **dict.fromkeys((cluster_barrier, remote_access), clusters),
        **dict.fromkeys((tmem_access, tmem_begin, tmem_end), par[P.TMEM] != 0),
        tmem_effect: par[P.TMEM] != 0 and clusters,
        **dict.fromkeys((watch_shared, watch_local, watch_global, *ON_DEMAND), checks),
    }
    return [function for function, needs in needed.items() if needs]
