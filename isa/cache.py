"""Cache of compiled programs, on disk and in memory, by content.

A key is a digest of everything the result depends on (`ProgramCache.key`), so an entry is never stale and may
be deleted at any time.
"""

from __future__ import annotations

import enum
import hashlib
import sys
import types
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from isa.cubin import Cubin
from isa.errors import ProgramFileError
from isa.folders import cache_folder, put_file
from isa.program import SUFFIX, Program

_KEPT_IN_MEMORY = 256
_FILES = ".files"  # beside an entry: the files that it depends on


class ProgramCache:
    """Programs by content digest in one folder, the latest ones also in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._recent: dict[str, Program] = {}
        self._files: dict[str, list[str]] = {}

    @staticmethod
    def key(parts: Iterable[str | bytes]) -> str:
        """Digest of a sequence of parts; each is preceded by its length, so that borders count."""
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            digest.update(b"%d:" % len(data) + data)
        return digest.hexdigest()

    def path(self, key: str) -> Path:
        """File that holds (or would hold) the entry of a key."""
        return self.folder / key[:2] / (key + SUFFIX)

    def get(self, key: str, cubin: Cubin | None = None) -> Program | None:
        """The program of a key, or None; a damaged file counts as absent and is overwritten by the next
        `put`. An entry that was put without its cubin needs it.
        """
        if key not in self._recent:
            with suppress(ProgramFileError):
                self._remember(key, Program.open(self.path(key), cubin))
        return self._recent.get(key)

    def put(self, key: str, program: Program, *, with_cubin: bool = True) -> None:
        """Store a program, without its cubin if whoever asks for it has that. A folder that cannot be written to
        leaves only the copy in memory."""
        self._remember(key, program)
        with suppress(OSError):
            program.save(self.path(key), with_cubin=with_cubin)

    def full_key(self, key: str) -> str:
        """The key with the content of the files that were named by `put_files`; the key itself if none were."""
        names = self._files.get(key)
        if names is None:
            try:
                names = self.path(key).with_suffix(_FILES).read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError):
                return key
        return self.key([key, *(part for name in names for part in (name, _content(name)))])

    def put_files(self, key: str, names: Iterable[str]) -> None:
        """Say on which files the entry of a key depends besides, which only its compiler knows."""
        self._files[key] = list(names)
        with suppress(OSError):
            put_file(self.path(key).with_suffix(_FILES), "\n".join(self._files[key]).encode())

    def _remember(self, key: str, program: Program) -> None:
        self._recent[key] = program
        while len(self._recent) > _KEPT_IN_MEMORY:
            del self._recent[next(iter(self._recent))]


def _content(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError:
        return b""


_cache_of = lru_cache(maxsize=8)(ProgramCache)


def default_cache() -> ProgramCache:
    """The cache of the folder that the environment names now."""
    return _cache_of(cache_folder())


class Unkeyable(Exception):
    """A kernel refers to an object whose content has no safe digest; it is compiled without the cache."""


_TRUSTED = frozenset({"numba", "numba_cuda", "llvmlite", "numpy", "cuda", "builtins"}) | sys.stdlib_module_names
_TYPES = {("numba.core.types.abstract", "Type"), ("llvmlite.ir.types", "Type")}
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


def function_parts(function: Any) -> list[str | bytes]:
    """A digest of all that a kernel's machine code depends on: bytecode, line numbers, constants, and the values of the
    globals and closure variables that it names, through every device function that it can reach. Raises Unkeyable (one
    of the values has no safe digest)."""
    parts: list[str | bytes] = []
    _add_value(parts, function, frozenset(), set())
    return parts


def _add_function(parts: list[str | bytes], function: types.FunctionType, seen: set[int]) -> None:
    parts += ["function", function.__module__ or "", function.__qualname__]
    if id(function) in seen:
        return
    seen.add(id(function))
    names = _add_code(parts, function.__code__, seen)
    _add_value(parts, function.__defaults__, names, seen)
    _add_value(parts, function.__kwdefaults__, names, seen)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        parts.append(name)
        try:
            _add_value(parts, cell.cell_contents, names, seen)
        except ValueError:  # an empty cell: the variable is assigned later
            raise Unkeyable(f"closure variable {name} has no value yet") from None
    for name in sorted(names):
        if name in function.__globals__:
            parts.append(name)
            _add_value(parts, function.__globals__[name], names, seen)


def _add_code(parts: list[str | bytes], code: types.CodeType, seen: set[int]) -> frozenset[str]:
    """Add one code object and the ones nested in it; returns every name that they use."""
    names = set(code.co_names)
    parts += [code.co_filename, str(code.co_firstlineno), code.co_code, code.co_linetable, str(code.co_flags)]
    parts += [repr((code.co_argcount, code.co_kwonlyargcount, code.co_names, code.co_varnames, code.co_freevars))]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _add_code(parts, constant, seen)
        else:
            _add_value(parts, constant, frozenset(), seen)
    return frozenset(names)


def _add_value(parts: list[str | bytes], value: Any, names: frozenset[str], seen: set[int]) -> None:
    import numpy as np  # here, so that importing the package stays quick

    kind = type(value)
    if isinstance(value, types.ModuleType):  # first: a look at one that is to be loaded late would load it
        _add_module(parts, value, names, seen)
    elif isinstance(value, enum.Enum):
        parts += ["enum", kind.__module__, kind.__qualname__, value.name]
        _add_value(parts, value.value, names, seen)
    elif kind in _PLAIN:
        parts += [kind.__name__, repr(value)]
    elif isinstance(value, np.ndarray | np.generic):
        if value.dtype.hasobject:
            raise Unkeyable("an array of Python objects")
        order = "F" if isinstance(value, np.ndarray) and value.flags.fnc else "C"
        parts += ["array", kind.__name__, repr(value.dtype.descr), repr(value.shape), order, value.tobytes()]
    elif isinstance(value, np.dtype):
        parts += ["dtype", repr(value.descr), repr(value)]
    elif isinstance(value, tuple | list | frozenset):
        parts += [kind.__module__, kind.__qualname__, repr(getattr(value, "_fields", ())), str(len(value))]
        for item in sorted(value, key=repr) if isinstance(value, frozenset) else value:
            _add_value(parts, item, names, seen)
    elif isinstance(value, dict):
        parts += ["dict", str(len(value))]
        for key, item in value.items():
            _add_value(parts, key, names, seen)
            _add_value(parts, item, names, seen)
    elif isinstance(value, types.FunctionType):
        _add_function(parts, value, seen)
    elif isinstance(getattr(value, "py_func", None), types.FunctionType):
        parts += ["dispatcher", kind.__qualname__, repr(sorted(getattr(value, "targetoptions", {}).items()))]
        _add_function(parts, value.py_func, seen)
    elif kind.__name__ == "_Intrinsic" and isinstance(getattr(value, "_defn", None), types.FunctionType):
        # What a call of it becomes is what its definition builds.
        parts.append("intrinsic")
        _add_function(parts, value._defn, seen)
    elif isinstance(value, type) and issubclass(value, enum.Enum):
        parts += ["enums", value.__module__, value.__qualname__]
        _add_value(parts, [(member.name, member.value) for member in value], names, seen)
    else:
        _add_trusted(parts, value)


def _add_module(parts: list[str | bytes], module: types.ModuleType, names: frozenset[str], seen: set[int]) -> None:
    """A module of a package with a version counts by name; another one by what the code names in it."""
    name = types.ModuleType.__getattribute__(module, "__name__")
    parts += ["module", name]
    if name.partition(".")[0] in _TRUSTED or id(module) in seen:
        return
    seen.add(id(module))
    for each in sorted(names):
        if hasattr(module, each):
            parts.append(each)
            _add_value(parts, getattr(module, each), names, seen)


def _add_trusted(parts: list[str | bytes], value: Any) -> None:
    """Functions and classes of packages with a version count by name, types of Numba and LLVM by their full name."""
    kind = type(value)
    text = str(value)
    if any((base.__module__, base.__name__) in _TYPES for base in kind.__mro__):
        if " at 0x" in text or kind.__name__ == "IdentifiedStructType":  # which prints without what it holds
            raise Unkeyable(f"the type {text}")
        parts += ["type", text]
        return
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    home = "numpy" if kind.__name__ == "ufunc" else getattr(value, "__module__", None) or ""
    by_name = isinstance(value, type | types.BuiltinFunctionType) or kind.__name__ == "ufunc"
    if not by_name or not name or home.partition(".")[0] not in _TRUSTED:
        raise Unkeyable(f"{kind.__qualname__} object {text}")
    parts += ["name", home, name]
