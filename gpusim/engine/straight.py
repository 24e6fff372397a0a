"""Straight runs of a program's rows: nothing but arithmetic and plain loads and stores, and nothing jumps behind the
first row. Without time a warp may go through one by machine code of the host, see `gpusim.translation`.

A turn of a warp ends in front of a run or behind it, compiled or not: so what is compiled changes no order.
"""

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from gpusim.engine.state import L
from gpusim.engine.state.arrays import KnownState
from gpusim.engine.state.table import TableType
from isa import microops as M

_LONGEST, _ACCESSES = 128, 32  # rows of a run; accesses to global memory in it, whose requests have to find room
ARGUMENTS = (TableType(KnownState), types.int64, types.int64, types.int64)


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


def run_table(code: np.ndarray) -> np.ndarray:
    """`State.runs` of a program of which nothing is compiled: RUN_* of `layout`."""
    table = np.zeros((len(code), L.RUN_FIELDS), np.int64)
    for first, end in straight_runs(code):
        table[first + 1 : end, L.RUN_WITHIN] = 1
    return table


@intrinsic
def run_at(typing: Any, address: Any, st: Any, sm: Any, w: Any, first: Any) -> Any:
    """Run the rows from `first` on by machine code at an address. Returns how many were executed: all of the straight
    run, or those before one that an error ended."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        kind = context.call_conv.get_function_type(types.int64, ARGUMENTS)
        function = builder.inttoptr(values[0], kind.as_pointer())
        return context.call_conv.call_function(builder, function, types.int64, ARGUMENTS, values[1:])[1]

    return types.int64(types.int64, st, types.int64, types.int64, types.int64), generate
