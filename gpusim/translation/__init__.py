"""Straight runs (`engine.straight`) that programs spend their time in, as machine code of the host.

Rows have a *shape*: what they say but for registers, predicates and when things happen. Of each shape a function is
compiled that goes through neighbouring rows of it: it calls their executor, and since the shape is a constant there,
LLVM leaves of an executor what such rows do. Functions are kept on disk, for all programs.
"""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from gpusim.engine.state import L, code_cache
from gpusim.engine.state.arrays import State
from gpusim.engine.state.jit import OPTIONS
from gpusim.engine.state.table import SHAPES, KnownTableType, define_constants
from gpusim.engine.state.whole_program import Compiled
from gpusim.engine.straight import shapes_of, straight_runs, unguarded
from gpusim.engine.straight_row import ROW_OF
from isa import microops as M

_SOME_BITS = 23  # of the number of a program's warp instructions after which it is worth a look
_HOT = 1 / 512  # of what it has executed, that of a hot run
_WORTH = 1 << 21  # those of a run for which a shape is compiled: half of what that takes, but once for all programs
_WORD = ir.IntType(64)
_OF_ROW = KnownTableType(State), types.int64, types.int64, types.int64
_OF_SHAPE = ir.FunctionType(_WORD, [_WORD] * 5)  # state's table, SM, warp, first row, how many: how many are over


class Translation:
    """What has been compiled for a program. code, table: `State.code` and `State.runs` of its launches."""

    def __init__(self, code: np.ndarray, table: np.ndarray):
        self._code, self._table = code, table
        self._executed, self._runs, self._engines = 0, list[tuple[int, int]](), list[Any]()
        self._counted = (np.zeros(0, int),) * 3  # first rows of runs; rows without a guard, and whose run they are of

    def look(self, counters: np.ndarray, done: int) -> None:
        """Count what machine code has done; use what there is, and compile what is worth it. counters: of a launch;
        done: instructions since. It looks closer each time the program has executed twice as many."""
        self._count(counters)
        before, self._executed = self._executed, self._executed + done
        if code_cache.BOUNDS_CHECK or max(before.bit_length(), _SOME_BITS) >= self._executed.bit_length():
            return
        executed, shapes = counters[:, :, L.COUNT_EXECUTED].sum(axis=0), shapes_of(self._code)
        hot = {run: executed[slice(*run)].sum() / max(executed.sum(), 1) for run in straight_runs(self._code)}
        hot = {run: share for run, share in hot.items() if share > _HOT or run in self._runs}
        new = {run: {shape for shape in shapes[slice(*run)] if not address_of(shape)} for run in hot}
        worth = [run for run in hot if hot[run] * self._executed > _WORTH * len(new[run]) > 0]
        _compile({shape for run in worth for shape in new[run]})
        functions = [address_of(shape) for shape in shapes]
        runs = [run for run in hot if all(functions[slice(*run)])]
        if runs != self._runs:
            self._use(runs, functions)

    def _use(self, runs: list[tuple[int, int]], functions: list[int]) -> None:
        """Let these runs go by machine code. functions: addresses of those of all rows."""
        self._runs, plain = runs, unguarded(self._code)
        firsts = np.array([first for first, _ in runs], int)
        counted = [(i, k) for k, run in enumerate(runs) for i in range(*run) if plain[i]]
        rows, run_of = np.array(counted, int).reshape(-1, 2).T
        self._counted = firsts, rows, run_of
        engine, self._table[firsts, L.RUN_ADDRESS] = _sequences(runs, functions)
        self._engines.append(engine)  # and those before: a launch of another thread may be in one

    def _count(self, counters: np.ndarray) -> None:
        """Count the rows without a guard of the runs that have gone by machine code."""
        firsts, rows, run_of = self._counted
        times = counters[:, firsts, L.COUNT_RUNS]
        if times.any():
            for field, each in ((L.COUNT_EXECUTED, 1), (L.COUNT_THREADS, 32), (L.COUNT_PRED_ON, 32)):
                counters[:, rows, field] += each * times[:, run_of]
            counters[:, firsts, L.COUNT_RUNS] = 0


def _sequences(runs: list[tuple[int, int]], functions: list[int]) -> tuple[Any, list[int]]:
    """Machine code of this process that goes through each run, as `run_at` says, by calls of the functions of its rows.

    Each group of like rows has a call of its own, which the host's processor learns to foresee: one call site for all
    of them, with a table, is slower than the executors. LLVM is not asked to optimise: it would take seconds for
    hundreds of calls, of which nothing can be made.
    """
    module = ir.Module()
    for first, end in runs:
        function = ir.Function(module, ir.FunctionType(_WORD, [_WORD] * 3), f"run{first}")
        builder = ir.IRBuilder(function.append_basic_block())
        for address, alike in itertools.groupby(range(first, end), functions.__getitem__):
            i, *others = alike
            callee = builder.inttoptr(_WORD(address), _OF_SHAPE.as_pointer())
            over = builder.call(callee, [*function.args, _WORD(i), _WORD(1 + len(others))])
            with builder.if_then(builder.icmp_signed("!=", over, _WORD(1 + len(others)))):
                builder.ret(builder.add(over, _WORD(i - first)))
        builder.ret(_WORD(end - first))
    target = llvm.Target.from_default_triple().create_target_machine(opt=0, codemodel="jitdefault", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), target)
    engine.finalize_object()
    return engine, [engine.get_function_address(f"run{first}") for first, _ in runs]


_FOUND: dict[bytes, tuple[Compiled, int]] = {}
"""By shape: a function of this process that tells addresses, and the shape's number there."""


def address_of(shape: bytes) -> int:
    """Address of the function for a shape, which takes OF_SHAPE; 0 if there is none yet."""
    if not _FOUND:
        for file in code_cache.code_folder(Path(__file__)).glob("*.shapes"):
            _offer(file.read_bytes())
    tell, number = _FOUND.get(shape, (None, 0))
    return int(tell(number)) if tell else 0


def _compile(shapes: set[bytes]) -> None:
    """Compile functions for shapes that have none."""
    if shapes:
        name = _offer(content := b"".join(sorted(shapes)))
        address_of(content[: 4 * M.COLUMNS])
        code_cache.keep(code_cache.code_folder(Path(__file__)) / f"{name}.shapes", content)


def _offer(content: bytes) -> str:
    """Take note of shapes that are, or will be, compiled together. Returns their name."""
    shapes = np.frombuffer(content, np.int32).reshape(-1, M.COLUMNS)
    name = f"shapes_{hashlib.sha256(content).hexdigest()[:16]}"
    scope: dict[str, Any] = {"__name__": __name__, "place": _functions(shapes)}
    exec(compile(f"def {name}(number):\n    return place(number)\n", __file__, "exec"), scope)
    tell = Compiled(scope[name], OPTIONS)
    _FOUND.update({shape.tobytes(): (tell, k) for k, shape in enumerate(shapes)})
    return name


def _functions(shapes: np.ndarray) -> Any:
    """Compiled code that tells the address of the function for the shape of a number. Such a function gets what
    `ROW_OF` says of the first of neighbouring rows, and how many there are. It returns how many of them are over."""

    @intrinsic
    def place(typing: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            define_constants(builder.module, SHAPES, shapes)
            made = []
            for k, row in enumerate(ROW_OF[kind] for kind in shapes[:, M.COL_CLASS].tolist()):
                made.append(ir.Function(builder.module, _OF_SHAPE, f"shape{k}"))
                made[k].linkage, inner = "internal", ir.IRBuilder(made[k].append_basic_block())
                table, sm, w, first, count = made[k].args
                st = cgutils.pack_struct(inner, (inner.inttoptr(table, _WORD.as_pointer()), _WORD(k)))
                context.active_code_library.add_linking_library(row.part.library(_OF_ROW))
                callee = context.declare_function(builder.module, row.part.overloads[_OF_ROW].fndesc)
                with cgutils.for_range(inner, count) as loop:
                    given = st, sm, w, inner.add(first, loop.index)
                    _, goes_on = context.call_conv.call_function(inner, callee, types.boolean, _OF_ROW, given)
                    with inner.if_then(inner.not_(inner.trunc(goes_on, ir.IntType(1))), likely=False):
                        inner.ret(loop.index)
                inner.ret(count)
            table = ir.GlobalVariable(builder.module, ir.ArrayType(made[0].type, len(made)), "gpusim.functions")
            table.linkage, table.initializer = "internal", table.value_type(made)
            return builder.ptrtoint(builder.load(builder.gep(table, [_WORD(0), values[0]])), _WORD)

        return types.int64(types.int64), generate

    return place
