"""Launches that repeat: each is executed, what was timed before is not timed again.

A launch may be like an earlier one where code, grid, block, shared memory, scalars, how pointers are aligned and which
of them are the same, and whether its code has run before agree. Then it is executed without time, with its requests
through L2's tags, and takes as long as the earlier one if both have done the same: instructions, lanes, sectors and
wavefronts, and what L2 had to fetch from memory and to write back. If not, what it has written is undone, and it is
timed as well.

Arrays whose lines fall into other slices and rows are not told apart: docs/modes.md says what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpusim.engine.state import L, ms
from gpusim.errors import SimulationError
from gpusim.host.sampling import ASKED, COUNTED, communicates
from gpusim.host.session import ReadyLaunch
from gpusim.host.syscalls import SystemCalls
from gpusim.launch.memory import DeviceMemory
from gpusim.results.record import LaunchRecord
from isa import Program
from isa import microops as M

_LEAST_INSTRUCTIONS, _KEPT = 100_000, 1 << 27  # warp instructions from which on it pays; bytes that are kept
_ALIKE = 0.01  # by how much counts may differ
_ASKED = 0.001  # of what SMs ask for, sectors that may come from memory here and from L2 there: one can hold up many
_MOST = 8  # launches that are kept of those with one key; when so many had to be timed others are too
_MOVED = 0.02, 0.05  # of what memory can move in that time, by how much that may differ, and of what it was idle for
_BUS = [ms.CNT_FILL_SECTORS, ms.CNT_WRITEBACK_SECTORS]
_BOUND = 0.6  # of what memory can move in the launch's time: if it does, time goes with what it moves
_LONGER, _UNEVEN = 0.25, 0.05  # then it may move so much more or less, and execute as much more but for this share
_SCALARS_BYTES = 1024  # more are tables of arrays, as of PyTorch's optimizers: what it does to them tells more
_COLD_CODE_CYCLES = 50_000  # of what takes longer it does not matter if its code has run (H200: less than 1,000)
_ITS_OWN = "config", "program", "launch", "occupancy", "code", "mode", "cycles", "trace", "host_parts"  # not kept
_ALIGNED = 512  # bytes: as PyTorch's allocator aligns arrays
_OF_TIME_OR_PLACE = (
    *(M.SR_CLOCKLO, M.SR_CLOCKHI, M.SR_GLOBALTIMERLO, M.SR_GLOBALTIMERHI),
    *(M.SR_VIRTUALSMID, M.SR_SMID, M.SR_WARPID, M.SR_VIRTID),
)


class Timed(NamedTuple):
    """cycles: from the hand-out of its first blocks to its end; fields: of its record; warm: its code had run."""

    cycles: int
    fields: dict[str, Any]
    warm: bool


class _Unlike(SimulationError):
    """A launch that was executed has done something else than those that were timed."""


class _NoCalls(SystemCalls):
    """In place of the host, whose answers cannot be undone."""

    def serve(self, *_: object, **__: object) -> None:
        raise _Unlike


def key_of(run: ReadyLaunch) -> Hashable:
    """Return what launches share that may be alike; None for one that has to be timed, since it reads clocks or places
    or the host may write what it reads."""
    code, options = run.lowered.code, run.options
    special = code[code[:, M.COL_CLASS] == M.CLS_SPECIAL, M.COL_AUX0]
    if run.session.memory.host_writes or np.isin(special, _OF_TIME_OR_PLACE).any():
        return None
    what = run.program.sha256, run.program.symbol, run.launch.grid, run.launch.block, run.launch.shared_bytes
    how = options.cooperative, options.carveout, options.window, options.stack_bytes, options.strict_barriers
    return what, how, signature(run.parameter_bytes, run.session.memory)


def keep(run: ReadyLaunch, key: Hashable, record: LaunchRecord, warm: bool) -> None:
    """Keep a launch that was timed with the GPU to itself, if it is worth it."""
    known = run.session.timed
    if record.sm_issued.sum() < _LEAST_INSTRUCTIONS or len(known.get(key, ())) >= _MOST:
        return
    fields = {name: value for name, value in vars(record).items() if name not in _ITS_OWN}
    known.setdefault(key, []).append(Timed(run.end - run.began, fields, warm))
    while len(known) > 1 and sum(each.fields["counters"].nbytes for like in known.values() for each in like) > _KEPT:
        known.popitem(last=False)


def execute_like(run: ReadyLaunch, key: Hashable, warm: bool) -> Timed | None:
    """Execute a launch of which some with this key were timed. Returns the one that it is like best, with the launch's
    own counts; None, and everything is as before, if it is like none."""
    session, system = run.session, run.session.engine.memory_system
    session.timed.move_to_end(key)
    known = [each for each in session.timed[key] if each.cycles > _COLD_CODE_CYCLES or each.warm == warm]
    if not known or len(session.timed[key]) >= _MOST:
        return None
    before = system.keep()
    system.set_window(run.options.window)
    system.place(run.launch.blocks if run.program.cluster is None else session.config.sm.count)
    fetched = max(each.fields["memory"][ms.CNT_FILL_SECTORS] for each in known)
    in_step = bool(fetched * ms.SECTOR_BYTES > session.config.l2.bytes / 2)  # what L2 still has depends on the order
    calls, session.calls = session.calls, _NoCalls(session.memory)
    try:
        with session.memory.all_or_nothing(_written(run, known)):
            executed, _ = run.run_untimed(system=system, in_step=in_step)
            shares = [_share(each, executed, run) for each in known]
            share, found = min(zip(shares, known, strict=True), key=lambda each: abs(each[0] - 1))
            if share == math.inf:
                raise _Unlike
    except SimulationError:  # of an error the run in time tells more
        system.restore(before)
        return None
    finally:
        session.calls = calls
    own = {name: executed[name] for name in ("host_seconds", "compile_seconds")}
    own |= {name: np.rint(share * found.fields[name]).astype(np.int64) for name in ("counters", "memory")}
    own["counters"][:, COUNTED] = executed["counters"][:, COUNTED]
    return found._replace(cycles=round(share * found.cycles), fields={**found.fields, **own})


def _written(run: ReadyLaunch, known: Sequence[Timed]) -> list[tuple[int, int]]:
    """(address, bytes) of what a launch may write: as much of each array as the like have written."""
    most = ms.SECTOR_BYTES * max(int(each.fields["memory"][ms.CNT_TEX_WRITE_SECTORS]) for each in known)
    pointers = sorted(_pointers(run.parameter_bytes, run.session.memory), key=lambda each: -each[1])
    lowest = {end: address for _, address, end in pointers}  # of each array
    return [(address, min(most, end - address)) for end, address in lowest.items()]


def _pointers(parameter_bytes: bytes, memory: DeviceMemory) -> Iterator[tuple[int, int, int]]:
    """(number of the word, address, end of what is there) of each pointer among parameters."""
    for k, word in enumerate(np.frombuffer(parameter_bytes[: len(parameter_bytes) & ~7], np.uint64).tolist()):
        if memory.is_inside(word) and (allocation := memory.holding(word)) is not None:
            yield k, word, allocation.end


def signature(parameter_bytes: bytes, memory: DeviceMemory) -> Hashable:
    """Return the parameters with each pointer replaced by its alignment and the first place where it stands."""
    if len(parameter_bytes) > _SCALARS_BYTES:
        return len(parameter_bytes)
    words = np.frombuffer(parameter_bytes[: len(parameter_bytes) & ~7], np.uint64).copy()
    pointers: dict[int, int] = {}
    for k, word, _ in _pointers(parameter_bytes, memory):
        words[k] = pointers.setdefault(word, k) * _ALIGNED + word % _ALIGNED
    return words.tobytes(), parameter_bytes[len(words) * 8 :], tuple(pointers.values())


def _share(timed: Timed, executed: Mapping[str, Any], run: ReadyLaunch) -> float:
    """Return the time of an executed launch as a share of a timed one: 1 if both have done the same; or infinity."""
    before, after = timed.fields["memory"], executed["memory"]
    counts, counts_too = timed.fields["counters"], executed["counters"]
    most = run.session.config.dram_bytes_per_cycle * timed.cycles / ms.SECTOR_BYTES
    moved, differs = before[_BUS].sum(), np.abs(after - before)
    if moved >= _BOUND * most:  # by its memory, which takes as much longer as it moves more
        share = after[_BUS].sum() / moved
        uneven = abs(counts_too[:, L.COUNT_EXECUTED].sum() / counts[:, L.COUNT_EXECUTED].sum() / share - 1)
        return share if abs(share - 1) <= _LONGER and uneven <= _UNEVEN else math.inf
    rows = run.lowered.once("does not wait", lambda: _settled(run.program, run.lowered.code))
    counts, counts_too = (each[np.ix_(rows, COUNTED)] for each in (counts, counts_too))
    few = _ASKED * before[ASKED].sum() + _ALIKE * before[ms.CNT_FILL_SECTORS]
    bus = _MOVED[0] * most + _MOVED[1] * max(most - moved, 0)
    same = (np.abs(counts_too - counts).sum(axis=0) <= _ALIKE * counts.sum(axis=0)).all()
    return 1.0 if same and differs[ms.CNT_FILL_SECTORS] <= few and differs[_BUS].sum() <= bus else math.inf


def _settled(program: Program, code: np.ndarray) -> np.ndarray:
    """Return which instructions run equally often whatever others do at the time: of blocks that wait for each other
    those that access memory, but for strong loads, with which they wait."""
    if not communicates(program, code):
        return np.arange(len(code))
    strong = (code[:, M.COL_OP] == M.OP_LOAD) & (code[:, M.COL_AUX3] & M.MEM_STRONG != 0)
    return np.flatnonzero((code[:, M.COL_CLASS] == M.CLS_MEMORY) & ~strong)
