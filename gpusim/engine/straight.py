"""Straight runs of a program's rows: nothing but arithmetic and plain loads and stores, and nothing jumps behind the
first row. Without time a warp may go through one by machine code of the host, see `gpusim.translation`.

A turn of a warp ends in front of a run or behind it, compiled or not: so what is compiled changes no order.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gpusim.engine.state import L
from gpusim.engine.state.table import REGISTER, VARIES
from isa import microops as M

_LONGEST, _ACCESSES = 128, 32  # rows of a run; accesses to global memory in it, whose requests have to find room
_OF_TIME = [
    *(M.COL_STALL, M.COL_YIELD, M.COL_RBAR, M.COL_WBAR, M.COL_WAIT, M.COL_REUSE, M.COL_READS, M.COL_RESULT),
    *(M.COL_UNIT, M.COL_CONST, M.COL_VARIABLE, M.COL_TENSOR),
]
_REGISTERS = [M.COL_DST, M.COL_A, M.COL_B, M.COL_C]
_PREDICATES = [M.COL_GUARD, M.COL_PD0, M.COL_PD1, M.COL_PS0, M.COL_PS1, M.COL_PS2]


def straight_runs(code: np.ndarray) -> list[tuple[int, int]]:
    """First row and row behind the last one of each straight run, in order."""
    kind, op, space = code[:, M.COL_CLASS], code[:, M.COL_OP], code[:, M.COL_AUX0]
    moves = np.isin(op, (M.OP_LOAD, M.OP_STORE)) & np.isin(space, (M.SPACE_SHARED, M.SPACE_GLOBAL))
    computes = (kind >= M.CLS_INT) & (kind <= M.CLS_TENSOR) & (op != M.OP_GMMA)
    plain = np.where(kind == M.CLS_MEMORY, moves, computes)
    targets = set(code[kind == M.CLS_CONTROL][:, [M.COL_AUX0, M.COL_AUX1]].ravel().tolist())
    far = (kind == M.CLS_MEMORY) & (space != M.SPACE_SHARED)
    runs: list[tuple[int, int]] = []
    first, accesses = 0, 0
    for i in range(len(code) + 1):
        ends = i == len(code) or not plain[i]
        if ends or i in targets or i - first == _LONGEST or accesses == _ACCESSES:
            if i > first:
                runs.append((first, i))
            first, accesses = i + ends, 0
        accesses += 0 if ends else int(far[i])
    return runs


def unguarded(code: np.ndarray) -> np.ndarray:
    """Return which rows all active lanes execute."""
    return (code[:, [M.COL_GUARD, M.COL_GUARD_NEG]] == (7, 0)).all(axis=1)


def shapes_of(code: np.ndarray) -> list[bytes]:
    """The shape of each row: a row that says what may differ."""
    alike, kind = code.copy(), code[:, M.COL_CLASS]
    alike[code == REGISTER] = VARIES  # a number of the row's own that happens to be that
    alike[:, _OF_TIME] = 0
    alike[unguarded(code), M.COL_UNIFORM] = 0
    alike[kind == M.CLS_MEMORY, M.COL_AUX2] = VARIES
    alike[:, _REGISTERS] = VARIES
    alike[:, _PREDICATES] = np.where(code[:, _PREDICATES] == 7, 7, VARIES)
    floats = np.ix_(kind == M.CLS_FLOAT, _REGISTERS)
    alike[floats] = np.where(code[floats] >= 0, REGISTER, VARIES)
    return [row.tobytes() for row in alike]


def run_table(code: np.ndarray) -> np.ndarray:
    """`State.runs` of a program of which nothing is compiled: RUN_* of `layout`."""
    table = np.zeros((len(code), L.RUN_FIELDS), np.int64)
    for first, end in straight_runs(code):
        table[first + 1 : end, L.RUN_WITHIN] = 1
    return table


@intrinsic
def run_at(typing: Any, address: Any, st: Any, sm: Any, w: Any) -> Any:
    """Run a straight run by machine code at an address. Returns how many rows were executed: all of it, or those before
    one that an error ended."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        word = values[0].type
        run = builder.inttoptr(values[0], ir.FunctionType(word, [word] * 3).as_pointer())
        return builder.call(run, [builder.ptrtoint(values[1], word), *values[2:]])

    return types.int64(types.int64, st, types.int64, types.int64), generate
