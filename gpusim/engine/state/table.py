"""`State` in compiled code: one pointer to a table of array addresses and shapes.

The core works on some thirty arrays. Handed over one by one, or as a tuple, every call inside it would copy two hundred
words, and compiling that took minutes. So the core gets the address of a table, and `st.warp` reads the array's
address and shape from it; the table never changes during a run, which the compiler is told.
"""

import hashlib
import operator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from isa import microops as M

_MOST_DIMENSIONS = 5
_ENTRY_WORDS = 1 + _MOST_DIMENSIONS
_WORD = ir.IntType(64)


class ArrayTable:
    """Named C-contiguous arrays for compiled code. Subclasses list them in FIELDS: name -> (dtype, dimensions, and the
    extents of the last of them, if they never change).

    Keeps the arrays alive; `table_address` is where the table lies.
    """

    FIELDS: ClassVar[dict[str, tuple[Any, ...]]] = {}
    CONSTANT: ClassVar[frozenset[str]] = frozenset()  # of these, what compiled code only reads and finds unchanged
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> np.ndarray: ...

    def __init__(self, **arrays: np.ndarray):
        if arrays.keys() != self.FIELDS.keys():
            raise TypeError(f"arrays expected: {', '.join(self.FIELDS)}")
        self.table = np.zeros((len(self.FIELDS), _ENTRY_WORDS), np.int64)
        for entry, (name, (dtype, dimensions, *last)) in zip(self.table, self.FIELDS.items(), strict=True):
            array = arrays[name]
            if array.dtype != dtype or array.ndim != dimensions or not array.flags.c_contiguous:
                raise TypeError(f"{name} must be a C-contiguous {np.dtype(dtype)} array of {dimensions} dimensions")
            if array.shape[dimensions - len(last) :] != tuple(last):
                raise TypeError(f"{name} has the shape {array.shape}, which must end with {last}")
            entry[0] = array.ctypes.data
            entry[1 : 1 + dimensions] = array.shape
            setattr(self, name, array)
        self.table_address = self.table.ctypes.data

    def put(self, name: str, array: np.ndarray) -> None:
        """Replace an array of one dimension by another, between two calls of compiled code."""
        entry = self.table[list(self.FIELDS).index(name)]
        entry[0], entry[1] = array.ctypes.data, array.size
        setattr(self, name, array)


class TableType(types.Type):
    """Numba's type of one subclass of ArrayTable."""

    def __init__(self, owner: type[ArrayTable]):
        self.owner = owner
        # Code that is kept on disk knows where in the table an array is.
        digest = hashlib.sha256(repr(owner.FIELDS).encode()).hexdigest()[:16]
        super().__init__(name=f"{type(self).__name__}.{owner.__module__}.{owner.__qualname__}-{digest}")

    def array_type(self, name: str) -> types.Array:
        dtype, dimensions, *_ = self.owner.FIELDS[name]
        return types.Array(from_dtype(np.dtype(dtype)), dimensions, "C", readonly=name in self.owner.CONSTANT)


@register_model(TableType)
class _TableModel(models.PrimitiveModel):
    def __init__(self, manager: Any, table_type: TableType):
        super().__init__(manager, table_type, _WORD.as_pointer())


@typeof_impl.register(ArrayTable)
def _typeof(value: ArrayTable, _context: Any) -> TableType:
    return TableType(type(value))


@unbox(TableType)
def _unbox(_type: TableType, value: Any, c: Any) -> NativeValue:
    address = c.pyapi.object_getattr_string(value, "table_address")
    word = c.unbox(types.intp, address)
    c.pyapi.decref(address)
    return NativeValue(c.builder.inttoptr(word.value, _WORD.as_pointer()), is_error=word.is_error)


@infer_getattr
class _Attributes(AttributeTemplate):
    key = TableType

    def generic_resolve(self, table: TableType, name: str) -> types.Type | None:
        if name == "code" and isinstance(table, KnownTableType):
            return KnownCodeType(table.owner)
        return table.array_type(name) if name in table.owner.FIELDS else None


@lower_getattr_generic(TableType)
def _get(context: Any, builder: Any, table: TableType, value: Any, name: str) -> Any:
    if isinstance(table, KnownTableType):
        if name == "code":
            return value
        value = builder.extract_value(value, 0)
    array_type = table.array_type(name)
    first = _ENTRY_WORDS * list(table.owner.FIELDS).index(name)

    def word(k: int) -> Any:
        loaded = builder.load(builder.gep(value, [ir.Constant(_WORD, first + k)]), typ=_WORD)
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    itemsize = context.get_abi_sizeof(context.get_data_type(array_type.dtype))
    last = table.owner.FIELDS[name][2:]
    shape = [word(1 + k) for k in range(array_type.ndim - len(last))] + [ir.Constant(_WORD, each) for each in last]
    strides: list[Any] = []
    stride = ir.Constant(_WORD, itemsize)
    for extent in reversed(shape):
        strides.insert(0, stride)
        stride = builder.mul(stride, extent)
    array = context.make_array(array_type)(context, builder)
    data = builder.inttoptr(word(0), context.get_data_type(array_type.dtype).as_pointer())
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=ir.Constant(_WORD, itemsize), meminfo=None)
    return array._getvalue()


class KnownTableType(TableType):
    """The type of a table of which the shape of the row at hand is known: the same, with a number in SHAPES."""


class KnownCodeType(KnownTableType):
    """The type of the code of such a table."""


SHAPES = "gpusim.shapes"  # by which a program of LLVM knows them: rows of constants, in which these two may stand
VARIES, REGISTER = -(1 << 31), 1 - (1 << 31)  # that differs from row to row, as the code says; and is not negative


@register_model(KnownTableType)
@register_model(KnownCodeType)
class _KnownModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: KnownTableType):
        super().__init__(manager, kind, ir.LiteralStructType((_WORD.as_pointer(), _WORD)))


@infer_global(operator.getitem)
class _KnownItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        return signature(types.int32, *args) if isinstance(args[0], KnownCodeType) else None


@lower_builtin(operator.getitem, KnownCodeType, types.BaseTuple)
def _known_item(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    table, number = cgutils.unpack_tuple(builder, values[0])
    plain = without_shape(sig.args[0])
    code = context.make_array(plain.array_type("code"))(context, builder, _get(context, builder, plain, table, "code"))
    row, column = (
        context.cast(builder, each, kind, types.int64)
        for each, kind in zip(cgutils.unpack_tuple(builder, values[1]), sig.args[1], strict=True)
    )
    if SHAPES not in builder.module.globals:
        ir.GlobalVariable(builder.module, ir.IntType(32), SHAPES).global_constant = True
    columns = _WORD(M.COLUMNS)
    known, own = (
        builder.load(builder.gep(start, [builder.add(builder.mul(which, columns), column)]))
        for start, which in ((builder.module.globals[SHAPES], number), (code.data, row))
    )
    for told, value in ((VARIES, own), (REGISTER, builder.and_(own, own.type(0x7FFFFFFF)))):
        known = builder.select(builder.icmp_signed("==", known, own.type(told)), value, known)
    return known


def define_constants(module: Any, name: str, numbers: np.ndarray) -> Any:
    """Define an int32 array, in a module of LLVM, that nothing changes."""
    kind = ir.ArrayType(ir.IntType(8), numbers.nbytes)
    made = ir.GlobalVariable(module, kind, name)
    made.global_constant, made.initializer = True, ir.Constant(kind, bytearray(numbers.tobytes()))
    return made


def depends_on_shape(arguments: tuple[types.Type, ...]) -> bool:
    """Return whether a function of these types gets code whose shape is known, or a state that has it."""
    return any(isinstance(each, KnownTableType) for each in arguments)


def without_shape(kind: types.Type) -> types.Type:
    """Return the type of a table whose code's shape is known as that of any."""
    return TableType(kind.owner) if isinstance(kind, KnownTableType) else kind
