"""Code whose fixed latencies are not those of the machine that it was compiled for.

On these GPUs the compiler, not the hardware, sees to fixed latencies: an instruction says for how many cycles its warp
stalls after it. A hypothetical machine whose pipes are faster or slower would get other code. So where the
configuration's latencies are not those that the compiler counts on, the stalls are derived anew from what an
instruction reads of those before it: each result is there as many cycles later, or earlier, as the pipe is slower or
faster than the compiler thought.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from gpusim.config import GPUConfig
from gpusim.config.sections import Pipe
from isa import Program
from isa import microops as M
from isa.lower import Lowered, lower

#: Latencies that the compiler (CUDA 13.4) assumes: cycles from an instruction to one that needs its result, in chains
#: of FFMA, IMAD, PRMT, DFMA, VOTE and HMMA.16816 (HMMA.1688 for 7.5), by the compute capability that they are compiled
#: for. HFMA2 varies between 4 and 10 with what is behind it; what the configurations say stands for it, as for the
#: uniform datapath.
_COMPILED = {
    "pipes.fma": {0: 4},
    "pipes.imad": {0: 4},
    "pipes.alu": {0: 4},
    "pipes.half": {0: 6, 80: 5},
    "pipes.uniform": {0: 6},
    "pipes.fp64": {0: 8, 80: 6, 90: 8},
    "pipes.tensor": {0: 14, 80: 24, 100: 20, 120: 29},
    "memory_instruction.vote_latency_cycles": {0: 12},
}
#: Name of each unit's section, and the longest that its instructions keep what reads their results apart, as IMAD.WIDE
#: does with 6 and HMMA with up to 33; more, and the compiler had something to do meanwhile. Predicates, and so votes,
#: take up to 13.
_UNITS = {
    M.UNIT_FMA: ("fma", 6),
    M.UNIT_FMAHEAVY: ("imad", 6),
    M.UNIT_ALU: ("alu", 6),
    M.UNIT_HALF: ("half", 10),
    M.UNIT_UNIFORM: ("uniform", 12),
    M.UNIT_FP64: ("fp64", 10),
    M.UNIT_TENSOR: ("tensor", 33),
}
_MOST_PREDICATE = 13
_PT = (7, 15)
_MOST_RETIMED = 16  # of one program
#: Cycles from a branch to its target that a result can be under way without anybody's waiting for it.
_BRANCH = 9


@cache
def compiled_latency(key: str, arch: str) -> int:
    """Cycles that the compiler counts on, for a key of `_COMPILED` and an architecture such as 'sm_90'."""
    match = re.match(r"sm_(\d+)", arch)
    capability = int(match[1]) if match else 0
    return max((since, cycles) for since, cycles in _COMPILED[key].items() if since <= capability)[1]


def lowered_once(program: Program, config: GPUConfig) -> Lowered:
    """The program's rows, timed for the machine; from the last time if its instructions are the same, since constants
    may have changed."""
    lowered = program.once("rows", lambda: lower(program))
    if not (later := changes(config, program.arch)):
        return lowered
    kept: dict[tuple[tuple[int, int], ...], Lowered] = program.once("retimed rows", dict)
    key = tuple(later.items())
    if key not in kept:
        if len(kept) == _MOST_RETIMED:
            del kept[next(iter(kept))]
        kept[key] = retimed(lowered, later)
    return kept[key]


def changes(config: GPUConfig, arch: str) -> dict[int, int]:
    """Cycles by which results of a unit come later (earlier if negative) than code for `arch` expects; without zeros.

    -1 stands for votes, which are the ALU's and have a latency of their own.
    """
    found = {-1: config.memory_instruction.vote_latency_cycles}
    found[-1] -= compiled_latency("memory_instruction.vote_latency_cycles", arch)
    for unit, (name, _) in _UNITS.items():
        pipe: Pipe = getattr(config.pipes, name)
        found[unit] = pipe.latency_cycles - compiled_latency(f"pipes.{name}", arch)
    return {unit: cycles for unit, cycles in found.items() if cycles != 0}


def retimed(lowered: Lowered, by: Mapping[int, int]) -> Lowered:
    """Return the program with the stalls of a machine whose units' results come `by` cycles later (see `changes`)."""
    if not by:
        return lowered
    code = lowered.code.copy()
    stall = np.maximum(code[:, M.COL_STALL], 1).astype(int)
    before = np.concatenate([[0], np.cumsum(stall)])
    needs = _needs(code)
    least: dict[tuple[int, int, int], int] = {}
    for consumer, producers in enumerate(needs):
        for producer in producers:
            unit, kind = _unit(code, producer), _kind(code, producer)
            votes = unit < 0 or code[producer, M.COL_DST_COUNT] == 0
            most = _MOST_PREDICATE if votes else _UNITS.get(unit, ("", 0))[1]
            least[kind] = min(least.get(kind, most), int(before[consumer] - before[producer]))
    at = np.zeros(len(code) + 1, int)
    pending: list[int] = []
    for k in range(1, len(code)):
        late = 0
        tight = False
        for producer in needs[k]:
            apart = min(int(before[k] - before[producer]), least[_kind(code, producer)])
            change = by.get(_unit(code, producer), 0)
            tight |= change < 0 and apart == before[k] - before[producer]
            late = max(late, at[producer] + max(apart + change, 1))
        if code[k, M.COL_CLASS] == M.CLS_CONTROL and code[k, M.COL_OP] != M.OP_EXIT:
            pending = [p for p in pending if at[k - 1] - at[p] < least.get(_kind(code, p), 0) + by[_unit(code, p)]]
            for producer in pending:
                kind = _kind(code, producer)
                late = max(late, at[producer] + least.get(kind, 0) + by[_unit(code, producer)] - _BRANCH)
        at[k] = max(at[k - 1] + (1 if tight else stall[k - 1]), late)
        if by.get(_unit(code, k), 0) > 0 and code[k, M.COL_VARIABLE] == 0:
            pending.append(k)
    at[len(code)] = at[len(code) - 1] + stall[-1]
    code[:, M.COL_STALL] = np.diff(at)
    return replace(lowered, code=code)


def _unit(code: np.ndarray, k: int) -> int:
    """Key of `changes` for an instruction of fixed latency."""
    vote = code[k, M.COL_CLASS] == M.CLS_CROSS and code[k, M.COL_UNIT] == M.UNIT_ALU
    return -1 if vote else int(code[k, M.COL_UNIT])


def _kind(code: np.ndarray, k: int) -> tuple[int, int, int]:
    """Instructions of one latency: the micro-operation, and whether its result is a register or a predicate."""
    return int(code[k, M.COL_OP]), int(code[k, M.COL_UNIT]), int(code[k, M.COL_DST_COUNT] > 0)


def _needs(code: np.ndarray) -> list[list[int]]:
    """For each instruction those of fixed latency, in the order of the code, whose results it reads."""
    last: dict[int, int] = {}  # by row, or by -1 - the number of a predicate
    found: list[list[int]] = []
    for k, row in enumerate(code):
        reads = {-1 - int(row[c]) for c in (M.COL_GUARD, M.COL_PS0, M.COL_PS1, M.COL_PS2) if row[c] not in _PT}
        for column, count in _widths(row).items():
            if row[column] >= 0:
                reads.update(range(int(row[column]), int(row[column]) + count))
        found.append(sorted({last[each] for each in reads if last.get(each, -1) >= 0}))
        written = [-1 - int(row[c]) for c in (M.COL_PD0, M.COL_PD1) if row[c] not in _PT]
        written += range(int(row[M.COL_DST]), int(row[M.COL_DST]) + int(row[M.COL_DST_COUNT]))
        for each in written:
            last[each] = -1 if row[M.COL_VARIABLE] else k
    return found


def _widths(row: np.ndarray) -> dict[int, int]:
    """Rows that an instruction reads from each source column on."""
    match int(row[M.COL_CLASS]):
        case M.CLS_DOUBLE:
            return {M.COL_A: 2, M.COL_B: 2, M.COL_C: 2}
        case M.CLS_MEMORY:
            return {M.COL_A: 2, M.COL_B: max(int(row[M.COL_AUX1] & 255) >> 2, 1), M.COL_C: 1}
        case M.CLS_TENSOR:
            return {M.COL_A: 4, M.COL_B: 2, M.COL_C: max(int(row[M.COL_DST_COUNT]), 1)}
        case M.CLS_INT if M.OP_IMAD_WIDE_U <= row[M.COL_OP] <= M.OP_IMAD_HI_S:
            return {M.COL_A: 1, M.COL_B: 1, M.COL_C: 2}
    return {M.COL_A: 1, M.COL_B: 1, M.COL_C: 1}
