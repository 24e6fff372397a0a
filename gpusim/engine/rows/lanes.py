"""Rows: 32 lanes as one value of compiled code.

`Row` is a Numba type whose value is an LLVM vector of 32 elements: unsigned 32-bit (`u32`), unsigned 64-bit (`u64`),
`f32` and `f64`. Operators and the functions below become single LLVM vector instructions, so an executor written as
`d = a + b` has no loop, no aliasing check and compiles in milliseconds. A comparison yields a mask: a uint32 scalar
with one bit per lane, which `select` and `store` take.

Rows live in a one-dimensional uint32 array, 64-byte aligned, at element offsets that are multiples of 32; a 64-bit
row is two consecutive 32-bit rows, low words first. Load every source before the first store: source and
destination may be the same row.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, register_model

LANES = 32
_ELEMENTS = {"u32": ir.IntType(32), "u64": ir.IntType(64), "f32": ir.FloatType(), "f64": ir.DoubleType()}
_VECTORS = {name: ir.VectorType(element, LANES) for name, element in _ELEMENTS.items()}
_MASK = ir.VectorType(ir.IntType(1), LANES)
_HAS_MASKS = get_host_cpu_features().get("avx512f", False)


class Row(types.Type):
    """The Numba type of a row; `element` is 'u32', 'u64', 'f32' or 'f64'."""

    def __init__(self, element: str):
        self.element = element
        super().__init__(name=f"row({element})")


@register_model(Row)
class _RowModel(models.PrimitiveModel):
    """A row is passed and kept as the bare LLVM vector."""

    def __init__(self, manager: Any, kind: Row):
        super().__init__(manager, kind, _VECTORS[kind.element])


u32, u64, f32, f64 = Row("u32"), Row("u64"), Row("f32"), Row("f64")
_ROWS = {"u32": u32, "u64": u64, "f32": f32, "f64": f64}


def _constant(vector: ir.VectorType, value: int | float) -> ir.Constant:
    """Every lane holds `value`."""
    return ir.Constant(vector, [value] * LANES)


def _call(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """Call an LLVM intrinsic."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


# --- memory ---------------------------------------------------------------------------------------------------------
def pointer(
    context: Any, builder: Any, kinds: Any, values: Any, kind: ir.Type = _VECTORS["u32"], last: int = LANES - 1
) -> Any:
    """Pointer to a value at element offset values[1] of array values[0], of which it takes `last` more elements."""
    array = context.make_array(kinds[0])(context, builder, values[0])
    offset = context.cast(builder, values[1], kinds[1], types.int64)
    if context.enable_boundscheck:  # of its first element and its last
        for element in (0, last):
            index = builder.add(offset, offset.type(element))
            cgutils.do_boundscheck(context, builder, index, builder.extract_value(array.shape, 0))
    return builder.bitcast(builder.gep(array.data, [offset]), kind.as_pointer())


@intrinsic
def store(typing: Any, regs: Any, offset: Any, row: Any, mask: Any) -> Any:
    """Write the lanes of `mask` of a u32 row; the other lanes keep what they hold."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        place = pointer(context, builder, sig.args, values)
        bits = context.cast(builder, values[3], sig.args[3], types.uint32)
        if _HAS_MASKS:
            kept = builder.select(builder.bitcast(bits, _MASK), values[2], builder.load(place, align=64))
            builder.store(kept, place, align=64)
        else:  # LLVM makes a masked store of it, which Zen 1 to 3 have in microcode (llvm/llvm-project, issue 213195)
            with builder.if_else(builder.icmp_signed("==", bits, bits.type(-1))) as (whole, part):
                with whole:
                    builder.store(values[2], place, align=64)
                with part:
                    kept = builder.select(builder.bitcast(bits, _MASK), values[2], builder.load(place, align=64))
                    builder.store(kept, place, align=64)
        return context.get_dummy_value()

    return types.void(regs, offset, u32, mask), generate


def _memory_functions(element: str, align: int) -> tuple[Any, Any]:
    """`load` and `store` of all lanes at an element of an array of the element's width, aligned to so many bytes."""

    @intrinsic
    def get(typing: Any, array: Any, offset: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            return builder.load(pointer(context, builder, sig.args, values, _VECTORS[element]), align=align)

        return _ROWS[element](array, offset), generate

    @intrinsic
    def put(typing: Any, array: Any, offset: Any, row: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            builder.store(values[2], pointer(context, builder, sig.args, values, _VECTORS[element]), align=align)
            return context.get_dummy_value()

        return types.void(array, offset, _ROWS[element]), generate

    return get, put


load, _ = _memory_functions("u32", 64)  # a row
load64, store64 = _memory_functions("u64", 8)
load_words, store_words = _memory_functions("u32", 4)


def _gathering(count: int) -> Any:
    """Makes so many u32 rows: lane k of the n-th is `words[places[k] + n]`; `places` is a u64 row."""

    @intrinsic
    def gather_words(typing: Any, words: Any, places: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            of_lane, kinds, parts = ir.VectorType(_ELEMENTS["u32"], count), (sig.args[0], types.uint64), []
            for lane in range(LANES):
                place = builder.extract_element(values[1], ir.IntType(32)(lane))
                start = pointer(context, builder, kinds, (values[0], place), of_lane, count - 1)
                parts.append(builder.load(start, align=4))
            while len(parts) > 1:  # those of neighbours together, until there is one vector
                both = 2 * parts[0].type.count
                picks = ir.Constant(ir.VectorType(ir.IntType(32), both), list(range(both)))
                parts = [builder.shuffle_vector(x, y, picks) for x, y in zip(parts[::2], parts[1::2], strict=True)]
            rows = []
            for n in range(count):
                picks = ir.Constant(_VECTORS["u32"], list(range(n, count * LANES, count)))
                rows.append(builder.shuffle_vector(parts[0], ir.Constant(parts[0].type, ir.Undefined), picks))
            return context.make_tuple(builder, sig.return_type, rows)

        return (types.UniTuple(u32, count)(words, places), generate) if places == u64 else None

    return gather_words


gather_1, gather_4 = _gathering(1), _gathering(4)


def _lane_functions(row: Row, scalar: Any) -> tuple[Any, Any]:
    """`get(row, lane)` and `put(row, lane, value)` for one lane of a row; `lane` must be 0..31."""

    @intrinsic
    def get(typing: Any, value: Any, lane: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            return builder.extract_element(values[0], context.cast(builder, values[1], sig.args[1], types.int32))

        return (scalar(row, lane), generate) if value == row else None

    @intrinsic
    def put(typing: Any, value: Any, lane: Any, element: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            index = context.cast(builder, values[1], sig.args[1], types.int32)
            one = context.cast(builder, values[2], sig.args[2], scalar)
            return builder.insert_element(values[0], one, index)

        return (row(row, lane, element), generate) if value == row else None

    return get, put


get_u32, put_u32 = _lane_functions(u32, types.uint32)
get_f64, put_f64 = _lane_functions(f64, types.float64)


@intrinsic
def fma_scalar(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z of three float64, rounded once."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return _call(builder, "llvm.fma.f64", ir.DoubleType(), list(values))

    return types.float64(types.float64, types.float64, types.float64), generate


# --- operators ------------------------------------------------------------------------------------------------------
def _operator(name: str, row: Row, method: str) -> None:
    """Give the function `name` of `operator` the meaning of a method of LLVM's builder for two rows."""
    function = getattr(operator, name)

    @infer_global(function)
    class _Template(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            return signature(row, row, row) if args == (row, row) else None

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return getattr(builder, method)(values[0], values[1])

    lower_builtin(function, row, row)(lower)


for _row in (u32, u64):
    for _name in ("add", "sub", "mul", "and_", "or_", "xor"):
        _operator(_name, _row, _name)
    # Shift counts must be below the width; the clamped forms are `shl`, `shr` and `sar`.
    _operator("lshift", _row, "shl")
    _operator("rshift", _row, "lshr")
for _row in (f32, f64):
    for _name, _method in {"add": "fadd", "sub": "fsub", "mul": "fmul", "truediv": "fdiv"}.items():
        _operator(_name, _row, _method)


def row_function(arguments: str, result: str, emit: Callable[..., Any]) -> Any:
    """An intrinsic on rows: `emit(builder, *values)`; arguments such as 'u32 u32', result a row name or 'mask'."""
    rows = tuple(_ROWS[name] for name in arguments.split())
    kind = types.uint32 if result == "mask" else _ROWS[result]

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        value = emit(builder, *values)
        return builder.bitcast(value, ir.IntType(32)) if result == "mask" else value

    return _of_rows(len(rows), lambda *given: (kind(*rows), generate) if given == rows else None)


def _of_rows(count: int, typed: Callable[..., Any]) -> Any:
    """An intrinsic of one, two or three rows; `typed` gives its signature and code for their types."""
    if count == 1:
        return intrinsic(lambda typing, x: typed(x))
    if count == 2:
        return intrinsic(lambda typing, x, y: typed(x, y))
    return intrinsic(lambda typing, x, y, z: typed(x, y, z))


# --- making rows ----------------------------------------------------------------------------------------------------
def _splat(row: Row, scalar: Any) -> Any:
    vector = _VECTORS[row.element]

    @intrinsic
    def splat_scalar(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            one = context.cast(builder, values[0], sig.args[0], scalar)
            first = builder.insert_element(ir.Constant(vector, ir.Undefined), one, ir.IntType(32)(0))
            picks = _constant(_VECTORS["u32"], 0)
            return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), picks)

        return row(value), generate

    return splat_scalar


splat = _splat(u32, types.uint32)
splat64 = _splat(u64, types.uint64)
splat_f32 = _splat(f32, types.float32)
splat_f64 = _splat(f64, types.float64)


@intrinsic
def lane_numbers(typing: Any) -> Any:
    """The row 0, 1, ... 31."""
    return u32(), lambda context, builder, sig, values: ir.Constant(_VECTORS["u32"], list(range(LANES)))


@intrinsic
def mask_bits(typing: Any, mask: Any) -> Any:
    """The u32 row that holds 1 in the lanes of `mask` and 0 elsewhere."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        bits = builder.bitcast(context.cast(builder, values[0], sig.args[0], types.uint32), _MASK)
        return builder.zext(bits, _VECTORS["u32"])

    return u32(mask), generate


@intrinsic
def select(typing: Any, mask: Any, x: Any, y: Any) -> Any:
    """Lanes of x where the mask has a bit, of y elsewhere; x and y are rows of one type."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        bits = builder.bitcast(context.cast(builder, values[0], sig.args[0], types.uint32), _MASK)
        return builder.select(bits, values[1], values[2])

    return (x(mask, x, x), generate) if isinstance(x, Row) and x == y else None


# --- reinterpretation and width -------------------------------------------------------------------------------------
as_f32 = row_function("u32", "f32", lambda b, x: b.bitcast(x, _VECTORS["f32"]))
as_u32 = row_function("f32", "u32", lambda b, x: b.bitcast(x, _VECTORS["u32"]))
as_f64 = row_function("u64", "f64", lambda b, x: b.bitcast(x, _VECTORS["f64"]))
as_u64 = row_function("f64", "u64", lambda b, x: b.bitcast(x, _VECTORS["u64"]))
zero_extend = row_function("u32", "u64", lambda b, x: b.zext(x, _VECTORS["u64"]))
sign_extend = row_function("u32", "u64", lambda b, x: b.sext(x, _VECTORS["u64"]))
low = row_function("u64", "u32", lambda b, x: b.trunc(x, _VECTORS["u32"]))
high = row_function("u64", "u32", lambda b, x: b.trunc(b.lshr(x, _constant(_VECTORS["u64"], 32)), _VECTORS["u32"]))


def _join(builder: Any, low_words: Any, high_words: Any) -> Any:
    upper = builder.shl(builder.zext(high_words, _VECTORS["u64"]), _constant(_VECTORS["u64"], 32))
    return builder.or_(upper, builder.zext(low_words, _VECTORS["u64"]))


join = row_function("u32 u32", "u64", _join)

# --- comparisons, result: mask --------------------------------------------------------------------------------------
equal = row_function("u32 u32", "mask", lambda b, x, y: b.icmp_unsigned("==", x, y))
less_u = row_function("u32 u32", "mask", lambda b, x, y: b.icmp_unsigned("<", x, y))
less_s = row_function("u32 u32", "mask", lambda b, x, y: b.icmp_signed("<", x, y))
equal64 = row_function("u64 u64", "mask", lambda b, x, y: b.icmp_unsigned("==", x, y))
less_u64 = row_function("u64 u64", "mask", lambda b, x, y: b.icmp_unsigned("<", x, y))
less_s64 = row_function("u64 u64", "mask", lambda b, x, y: b.icmp_signed("<", x, y))
equal_f32 = row_function("f32 f32", "mask", lambda b, x, y: b.fcmp_ordered("==", x, y))
less_f32 = row_function("f32 f32", "mask", lambda b, x, y: b.fcmp_ordered("<", x, y))
unordered_f32 = row_function("f32 f32", "mask", lambda b, x, y: b.fcmp_unordered("uno", x, y))
equal_f64 = row_function("f64 f64", "mask", lambda b, x, y: b.fcmp_ordered("==", x, y))
less_f64 = row_function("f64 f64", "mask", lambda b, x, y: b.fcmp_ordered("<", x, y))
unordered_f64 = row_function("f64 f64", "mask", lambda b, x, y: b.fcmp_unordered("uno", x, y))


# --- integer functions ----------------------------------------------------------------------------------------------
def _shifted(kind: str, width: int) -> Callable[[Any, Any, Any], Any]:
    """A shift whose count may be anything: from the width on, zeros (or copies of the sign) are left."""
    vector = _VECTORS[f"u{width}"]

    def emit(builder: Any, x: Any, count: Any) -> Any:
        if width == 64:
            count = builder.zext(count, vector)
        last = _constant(vector, width - 1)
        inside = builder.icmp_unsigned("<=", count, last)
        if kind == "ashr":
            return builder.ashr(x, builder.select(inside, count, last))
        return builder.select(inside, getattr(builder, kind)(x, builder.and_(count, last)), _constant(vector, 0))

    return emit


shl = row_function("u32 u32", "u32", _shifted("shl", 32))
shr = row_function("u32 u32", "u32", _shifted("lshr", 32))
sar = row_function("u32 u32", "u32", _shifted("ashr", 32))
shl64 = row_function("u64 u32", "u64", _shifted("shl", 64))
shr64 = row_function("u64 u32", "u64", _shifted("lshr", 64))
sar64 = row_function("u64 u32", "u64", _shifted("ashr", 64))


def _extreme(signed: bool, smaller: bool) -> Callable[[Any, Any, Any], Any]:
    def emit(builder: Any, x: Any, y: Any) -> Any:
        compare = builder.icmp_signed if signed else builder.icmp_unsigned
        return builder.select(compare("<", x, y), x, y) if smaller else builder.select(compare("<", x, y), y, x)

    return emit


min_u = row_function("u32 u32", "u32", _extreme(False, True))
max_u = row_function("u32 u32", "u32", _extreme(False, False))
min_s = row_function("u32 u32", "u32", _extreme(True, True))
max_s = row_function("u32 u32", "u32", _extreme(True, False))


def _bit_function(name: str, *flags: ir.Constant) -> Any:
    """A function of the bits of each lane; flags: further arguments that LLVM wants."""
    return row_function("u32", "u32", lambda b, x: _call(b, f"llvm.{name}.v32i32", _VECTORS["u32"], [x, *flags]))


count_ones = _bit_function("ctpop")
leading_zeros = _bit_function("ctlz", ir.IntType(1)(0))
reverse_bits = _bit_function("bitreverse")


# --- floating-point functions ---------------------------------------------------------------------------------------
def _float_function(name: str, count: int = 1) -> Any:
    """A function of rows of f32, or of f64."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        element = sig.return_type.element
        return _call(builder, f"llvm.{name}.v32{element}", _VECTORS[element], list(values))

    def typed(*rows: Any) -> Any:
        return (rows[0](*rows), generate) if rows in ((f32,) * count, (f64,) * count) else None

    return _of_rows(count, typed)


fma = _float_function("fma", 3)
sqrt = _float_function("sqrt")
nearest = _float_function("roundeven")
floor = _float_function("floor")
ceil = _float_function("ceil")
truncate = _float_function("trunc")
to_f64 = row_function("f32", "f64", lambda b, x: b.fpext(x, _VECTORS["f64"]))
to_f32 = row_function("f64", "f32", lambda b, x: b.fptrunc(x, _VECTORS["f32"]))
# Integer results are defined for values inside the integer type only: clamp first.
f64_to_s64 = row_function("f64", "u64", lambda b, x: b.fptosi(x, _VECTORS["u64"]))
f64_to_u64 = row_function("f64", "u64", lambda b, x: b.fptoui(x, _VECTORS["u64"]))
s64_to_f64 = row_function("u64", "f64", lambda b, x: b.sitofp(x, _VECTORS["f64"]))
u64_to_f64 = row_function("u64", "f64", lambda b, x: b.uitofp(x, _VECTORS["f64"]))
s64_to_f32 = row_function("u64", "f32", lambda b, x: b.sitofp(x, _VECTORS["f32"]))
u64_to_f32 = row_function("u64", "f32", lambda b, x: b.uitofp(x, _VECTORS["f32"]))


# Half precision: a u32 row whose low 16 bits are an IEEE half.
_HALVES, _BITS = ir.VectorType(ir.HalfType(), LANES), ir.VectorType(ir.IntType(16), LANES)
half_to_f32 = row_function("u32", "f32", lambda b, x: b.fpext(b.bitcast(b.trunc(x, _BITS), _HALVES), _VECTORS["f32"]))
f32_to_half = row_function("f32", "u32", lambda b, x: b.zext(b.bitcast(b.fptrunc(x, _HALVES), _BITS), _VECTORS["u32"]))
