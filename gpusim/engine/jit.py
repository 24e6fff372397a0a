"""How the engine's functions are compiled, and where the result is kept.

Machine code lies in a folder of its own for each state of the sources that it depends on: Numba's cache looks at the
file of the function that is called and would go on using old code when only a function further down has changed. So
a file's folder is named after a digest of the file and of everything in the engine that it imports, and a change
recompiles what uses the changed file, not all.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy
from numba import njit

from isa import microops
from isa.cache import cache_folder

_ENGINE = Path(__file__).parent
_MICROOPS = Path(microops.__file__)


@cache
def core_folder() -> Path:
    """Folder that says whether all of this version of the core has been compiled; $GPUSIM_CACHE_DIR moves it."""
    return _folder("core", sorted([*_ENGINE.glob("*.py"), _MICROOPS]))


@cache
def _code_folder(file: Path) -> Path:
    """Folder for the compiled functions of one file of the engine."""
    return _folder(file.stem, sorted(_needed(file)))


def _folder(name: str, files: list[Path]) -> Path:
    digest = hashlib.sha256(numba.__version__.encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return cache_folder() / "engine" / f"{name}-{digest.hexdigest()[:16]}"


def _needed(file: Path) -> set[Path]:
    """A file and all files of the engine that it imports, directly or not."""
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
    """Files of the engine, and the list of micro-operations, that a file imports."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        for name in [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]:
            if name == microops.__name__:
                found.append(_MICROOPS)
            elif name.startswith("gpusim.engine."):
                found.append(_ENGINE / f"{name.split('.')[2]}.py")
    return tuple(path for path in found if path.exists())


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    before = numba.config.CACHE_DIR
    if not os.environ.get("NUMBA_CACHE_DIR"):
        numba.config.CACHE_DIR = str(_code_folder(Path(function.__code__.co_filename)))
    try:
        return njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    finally:
        numba.config.CACHE_DIR = before


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


def interpreted_as(meaning: Callable[..., Any]) -> Callable[[Any], Any]:
    """Decorator of an intrinsic: `meaning`, the same in Python, takes its place with compilation off
    (NUMBA_DISABLE_JIT=1); otherwise it is the intrinsic's attribute `interpreted`, for tests."""

    def choose(primitive: Any) -> Any:
        if numba.config.DISABLE_JIT:
            return meaning
        primitive.interpreted = meaning
        return primitive

    return choose


if numba.config.DISABLE_JIT:
    # Compiled arithmetic wraps and divides by zero without a word, and so does the same code in Python.
    numpy.seterr(all="ignore")
