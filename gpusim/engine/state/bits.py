"""Bit counting on lane masks, as single machine instructions inside compiled code."""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


@intrinsic
def popc(typingctx, mask):
    """Number of set bits of a 32-bit mask."""

    def codegen(context, builder, signature, args):
        word = context.cast(builder, args[0], signature.args[0], types.uint32)
        return builder.zext(builder.ctpop(word), ir.IntType(64))

    return types.int64(mask), codegen


@intrinsic
def lowest_bit(typingctx, mask):
    """Index of the lowest set bit of a 32-bit mask; 32 for an empty mask."""

    def codegen(context, builder, signature, args):
        word = context.cast(builder, args[0], signature.args[0], types.uint32)
        return builder.zext(builder.cttz(word, ir.Constant(ir.IntType(1), 0)), ir.IntType(64))

    return types.int64(mask), codegen
