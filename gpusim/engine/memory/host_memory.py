"""Saving the host's time: L2 sets loaded before they are needed. Without it most of a request's cost is waiting."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gpusim.engine.memory.l2 import set_start
from gpusim.engine.memory.place import target_of
from gpusim.engine.state import memory as ms
from gpusim.engine.state.jit import compiled

_TO_WRITE, _KEEP, _DATA = 1, 3, 1  # operands of llvm.prefetch
_HOST_LINE_WORDS = 8


@intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Start to load array[index] of an int64 array, without waiting for it; any index is safe."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        pointer = builder.bitcast(builder.gep(data, [values[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, number(_TO_WRITE), number(_KEEP), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, index), generate


@compiled
def prefetch_line(m, sm, line):
    """Start to load the sets in which a request of `sm` for `line` will look."""
    target = target_of(m, sm, line)
    first = set_start(m, target.home_slice, target.set_number)
    for word in range(0, ms.LINE_WORDS * m[ms.P_WAYS], _HOST_LINE_WORDS):
        prefetch(m, first + word)
    if target.near != target.home:
        first = set_start(m, target.near_slice, target.set_number)
        for word in range(0, ms.LINE_WORDS * m[ms.P_WAYS], _HOST_LINE_WORDS):
            prefetch(m, first + word)
