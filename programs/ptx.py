"""Instructions that Numba has no function for, written out for kernels: packed, dot-product, vector and matrix ones.

Each is an intrinsic: a call compiles to one PTX instruction, or to one load or store of LLVM; `inline` makes them of
PTX. What they mean is said in "PTX ISA" (NVIDIA, version 8.5), in the sections named below. Packed operands are
`uint32`: two halves, the first in the low 16 bits, or four signed bytes, the first lowest.

Numba's own CUDA simulator (NUMBA_ENABLE_CUDASIM=1) knows none of them: a kernel that calls one runs on a GPU, or in
this project.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
_LETTERS = {types.uint32: "r", types.int32: "r", types.uint64: "l", types.float32: "f", types.float64: "d"}
"""Constraint letter of each type: PTX, "Inline PTX Assembly in CUDA"."""


def inline(text: str, result: Any, arguments: Sequence[types.Type] = (), *, pure: bool = False) -> Callable[..., Any]:
    """A function for kernels that is this PTX: `$0` is its result, `$1`... are its arguments.

    result: a scalar type, or a `types.UniTuple` of n of them, which are `$0` to `$(n - 1)`, the arguments behind them;
    or none. pure: LLVM may move it, or leave it out where nobody uses the result.
    """
    count = 0 if result is types.none else getattr(result, "count", 1)
    single = result.dtype if count > 1 else result
    kinds = [f"={_LETTERS[single]}" for _ in range(count)] + [_LETTERS[each] for each in arguments]
    constraints = ",".join(kinds if pure else [*kinds, "~{memory}"])
    names = "".join(f", a{index}" for index in range(len(arguments)))

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        wanted = [context.get_value_type(each) for each in arguments]
        kind = context.get_value_type(single) if count else ir.VoidType()
        made = kind if count <= 1 else ir.LiteralStructType([kind] * count)
        value = builder.asm(ir.FunctionType(made, wanted), text, constraints, values, not pure)
        if count > 1:
            return context.make_tuple(builder, result, [builder.extract_value(value, k) for k in range(count)])
        return value if count else context.get_dummy_value()

    def typing(context: Any) -> Any:
        return result(*arguments), codegen

    # An intrinsic's typing function has a fixed number of arguments.
    scope: dict[str, Any] = {"typing": typing}
    exec(f"def word(context{names}): return typing(context)", scope)
    return intrinsic(scope["word"])  # type: ignore[no-any-return]


fma_half2 = inline("fma.rn.f16x2 $0, $1, $2, $3;", types.uint32, [types.uint32] * 3, pure=True)
"""a * b + c on two halves at once, each rounded once (9.7.4.4, fma.rn.f16x2): `uint32` operands and result."""
dp4a = inline("dp4a.s32.s32 $0, $1, $2, $3;", types.int32, (types.uint32, types.uint32, types.int32), pure=True)
"""c plus the four products of signed bytes of a and b (9.7.1.23, dp4a.s32.s32): two `uint32` and an `int32`."""
mma_half = inline(
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
    "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};",
    *(FOUR_FLOATS, [types.uint32] * 6 + [types.float32] * 4),
    pure=True,
)
"""(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3): a product of 16 x 16 by 16 x 8 halves plus 16 x 8 floats, by the whole
warp, in a tensor core.

(9.7.14.5.8, mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.) With g = lane // 4 and q = lane % 4, a lane holds of A
the pairs of columns 2q and 2q + 8 in rows g and g + 8: a0 (g, 2q), a1 (g + 8, 2q), a2 (g, 2q + 8), a3 (g + 8, 2q + 8);
of B the pairs of rows 2q and 2q + 8 in column g: b0, b1; of C and of the result the columns 2q and 2q + 1 in rows g
(c0, c1) and g + 8 (c2, c3).
"""
commit_copies = inline("cp.async.commit_group;", types.none)
"""Close a group of this thread's copies by `copy_async` (9.7.9.25.3.2, cp.async.commit_group)."""
await_copies = inline("cp.async.wait_group 0;", types.none)
"""Wait until all groups are in shared memory, for this thread (9.7.9.25.3.3, cp.async.wait_group)."""
await_older_copies = inline("cp.async.wait_group 1;", types.none)
"""Wait until all groups but the last are in shared memory, for this thread (cp.async.wait_group 1)."""


@intrinsic
def load4(typingctx, array, index):
    """Elements index to index + 3 of a one-dimensional array as a tuple, in one access of 16 bytes.

    The first of them must lie at a multiple of 16 bytes; elements have four bytes. `array` may be shared.
    """
    four = types.UniTuple(array.dtype, 4)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(context.get_data_type(array.dtype), 4)
        value, index = args
        loaded = builder.load(pointer_to(context, builder, array, value, index, vector), align=16)
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
        builder.store(stored, pointer_to(context, builder, array, value, index, vector), align=16)
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
        address = shared_address_of(context, builder, array, value, index)
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
        target = shared_address_of(context, builder, shared, tile, tile_index)
        origin = pointer_to(context, builder, source, array, index, context.get_data_type(source.dtype))
        function = ir.FunctionType(ir.VoidType(), [WORD, ir.IntType(64)])
        code = "{ .reg .u64 g; cvta.to.global.u64 g, $1; cp.async.cg.shared.global [$0], [g], 16; }"
        origin = builder.ptrtoint(origin, ir.IntType(64))
        builder.asm(function, code, "r,l,~{memory}", [target, origin], True)
        return context.get_dummy_value()

    return types.none(shared, types.int64, source, types.int64), codegen


@intrinsic
def store_half2(typingctx, array, index, low, high):
    """Round two floats to halves and write them to elements index and index + 1 of a one-dimensional array of halves
    in one access (9.7.9.21, cvt.rn.f16x2.f32); index is even."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, at, first, second = args
        function = ir.FunctionType(WORD, [FLOAT, FLOAT])
        packed = builder.asm(function, "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,f,f", [first, second], False)
        builder.store(packed, pointer_to(context, builder, array, value, at, WORD), align=4)
        return context.get_dummy_value()

    return types.none(array, types.int64, types.float32, types.float32), codegen


def pointer_to(context: Any, builder: Any, array: Any, value: Any, index: Any, kind: ir.Type) -> Any:
    """Address of an element as a pointer to `kind`."""
    data = context.make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [index]), ir.PointerType(kind))


def shared_address_of(context: Any, builder: Any, array: Any, value: Any, index: Any) -> Any:
    """Address of an element in the window of shared memory, 32 bits."""
    kind = context.get_data_type(array.dtype)
    data = pointer_to(context, builder, array, value, index, kind)
    return builder.ptrtoint(builder.addrspacecast(data, ir.PointerType(kind, SHARED)), WORD)
