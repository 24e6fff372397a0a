"""Rows for matrix products: scratch memory on the stack, fragments spread out in it, and rows of 16-bit pairs.

A step of a product takes one element (or pair of exponents) along K: for every lane that of its row of A, and those of
its two columns of B. Spread out in scratch, a step of A is a row of lanes, one of B are twice four words, for a lane's
t = 0..3, which `load_columns` repeats for all rows g.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np import arrayobj

from gpusim.engine.rows.lanes import LANES, pointer, row_function, u32

_WORD = ir.IntType(32)
_ROW = ir.VectorType(_WORD, LANES)
_PAIRS = ir.VectorType(ir.IntType(16), 2 * LANES)
_LINE = 64
ZERO_EXPONENT = -8192  # stands for that of zero: no sum with another reaches a real one
WRONG_EXPONENT = 0x4000  # stands for one that is out of range; bit 14 of a positive number


def _order(lanes: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(_WORD, len(lanes)), lanes)


def scratch(words: int) -> Any:
    """A function that gives its caller an array of so many uint32, which lives until the caller returns."""
    kind = types.Array(types.uint32, 1, "C")

    @intrinsic
    def room(typing: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            with builder.goto_entry_block():
                memory = builder.alloca(ir.ArrayType(_WORD, words))
            memory.align = _LINE
            array = context.make_array(kind)(context, builder)
            data, long = builder.bitcast(memory, _WORD.as_pointer()), ir.IntType(64)
            shape, strides = [long(words)], [long(4)]
            arrayobj.populate_array(array, data=data, shape=shape, strides=strides, itemsize=long(4), meminfo=None)
            return array._getvalue()

        return kind(), generate

    return room


@intrinsic
def spread_rows(typing: Any, room: Any, offset: Any, row: Any) -> Any:
    """Four steps of A, every other row of `room` from element `offset` on: for lane 4g + t' word t of lanes 4g..."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        first = pointer(context, builder, sig.args, values, last=7 * LANES - 1)
        for t in range(4):
            order = _order([lane - lane % 4 + t for lane in range(LANES)])
            spread = builder.shuffle_vector(values[2], values[2], order)
            builder.store(spread, builder.gep(first, [_WORD(2 * t)]), align=_LINE)
        return context.get_dummy_value()

    return (types.void(room, offset, row), generate) if row == u32 else None


@intrinsic
def spread_columns(typing: Any, room: Any, offset: Any, row: Any) -> Any:
    """Four steps of B at element `offset` of `room`: eight words each, columns 0, 2, 4, 6 and then 1, 3, 5, 7."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        order = _order([8 * (word % 4) + word // 4 % 2 * 4 + word // 8 for word in range(LANES)])
        spread = builder.shuffle_vector(values[2], values[2], order)
        builder.store(spread, pointer(context, builder, sig.args, values), align=_LINE)
        return context.get_dummy_value()

    return (types.void(room, offset, row), generate) if row == u32 else None


@intrinsic
def load_columns(typing: Any, room: Any, offset: Any) -> Any:
    """The row that repeats the four words from `offset` on."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        four = builder.load(pointer(context, builder, sig.args, values, ir.VectorType(_WORD, 4), 3), align=16)
        return builder.shuffle_vector(four, four, _order([lane % 4 for lane in range(LANES)]))

    return u32(room, offset), generate


def _pairs(emit: Any) -> Any:
    """An operation on the 16-bit halves of two rows."""

    def whole(builder: Any, *values: Any) -> Any:
        return builder.bitcast(emit(builder, *(builder.bitcast(each, _PAIRS) for each in values)), _ROW)

    return row_function("u32 u32", "u32", whole)


def _repeated(value: int) -> ir.Constant:
    return ir.Constant(_PAIRS, [value & 0xFFFF] * (2 * LANES))


add_pairs = _pairs(lambda builder, x, y: builder.add(x, y))
larger_pairs = _pairs(lambda builder, x, y: builder.select(builder.icmp_signed(">", x, y), x, y))


@intrinsic
def exponent_pairs(typing: Any, field: Any, bias: Any, least: Any, span: Any, size: Any) -> Any:
    """field - bias in every half, but WRONG_EXPONENT where the field is not least..least + span, and ZERO_EXPONENT
    where the size is zero."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        fields, biases, lowest, spans, sizes = (builder.bitcast(each, _PAIRS) for each in values)
        wrong = builder.icmp_unsigned(">", builder.sub(fields, lowest), spans)
        exponent = builder.select(wrong, _repeated(WRONG_EXPONENT), builder.sub(fields, biases))
        zero = builder.icmp_unsigned("==", sizes, _repeated(0))
        return builder.bitcast(builder.select(zero, _repeated(ZERO_EXPONENT), exponent), _ROW)

    return u32(u32, u32, u32, u32, u32), generate


#: For values inside the integer type only.
f32_to_s32 = row_function("f32", "u32", lambda builder, x: builder.fptosi(x, _ROW))
s32_to_f32 = row_function("u32", "f32", lambda builder, x: builder.sitofp(x, ir.VectorType(ir.FloatType(), LANES)))
