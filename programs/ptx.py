"""Instructions that Numba has no function for, written out for kernels: packed, dot-product, vector and matrix ones.

Each is an intrinsic: a call compiles to one PTX instruction, or to one load or store of LLVM. What they mean is
said in "PTX ISA" (NVIDIA, version 8.5), in the sections named below. Packed operands are `uint32`: two halves, the
first in the low 16 bits, or four signed bytes, the first lowest.

Numba's own CUDA simulator (NUMBA_ENABLE_CUDASIM=1) knows none of them: a kernel that calls one runs on a GPU, or in
this project.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

WORD = ir.IntType(32)
FLOAT = ir.FloatType()
FOUR_FLOATS = types.UniTuple(types.float32, 4)
FOUR_WORDS = types.UniTuple(types.uint32, 4)
SHARED = 3
"""Number of the address space of shared memory in NVVM."""


@intrinsic
def fma_half2(typingctx, a, b, c):
    """a * b + c on two halves at once, each rounded once (9.7.4.4, fma.rn.f16x2): `uint32` operands and result."""
    return types.uint32(types.uint32, types.uint32, types.uint32), _asm(
        "fma.rn.f16x2 $0, $1, $2, $3;", "=r,r,r,r", WORD
    )


@intrinsic
def dp4a(typingctx, a, b, c):
    """c plus the four products of signed bytes of a and b (9.7.1.23, dp4a.s32.s32): two `uint32` and an `int32`."""
    return types.int32(types.uint32, types.uint32, types.int32), _asm("dp4a.s32.s32 $0, $1, $2, $3;", "=r,r,r,r", WORD)


# many parameters: an operand of the instruction each
@intrinsic
def mma_half(typingctx, a0, a1, a2, a3, b0, b1, c0, c1, c2, c3):
    """A product of 16 x 16 by 16 x 8 halves plus 16 x 8 floats, by the whole warp, in a tensor core.

    (9.7.14.5.8, mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.) With g = lane // 4 and q = lane % 4, a lane
    holds of A the pairs of columns 2q and 2q + 8 in rows g and g + 8: a0 (g, 2q), a1 (g + 8, 2q), a2 (g, 2q + 8),
    a3 (g + 8, 2q + 8); of B the pairs of rows 2q and 2q + 8 in column g: b0, b1; of C and of the result the
    columns 2q and 2q + 1 in rows g (c0, c1) and g + 8 (c2, c3).
    """
    code = (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    constraints = ",".join(["=f"] * 4 + ["r"] * 6 + ["f"] * 4)
    return FOUR_FLOATS(*[types.uint32] * 6, *[types.float32] * 4), _asm(code, constraints, FLOAT, FOUR_FLOATS)


@intrinsic
def load4(typingctx, array, index):
    """Elements index to index + 3 of a one-dimensional array as a tuple, in one access of 16 bytes.

    The first of them must lie at a multiple of 16 bytes; elements have four bytes. `array` may be shared.
    """
    four = types.UniTuple(array.dtype, 4)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(context.get_data_type(array.dtype), 4)
        value, index = args
        loaded = builder.load(_pointer(context, builder, array, value, index, vector), align=16)
        parts = [builder.extract_element(loaded, WORD(i)) for i in range(4)]
        return context.make_tuple(builder, four, parts)

    return four(array, types.int64), codegen


@intrinsic
def store4(typingctx, array, index, first, second, third, fourth):
    """Write elements index to index + 3 of a one-dimensional array in one access; conditions as for `load4`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, index, *elements = args
        vector = ir.VectorType(context.get_data_type(array.dtype), 4)
        stored = ir.Constant(vector, ir.Undefined)
        for i, element in enumerate(elements):
            stored = builder.insert_element(stored, element, WORD(i))
        builder.store(stored, _pointer(context, builder, array, value, index, vector), align=16)
        return context.get_dummy_value()

    return types.none(array, types.int64, *[array.dtype] * 4), codegen


@intrinsic
def load_matrices(typingctx, array, index):
    """Four 8 x 8 matrices of halves from shared memory, one fragment register each (9.7.14.5.15, ldmatrix.x4).

    array: one-dimensional, shared, of four-byte elements. index: where row `lane % 8` of matrix `lane // 8` begins,
    a multiple of four. Register i of the lane holds the pair of columns 2 (lane % 4) in row lane // 4 of matrix i.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        result = ir.LiteralStructType([WORD] * 4)
        function = ir.FunctionType(result, [WORD])
        value, index = args
        address = _shared_address(context, builder, array, value, index)
        code = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, [$4];"
        # "memory": neither may it move across a barrier nor above the stores that fill the tile.
        loaded = builder.asm(function, code, "=r,=r,=r,=r,r,~{memory}", [address], True)
        return context.make_tuple(builder, FOUR_WORDS, [builder.extract_value(loaded, i) for i in range(4)])

    return FOUR_WORDS(array, types.int64), codegen


@intrinsic
def copy_async(typingctx, shared, to, source, at):
    """Start to copy 16 bytes from `source[at]` to `shared[to]`, past the registers (9.7.9.25.3.1, cp.async.cg).

    Both arrays are one-dimensional, of four-byte elements; both indices are multiples of four.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        tile, tile_index, array, index = args
        target = _shared_address(context, builder, shared, tile, tile_index)
        origin = _pointer(context, builder, source, array, index, context.get_data_type(source.dtype))
        function = ir.FunctionType(ir.VoidType(), [WORD, ir.IntType(64)])
        code = "{ .reg .u64 g; cvta.to.global.u64 g, $1; cp.async.cg.shared.global [$0], [g], 16; }"
        origin = builder.ptrtoint(origin, ir.IntType(64))
        builder.asm(function, code, "r,l,~{memory}", [target, origin], True)
        return context.get_dummy_value()

    return types.none(shared, types.int64, source, types.int64), codegen


@intrinsic
def commit_copies(typingctx):
    """Close a group of this thread's copies by `copy_async` (9.7.9.25.3.2, cp.async.commit_group)."""
    return types.none(), _asm("cp.async.commit_group;", "~{memory}", ir.VoidType())


@intrinsic
def await_copies(typingctx):
    """Wait until all groups are in shared memory, for this thread (9.7.9.25.3.3, cp.async.wait_group)."""
    return types.none(), _asm("cp.async.wait_group 0;", "~{memory}", ir.VoidType())


def _asm(code: str, constraints: str, result: ir.Type, four: Any = None) -> Any:
    """Code generator of one inline instruction: `result` is the LLVM type of its result, or of each of `four`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = result if four is None else ir.LiteralStructType([result] * 4)
        function = ir.FunctionType(kind, [value.type for value in args])
        void = isinstance(kind, ir.VoidType)
        value = builder.asm(function, code, constraints, args, void)
        if void:
            return context.get_dummy_value()
        if four is None:
            return value
        return context.make_tuple(builder, four, [builder.extract_value(value, i) for i in range(4)])

    return codegen


def _pointer(context: Any, builder: Any, array: Any, value: Any, index: Any, kind: ir.Type) -> Any:
    """Address of an element as a pointer to `kind`."""
    data = context.make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [index]), ir.PointerType(kind))


def _shared_address(context: Any, builder: Any, array: Any, value: Any, index: Any) -> Any:
    """Address of an element in the window of shared memory, 32 bits."""
    kind = context.get_data_type(array.dtype)
    pointer = _pointer(context, builder, array, value, index, kind)
    return builder.ptrtoint(builder.addrspacecast(pointer, ir.PointerType(kind, SHARED)), WORD)


@intrinsic
def await_older_copies(typingctx):
    """Wait until all groups but the last are in shared memory, for this thread (cp.async.wait_group 1)."""
    return types.none(), _asm("cp.async.wait_group 1;", "~{memory}", ir.VoidType())


@intrinsic
def store_half2(typingctx, array, index, low, high):
    """Round two floats to halves and write them to elements index and index + 1 of a one-dimensional array of halves
    in one access (9.7.9.21, cvt.rn.f16x2.f32); index is even."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, at, first, second = args
        function = ir.FunctionType(WORD, [FLOAT, FLOAT])
        packed = builder.asm(function, "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,f,f", [first, second], False)
        builder.store(packed, _pointer(context, builder, array, value, at, WORD), align=4)
        return context.get_dummy_value()

    return types.none(array, types.int64, types.float32, types.float32), codegen
