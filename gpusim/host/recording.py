"""Executing a launch once for many machines: what its time depends on is recorded, and read by the runs that follow.

That works where values do not depend on time: neither on clocks and places, nor on the order of atomics whose result is
used. A recording holds for all machines that run the same code on the same banks.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable

import numpy as np

from gpusim.config import GPUConfig
from gpusim.engine.launch_state import aligned_bytes
from gpusim.engine.sm.recording import CHUNK
from gpusim.engine.state import layout as L
from gpusim.errors import PoolExhausted
from gpusim.host.sampling import communicates
from gpusim.host.session import ReadyLaunch
from gpusim.launch import Launch
from gpusim.launch.memory import DeviceMemory
from isa import Program
from isa import microops as M

Recording = tuple[np.ndarray, np.ndarray, np.ndarray]
"""`State.recorded`, `State.record_starts`, and what looking at values has counted: `LOOKED` of each instruction."""
LOOKED = slice(L.COUNT_LOOKED, L.COUNT_SPREAD + 1)

MOST_WORDS = 1 << 26
"""Of one recording: half a gigabyte."""
_KEPT_WORDS = 1 << 27  # of all that a process keeps
_kept: OrderedDict[Hashable, Recording] = OrderedDict()

_OF_TIME_OR_PLACE = (
    *(M.SR_CLOCKLO, M.SR_CLOCKHI, M.SR_GLOBALTIMERLO, M.SR_GLOBALTIMERHI),
    *(M.SR_VIRTUALSMID, M.SR_SMID, M.SR_WARPID, M.SR_VIRTID),
)
_BY_REGISTER = (M.OP_BMOV, M.OP_NANOSLEEP, M.OP_LDGDEPBAR, M.OP_GROUP_WAIT)


def replayable(program: Program, code: np.ndarray) -> bool:
    """Return whether a recording of the program can stand for its values. code: its lowered rows."""
    if communicates(program, code):
        return False
    kind, op = code[:, M.COL_CLASS], code[:, M.COL_OP]
    memory, control, barrier = kind == M.CLS_MEMORY, kind == M.CLS_CONTROL, kind == M.CLS_BARRIER
    atomic = code[:, M.COL_AUX4] >> 8
    returns = (code[:, M.COL_DST_COUNT] > 0) | (code[:, M.COL_PD0] < 7)
    races = (op == M.OP_ATOM) & (returns | (atomic == M.ATOMIC_CAST_SPIN) | (atomic == M.ATOMIC_CAS))
    refused = memory & (races | ((op >= M.OP_LDGSTS) & (op != M.OP_LDSM) & (op != M.OP_STSM)))
    refused |= control & np.isin(op, _BY_REGISTER)
    refused |= control & (op == M.OP_WARPSYNC) & (code[:, M.COL_AUX0] & 1 == 0)
    refused |= control & (op == M.OP_BRA) & (code[:, M.COL_AUX1] == M.BRANCH_DIV)
    refused |= barrier & (op == M.OP_BAR) & ((code[:, M.COL_AUX1] < 0) | (code[:, M.COL_AUX2] < 0))
    refused |= (kind == M.CLS_SPECIAL) & np.isin(code[:, M.COL_AUX0], _OF_TIME_OR_PLACE)
    return not (refused | (op == M.OP_GMMA)).any()


def key_of(
    program: Program, launch: Launch, parameter_bytes: bytes, memory: DeviceMemory, config: GPUConfig
) -> Hashable:
    """Return the key that two launches share if one recording serves both."""
    content = hashlib.blake2b(parameter_bytes)
    for each in memory.allocations:
        content.update(f"{each.address} {each.nbytes}".encode())
        content.update(memory.view(each.address, each.nbytes).data)
    machine = config.shared.banks, config.shared.bank_bytes, config.gpu.warp_size, config.issue.reconvergence
    return program.sha256, program.symbol, launch.grid, launch.block, launch.shared_bytes, machine, content.digest()


def recording_of(run: ReadyLaunch) -> Recording | None:
    """The recording of a launch, made if it is not known yet; None if its values have to be computed each time."""
    program, options, memory = run.program, run.options, run.session.memory
    if options.trace is not None or options.checks or not replayable(program, run.lowered.code):
        return None
    key = key_of(program, run.launch, run.parameter_bytes, memory, run.session.config)
    if key not in _kept:
        words = aligned_bytes(8 * MOST_WORDS).view(np.int64)
        words[0] = CHUNK
        starts = np.zeros(run.launch.blocks * -(-run.launch.threads_per_block // 32), np.int64)
        try:
            with memory.unchanged():
                executed, _ = run.run_untimed(recording=(words, starts, np.zeros(0, np.int64)))
        except PoolExhausted:  # too long
            return None
        _kept[key] = words[: words[0]].copy(), starts, executed["counters"][:, LOOKED].copy()
    _kept.move_to_end(key)
    while len(_kept) > 1 and sum(each[0].size for each in _kept.values()) > _KEPT_WORDS:
        _kept.popitem(last=False)  # the one that has not been used for longest
    return _kept[key]
