"""`State` in compiled code: one pointer to a table of array addresses and shapes.

The core works on some thirty arrays. Handed over one by one, or as a tuple, every call inside it would copy two hundred
words, and compiling that took minutes. So the core gets the address of a table, and `st.warp` reads the array's
address and shape from it; the table never changes during a run, which the compiler is told.
"""

import hashlib
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

_MOST_DIMENSIONS = 5
_ENTRY_WORDS = 1 + _MOST_DIMENSIONS
_WORD = ir.IntType(64)


class ArrayTable:
    """Named C-contiguous arrays for compiled code. Subclasses list them in FIELDS: name -> (dtype, dimensions, and the
    extents of the last of them, if they never change).

    Keeps the arrays alive; `table_address` is where the table lies.
    """

    FIELDS: ClassVar[dict[str, tuple[Any, ...]]] = {}
    KNOWN: ClassVar[str] = ""  # an array of which the code that is compiled has rows as constants, see ROWS
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
        super().__init__(name=f"{owner.__module__}.{owner.__qualname__}-{digest}")

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

    def generic_resolve(self, table: TableType, name: str) -> types.Array | None:
        return table.array_type(name) if name in table.owner.FIELDS else None


@lower_getattr_generic(TableType)
def _get(context: Any, builder: Any, table: TableType, value: Any, name: str) -> Any:
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
    start = _known_start(builder, strides[0]) if name == table.owner.KNOWN else word(0)
    kind = context.get_data_type(array_type.dtype).as_pointer()
    data = builder.bitcast(start, kind) if name == table.owner.KNOWN else builder.inttoptr(start, kind)
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=ir.Constant(_WORD, itemsize), meminfo=None)
    return array._getvalue()


ROWS, FIRST = "gpusim.rows", "gpusim.first_row"
"""What a program that is compiled for known rows defines: their bytes, and the number of the first one."""


def _known_start(builder: Any, stride: Any) -> Any:
    """Return where row 0 of the known array would be."""
    for name, kind in ((ROWS, ir.IntType(8)), (FIRST, _WORD)):
        if name not in builder.module.globals:
            ir.GlobalVariable(builder.module, kind, name).global_constant = True
    rows, first = builder.module.globals[ROWS], builder.module.globals[FIRST]
    return builder.gep(rows, [builder.neg(builder.mul(builder.load(first), stride))])


def define_known_rows(module: Any, rows: np.ndarray, first: int) -> None:
    """Define, in a module of LLVM, rows of the known array from number `first` on."""
    content, kind = bytearray(rows.tobytes()), ir.ArrayType(ir.IntType(8), rows.nbytes)
    for name, constant in ((ROWS, ir.Constant(kind, content)), (FIRST, ir.Constant(_WORD, first))):
        made = ir.GlobalVariable(module, constant.type, name)
        made.global_constant, made.initializer = True, constant


def depends_on_known_rows(arguments: tuple[types.Type, ...]) -> bool:
    """Return whether a function of these types gets known rows, or a state that has them."""
    return any(
        (isinstance(each, TableType) and each.owner.KNOWN != "")
        or (isinstance(each, types.Array) and each.ndim == 2 and not each.mutable)
        for each in arguments
    )


def without_known_rows(kind: types.Type) -> types.Type:
    """Return the type of a state that has known rows as that of any state."""
    return TableType(kind.owner.__mro__[1]) if isinstance(kind, TableType) and kind.owner.KNOWN else kind
