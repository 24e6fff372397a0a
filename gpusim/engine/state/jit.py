"""How the engine's functions are compiled, and where the result is kept.

Numba's cache looks at the path and the time of the file of the function that is called: it would go on using old code
when only a constant or a function further down has changed, and compile again what only lies elsewhere. Here machine
code is kept by content: a file's folder is named after a digest of the file and of everything in `gpusim` and `isa`
that it imports. A change recompiles what uses the changed file, and two checkouts of one version share their code.

With GPUSIM_BOUNDS_CHECK=1 in the environment every index is checked (`bounds`), and the code has folders of its own.
"""

from __future__ import annotations

import gc
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numba
from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

from isa.folders import cache_folder

#: Where gpusim and isa lie.
_HOME = Path(__file__).parents[3]
#: An import statement that is not inside a function, whose names are all that compiled code can refer to.
_IMPORT = re.compile(r"^from ((?:gpusim|isa)[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
#: Whether an index out of range ends the run with an IndexError, rather than with what lies at that place of memory.
BOUNDS_CHECK = os.environ.get("GPUSIM_BOUNDS_CHECK") == "1"
if BOUNDS_CHECK:
    from gpusim.engine.state import bounds

    bounds.install()


@cache
def core_folder() -> Path:
    """Folder that says whether all of this version of the core has been compiled; $GPUSIM_CACHE_DIR moves it."""
    return _folder("core", {path for file in (_HOME / "gpusim" / "engine").rglob("*.py") for path in _needed(file)})


@cache
def code_folder(file: Path) -> Path:
    """Folder for the compiled functions of one file."""
    return _folder(file.stem, _needed(file))


def _folder(name: str, files: set[Path]) -> Path:
    digest = hashlib.sha256(numba.__version__.encode() + b" checked" * BOUNDS_CHECK)
    for path, file in sorted((os.path.relpath(file, _HOME), file) for file in files):
        digest.update(path.encode() + b"\0" + file.read_bytes())
    return cache_folder() / "engine" / f"{name}-{digest.hexdigest()[:16]}"


def _needed(file: Path) -> set[Path]:
    """A file and all files of gpusim and isa that it imports, directly or not."""
    found: set[Path] = set()
    left = [file]
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            left += _imported(file)
    return found


@cache
def _imported(file: Path) -> tuple[Path, ...]:
    """Files of gpusim and isa that a file imports."""
    found = []
    for module, names in _IMPORT.findall(file.read_text("utf-8")):
        for name in re.findall(r"(\w+)(?: as \w+)?", re.sub(r"#.*", "", names)):
            found.append(_file_of(f"{module}.{name}") or _file_of(module))
    return tuple(path for path in found if path is not None)


@cache
def _file_of(module: str) -> Path | None:
    base = _HOME.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


class _ByContent(_CacheLocator):
    """Tells Numba's cache that a function's folder, which is named after its sources, never goes stale."""

    def __init__(self, function: Callable[..., Any]):
        self._function = function

    def get_cache_path(self) -> str:
        return str(code_folder(Path(self._function.__code__.co_filename)))

    def get_source_stamp(self) -> int:
        return 0

    def get_disambiguator(self) -> str:
        return str(self._function.__code__.co_firstlineno)

    @classmethod
    def from_function(cls, function: Callable[..., Any], _file: str) -> _ByContent:
        return cls(function)


class _Results(CompileResultCacheImpl):
    _locator_classes: ClassVar[list[type]] = [_ByContent]


class _Cache(FunctionCache):
    _impl_class = _Results


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    dispatcher = njit(nogil=True, error_model="numpy", boundscheck=BOUNDS_CHECK, **options)(function)
    dispatcher._cache = _Cache(function)
    return dispatcher


@contextmanager
def without_collector() -> Iterator[None]:
    """Compile with Python's collector of garbage off: it takes a tenth of the time and finds next to nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function of the engine: cached on disk, free of the interpreter lock, without exceptions for
    division by zero, never with reordered floating-point arithmetic, and without reference counts (counting them
    in every call cost three quarters of the executors' speed): it must not make arrays."""
    return _compile(function, _nrt=False)


def compiled_with_arrays(function: Callable[..., Any]) -> Any:
    """As `compiled`, for a function that makes arrays of its own."""
    return _compile(function)


def compiled_in_place(function: Callable[..., Any]) -> Any:
    """As `compiled`, for a function with one caller, which takes its body in: a chain of calls would be optimised
    again at each of its levels."""
    return _compile(function, _nrt=False, inline="always")
