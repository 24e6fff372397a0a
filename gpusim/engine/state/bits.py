"""Bit counting on lane masks, and loading ahead, as single machine instructions inside compiled code."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_TO_WRITE, _KEEP, _DATA = 1, 3, 1  # operands of llvm.prefetch


def _count(counted: Callable[[Any, Any], Any]) -> Any:
    """A count on a 32-bit mask, which `counted` makes with LLVM's builder."""

    @intrinsic
    def count(typing: Any, mask: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            word = context.cast(builder, values[0], signature.args[0], types.uint32)
            return builder.zext(counted(builder, word), ir.IntType(64))

        return types.int64(mask), generate

    return count


popc = _count(lambda builder, word: builder.ctpop(word))  # of set bits
lowest_bit = _count(lambda builder, word: builder.cttz(word, ir.IntType(1)(0)))  # of bits below the first; 32 if none


@intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Start to load array[index] into the host's caches, without waiting for it; any index is safe."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        pointer = builder.bitcast(builder.gep(data, [values[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, number(_TO_WRITE), number(_KEEP), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, index), generate
