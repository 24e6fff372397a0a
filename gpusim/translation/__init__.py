"""Straight runs (`engine.straight`) that a program spends its time in, as machine code of the host.

They are compiled together once they have been gone through often: each row calls its executor, and since the rows are
constants there, LLVM leaves of an executor what that row does. They are kept on disk, by the program's rows.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from gpusim.engine.rows.common import FULL_MASK
from gpusim.engine.rows.convert import exec_convert
from gpusim.engine.rows.cross import exec_cross
from gpusim.engine.rows.double import exec_double
from gpusim.engine.rows.float import exec_float
from gpusim.engine.rows.half import exec_half
from gpusim.engine.rows.int import exec_int
from gpusim.engine.rows.predicate import exec_pred
from gpusim.engine.rows.tensor import exec_tensor
from gpusim.engine.sm.lsu import plain_access
from gpusim.engine.sm.run_warp import counted_lanes
from gpusim.engine.state import L, P, code_cache, compiled
from gpusim.engine.state.jit import OPTIONS
from gpusim.engine.state.table import define_known_rows
from gpusim.engine.state.whole_program import Compiled
from gpusim.engine.straight import ARGUMENTS, straight_runs
from isa import microops as M

_EXECUTORS = {
    **{M.CLS_INT: exec_int, M.CLS_FLOAT: exec_float, M.CLS_DOUBLE: exec_double, M.CLS_CONVERT: exec_convert},
    **{M.CLS_PRED: exec_pred, M.CLS_CROSS: exec_cross, M.CLS_HALF: exec_half, M.CLS_TENSOR: exec_tensor},
}
_SOME = 1 << 20  # warp instructions of a program after which it is worth to look on the disk
_OFTEN = 1 << 27  # and to compile its hot runs: it has taken about as long as that
_HOT, _ROWS = 0.03, 512  # of all instructions, those of a hot run; rows that are compiled
_TOGETHER = 16  # rows of a function
_WORD = ir.IntType(64)


@compiled
def first_register(st, w):
    """Element of a warp's first register."""
    return 32 * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP])


def _row_of(execute: Any) -> Any:
    """Compiled code for a row of an executor: gets the state, the SM, the warp and the row's number."""

    @compiled
    def arithmetic(st, sm, w, i):
        mask = counted_lanes(st, sm, w, i, np.uint32(FULL_MASK))
        execute(st.code, i, st.regs, first_register(st, w), st.preds, 16 * w, mask)
        return True

    return arithmetic


@compiled
def memory_row(st, sm, w, i):
    """A load or store; its time counts the warp's instructions. Returns whether the run goes on."""
    time = st.warp[w, L.WARP_SINCE] + i - st.warp[w, L.WARP_PC]
    mask = np.int64(counted_lanes(st, sm, w, i, np.uint32(FULL_MASK)))
    return plain_access(st, sm, w, i, first_register(st, w), mask, time)


class Translation:
    """What has been compiled of a program. code, table: `State.code` and `State.runs` of its launches."""

    def __init__(self, code: np.ndarray, table: np.ndarray):
        self._code, self._table = code, table
        self._executed, self._hot = 0, list[tuple[int, int]]()
        self._file: Path | None = None  # that says which runs are on disk, once it has been looked for

    def look(self, counters: np.ndarray, done: int) -> None:
        """Load what is on disk, or compile what has become hot. counters: of a launch; done: instructions since."""
        self._executed += done
        if self._file is None and self._executed >= _SOME:
            self._file = code_cache.code_folder(Path(__file__)) / f"{_digest(self._code)}.runs"
            hot = [(first, end) for first, end in json.loads(self._file.read_bytes())] if self._file.exists() else []
        elif self._file is not None and self._executed >= _OFTEN:
            self._executed, hot = 0, self._hottest(counters[:, :, L.COUNT_EXECUTED].sum(axis=0))
        else:
            return
        if hot == self._hot or code_cache.BOUNDS_CHECK:
            return
        self._hot, address = hot, _compiled(self._code, hot)
        for first, _ in hot:
            self._table[first, L.RUN_ADDRESS] = address
        code_cache.keep(self._file, json.dumps(hot).encode())

    def _hottest(self, executed: np.ndarray) -> list[tuple[int, int]]:
        """Return the hot runs, in order; those that were are still."""
        share = {run: executed[slice(*run)].sum() / executed.sum() for run in straight_runs(self._code)}
        rows, hot = 0, set(self._hot)
        for first, end in sorted(share, key=lambda run: share[run], reverse=True):
            if share[first, end] >= _HOT and rows + end - first <= _ROWS:
                rows += end - first
                hot.add((first, end))
        return sorted(hot)


def _digest(code: np.ndarray, runs: Any = ()) -> str:
    return hashlib.sha256(code.tobytes() + repr(runs).encode()).hexdigest()[:16]


def _compiled(code: np.ndarray, runs: list[tuple[int, int]]) -> int:
    """Address of machine code for these runs, which takes what `run_at` gives."""
    name = f"runs_{_digest(code, runs)}"
    scope: dict[str, Any] = {"__name__": __name__, "rows": _rows(code, runs)}
    source = f"def {name}(st, sm, w, first):\n    return rows(st, sm, w, first)\n"
    exec(compile(source, __file__, "exec"), scope)
    return Compiled(scope[name], OPTIONS).entry.address(ARGUMENTS)


def _rows(code: np.ndarray, runs: list[tuple[int, int]]) -> Any:
    """Compiled code that executes the run that begins with row `first`, as `run_at` says."""
    found = {int(kind) for first, end in runs for kind in code[first:end, M.COL_CLASS]}
    kinds = {kind: memory_row if kind == M.CLS_MEMORY else _row_of(_EXECUTORS[kind]) for kind in found}

    def write(context: Any, module: Any, begin: int, end: int) -> Any:
        """Write a function of a few rows, as many as LLVM optimises quickly, with a result as `run_at`."""
        kind = ir.FunctionType(_WORD, [context.get_value_type(ARGUMENTS[0]), _WORD, _WORD])
        function = ir.Function(module, kind, f"rows{begin}")
        function.linkage, builder = "internal", ir.IRBuilder(function.append_basic_block())
        function.attributes.add("noinline")
        for i in range(begin, end):
            part = kinds[int(code[i, M.COL_CLASS])].part
            context.active_code_library.add_linking_library(part.library(ARGUMENTS))
            row = context.declare_function(module, part.overloads[ARGUMENTS].fndesc)
            given = (*function.args, ir.Constant(_WORD, i))
            _, goes_on = context.call_conv.call_function(builder, row, types.boolean, ARGUMENTS, given)
            if code[i, M.COL_CLASS] == M.CLS_MEMORY:
                with builder.if_then(builder.not_(goes_on), likely=False):
                    builder.ret(ir.Constant(_WORD, i - begin))
        builder.ret(ir.Constant(_WORD, end - begin))
        return function

    @intrinsic
    def rows(typing: Any, st: Any, sm: Any, w: Any, first: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            define_known_rows(builder.module, code[runs[0][0] : runs[-1][1]], runs[0][0])
            done = cgutils.alloca_once_value(builder, ir.Constant(_WORD, 0))
            behind = builder.append_basic_block()
            choice = builder.switch(values[3], behind)
            for first, end in runs:
                choice.add_case(ir.Constant(_WORD, first), builder.append_basic_block())
                builder.position_at_end(choice.cases[-1][1])
                for begin in range(first, end, _TOGETHER):
                    count = min(_TOGETHER, end - begin)
                    executed = builder.call(write(context, builder.module, begin, begin + count), values[:3])
                    builder.store(builder.add(builder.load(done), executed), done)
                    following = builder.append_basic_block()
                    builder.cbranch(builder.icmp_signed("==", executed, ir.Constant(_WORD, count)), following, behind)
                    builder.position_at_end(following)
                builder.branch(behind)
            builder.position_at_end(behind)
            return builder.load(done)

        return types.int64(*ARGUMENTS), generate

    return rows
