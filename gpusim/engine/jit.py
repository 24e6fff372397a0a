"""How the engine's functions are compiled, and where the result is kept.

Machine code lies in a folder of its own for each state of the engine's sources: Numba's cache looks at the file of the
function that is called and would go on using old code when only a function further down has changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import njit

from isa import microops
from isa.cache import cache_folder

_SOURCES = (Path(__file__).parent, Path(microops.__file__))


@cache
def core_folder() -> Path:
    """Folder for the compiled core of this version of the sources; $GPUSIM_CACHE_DIR moves it."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in _SOURCES:
        for file in sorted(source.glob("*.py")) if source.is_dir() else [source]:
            digest.update(file.read_bytes())
    return cache_folder() / f"core-{digest.hexdigest()[:16]}"


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    before = numba.config.CACHE_DIR
    if not os.environ.get("NUMBA_CACHE_DIR"):
        numba.config.CACHE_DIR = str(core_folder())
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
