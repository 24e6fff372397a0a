"""Stubs: what compiled code calls in place of a function that is compiled when it is first needed.

A stub jumps to the address in its cell, a word that belongs to the process. While that is empty, it first calls back
into Python, which compiles the function or loads it from the disk. Whoever knows beforehand what a run needs loads it
beforehand (`Compiled.load`), and no run waits.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import traceback
from collections.abc import Callable
from typing import Any

import llvmlite.binding as ll
from llvmlite import ir
from numba.core import types
from numba.core.funcdesc import PythonFunctionDescriptor

from gpusim.engine.state.table import without_shape

_BYTES = ir.IntType(8).as_pointer()
_LOAD = "gpusim_load"
_CELLS: dict[str, ctypes.c_void_p] = {}
_STANDS_FOR: dict[int, tuple[str, str, Any]] = {}
late: list[str] = []
"""Functions that a run had to wait for."""


def write(
    context: Any, library: Any, function: Callable[..., Any], arguments: tuple[types.Type, ...], returns: types.Type
) -> PythonFunctionDescriptor:
    """Write the stub of a function for these types into a library. Returns how it is called."""
    # One function for all states, whatever its caller knows of their code.
    stands_for = function.__module__, function.__qualname__, tuple(map(without_shape, arguments))
    names = [f"arg{k}" for k in range(len(arguments))]
    fndesc = PythonFunctionDescriptor(
        True, f"{function.__module__}.stub", function.__qualname__, function.__qualname__, "", {}, returns, {},
        names, (), argtypes=arguments,
    )  # fmt: skip
    module = library.create_ir_module(function.__name__)
    stub = context.declare_function(module, fndesc)
    cell = ir.GlobalVariable(module, _BYTES, _cell_name(*stands_for))
    load = ir.Function(module, ir.FunctionType(ir.VoidType(), [_BYTES]), _LOAD)
    builder = ir.IRBuilder(stub.append_basic_block())
    with builder.if_then(builder.icmp_unsigned("==", builder.load(cell), ir.Constant(_BYTES, None)), likely=False):
        builder.call(load, [builder.bitcast(cell, _BYTES)])
    given = list(stub.args)
    if stands_for[2] != arguments:  # the state comes behind a place for the result and one for an exception
        given[2] = builder.extract_value(given[2], 0)
    target = ir.FunctionType(stub.function_type.return_type, [each.type for each in given]).as_pointer()
    builder.ret(builder.call(builder.bitcast(builder.load(cell), target), given))
    library.add_ir_module(module)
    library.stub = stands_for
    return fndesc


def provide(module: str, name: str, arguments: tuple[types.Type, ...]) -> None:
    """Make the cell of a stub known to the code that is loaded next."""
    key = _cell_name(module, name, arguments)
    if key not in _CELLS:
        cell = _CELLS[key] = ctypes.c_void_p()
        ll.add_symbol(key, ctypes.addressof(cell))
        ll.add_symbol(_LOAD, ctypes.cast(_load, ctypes.c_void_p).value)
        _STANDS_FOR[ctypes.addressof(cell)] = module, name, arguments


def load(module: str, name: str) -> None:
    """Compile what the stubs of this function stand for, or load it from the disk."""
    for address, stands_for in list(_STANDS_FOR.items()):  # what is loaded may have stubs too
        if stands_for[:2] == (module, name):
            _fill(address)


def _cell_name(module: str, name: str, arguments: tuple[types.Type, ...]) -> str:
    return f"gpusim.cell.{module}.{name}{arguments}"


def _fill(address: int) -> None:
    cell = ctypes.c_void_p.from_address(address)
    if not cell.value:
        module, name, arguments = _STANDS_FOR[address]
        cell.value = getattr(importlib.import_module(module), name).entry.address(arguments)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _load(address: int) -> None:
    """Load a function for a stub with an empty cell. An exception ends the process: machine code cannot pass it on."""
    try:
        late.append(_STANDS_FOR[address][1])
        _fill(address)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
