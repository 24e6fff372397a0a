"""The C interface of a Cython module, for a module that is written in Python.

A Cython module finds the C functions and variables of another in its dictionary `__pyx_capi__`: capsules, whose names
are what they are declared as ("Sharing Declarations Between Cython Modules" in Cython's documentation). A function here
is a few instructions that LLVM makes: they build Python objects of the arguments, call a Python function, and turn
what it returns back. An exception stays set, as Cython's callers expect it; a callback of ctypes cannot do that.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

_ARGUMENTS = {
    **dict.fromkeys(("int", "cudaMemcpyKind"), ("i32", "i")),
    "unsigned int": ("i32", "I"),
    **dict.fromkeys(("size_t", "uintmax_t"), ("i64", "K")),
    **dict.fromkeys(("intptr_t", "Py_ssize_t"), ("i64", "L")),
}
"""Type in LLVM and letter for `PyObject_CallFunction` by type in C; all others are Python objects."""
_OBJECT = ("i64", "O")
_POINTER = ("i64", "K")
_RESULTS = {
    "int": ("i32", "i64 @PyLong_AsLong", "trunc i64 %value to i32"),
    "unsigned int": ("i32", "i64 @PyLong_AsUnsignedLong", "trunc i64 %value to i32"),
    "size_t": ("i64", "i64 @PyLong_AsUnsignedLong", "add i64 %value, 0"),
    "uintmax_t": ("i64", "i64 @PyLong_AsUnsignedLong", "add i64 %value, 0"),
    "intptr_t": ("i64", "i64 @PyLong_AsLong", "add i64 %value, 0"),
    "float": ("float", "double @PyFloat_AsDouble", "fptrunc double %value to float"),
}
"""Type in LLVM by type in C, the function of Python's C API that takes the value out of an object, and what makes the
one of the other."""
_STRUCTURE = "cuda"
"""Prefix of the structures that are returned by value. All are so large that the caller passes their place."""
_API = """
declare i32 @Py_IsInitialized()
declare i64 @Py_NewRef(i64)
declare i64 @PyObject_CallFunction(i64, i64, ...)
declare i64 @PyLong_AsLong(i64)
declare i64 @PyLong_AsUnsignedLong(i64)
declare double @PyFloat_AsDouble(i64)
declare i64 @PyErr_Occurred()
declare void @Py_DecRef(i64)
"""
_TAKE_OUT = """%failed = icmp eq i64 %made, 0
br i1 %failed, label %over, label %good
good:
%value = call {take}(i64 %made)
call void @Py_DecRef(i64 %made)
%result = {convert}
%wrong = call i64 @PyErr_Occurred()
%bad = icmp ne i64 %wrong, 0
br i1 %bad, label %over, label %end
end:
ret {kind} %result"""
_for_ever: list[Any] = []
"""Objects that C code refers to, which therefore are never freed."""
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_for_ever))  # one more than are given back at the interpreter's end
ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


@dataclass(frozen=True)
class Declaration:
    """A C function of a module. result, arguments: types in C, 'object', and names of the module's classes; an argument
    that ends in '?' may be left out. error: what is returned when an exception is set. overridable: it has an argument
    for the dispatch to methods of subclasses (`cpdef`)."""

    module: str
    name: str
    result: str
    arguments: tuple[str, ...]
    error: str
    overridable: bool

    def written(self) -> str:
        """Its type as Cython writes it."""
        given = [self._written(each) for each in self.arguments if not each.endswith("?")]
        dispatch = ["int __pyx_skip_dispatch"] if self.overridable else []
        optional = [f"struct __pyx_opt_args_{self._scope}_{self.name} *__pyx_optional_args"] if self.optional else []
        result = self._written(self.result)
        return f"{result}{'' if result.endswith('*') else ' '}({', '.join(given + dispatch + optional) or 'void'})"

    @property
    def optional(self) -> bool:
        """True if an argument may be left out."""
        return any(each.endswith("?") for each in self.arguments)

    @property
    def symbol(self) -> str:
        """Its name among LLVM's, which knows what the functions of C's library do."""
        return f"called_{self.name}"

    @property
    def _scope(self) -> str:
        return "_".join(f"{len(part)}{part}" for part in self.module.split("."))

    def _written(self, kind: str) -> str:
        if kind == "object":
            return "PyObject *"
        if kind in _ARGUMENTS or kind in _RESULTS or kind.startswith(_STRUCTURE):
            return kind
        return f"struct __pyx_obj_{self._scope}_{kind} *"

    def instructions(self, function: int, letters: int) -> str:
        """The function in LLVM's language. function, letters: addresses of the Python function and of the format. When
        the interpreter ends, nothing is called, and nothing has gone wrong."""
        kinds = [kind for kind, _ in self._passed()]
        taken = [f"{kind} %a{index}" for index, kind in enumerate(kinds)]
        passed = ", ".join([f"i64 {function}", f"i64 {letters}", *taken])
        if self.overridable:
            taken.insert(len(kinds) - self.optional, "i32 %dispatch")
        kind, end, over = "i64", "ret i64 %made", f"%none = call i64 @Py_NewRef(i64 {id(None)})\nret i64 %none"
        if self.result.startswith(_STRUCTURE):
            taken.insert(0, "i64 %place")
            end = over = "ret i64 %place"
        elif self.result in _RESULTS:
            kind, take, convert = _RESULTS[self.result]
            over = f"ret {kind} {self.error}"
            end = _TAKE_OUT.format(take=take, convert=convert, kind=kind)
        return f"""define {kind} @{self.symbol}({", ".join(taken)}) {{
%alive = call i32 @Py_IsInitialized()
%ended = icmp eq i32 %alive, 0
br i1 %ended, label %over, label %call
call:
%made = call i64 (i64, i64, ...) @PyObject_CallFunction({passed})
{end}
over:
{over}
}}
"""

    def letters(self) -> bytes:
        """The format for `PyObject_CallFunction`; what may be left out arrives as the address of Cython's structure."""
        return f"({''.join(letter for _, letter in self._passed())})".encode()

    def _passed(self) -> list[tuple[str, str]]:
        given = [_ARGUMENTS.get(each, _OBJECT) for each in self.arguments if not each.endswith("?")]
        return given + [_POINTER] * self.optional


_LINE = re.compile(r"(cdef )?(\w[\w ]*?) \((.*?)\)(?: except (\S+))?: (.*)")


def declarations(module: str, text: str) -> Iterator[Declaration]:
    """The functions that a text declares, a line for all of one type: `result (arguments) except error: names`, with
    `cdef ` in front where they are not `cpdef`."""
    for line in filter(None, text.splitlines()):
        found = _LINE.fullmatch(line)
        assert found, line
        direct, result, arguments, error, names = found.groups()
        kinds = tuple(filter(None, arguments.split(", ")))
        for name in names.split():
            yield Declaration(module, name, result, kinds, error or "0", not direct)


def interface(declared: Collection[Declaration], functions: Mapping[str, Any]) -> dict[str, Any]:
    """The capsules of C functions that call Python functions of the same names."""
    code = [_API]
    for each in declared:
        letters = ctypes.create_string_buffer(each.letters())
        function = _with_optional(each, functions[each.name]) if each.optional else functions[each.name]
        _for_ever.append((letters, function))
        code.append(each.instructions(id(function), ctypes.addressof(letters)))
    for name in re.findall(r"@(\w+)", _API):
        llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    engine = _compiled("".join(code))
    return {each.name: _capsule(engine.get_function_address(each.symbol), each.written()) for each in declared}


def constants(values: Mapping[str, int]) -> dict[str, Any]:
    """The capsules of C variables of type int."""
    places = {name: ctypes.c_int(value) for name, value in values.items()}
    _for_ever.append(places)
    return {name: _capsule(ctypes.addressof(place), "int") for name, place in places.items()}


def _compiled(code: str) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(opt=1)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(code), target)
    engine.finalize_object()
    _for_ever.append(engine)
    return engine


def _capsule(address: int, name: str) -> Any:
    kept = ctypes.create_string_buffer(name.encode())
    _for_ever.append(kept)
    return ctypes.pythonapi.PyCapsule_New(address, ctypes.cast(kept, ctypes.c_char_p), None)


def _with_optional(declared: Declaration, function: Callable[..., Any]) -> Callable[..., Any]:
    """Takes the address of Cython's structure of optional arguments: how many were given, then they, all of them ints;
    the address is 0 if none was given."""

    def call(*arguments: Any) -> Any:
        *given, place = arguments
        count = ctypes.c_int.from_address(place).value if place else 0
        more = (ctypes.c_int * count).from_address(place + 4) if count else ()
        return function(*given, *more)

    return call
