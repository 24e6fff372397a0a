"""Decorators of the engine's functions that are compiled: `whole_program` compiles them, `code_cache` keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import types

from gpusim.engine.state.code_cache import BOUNDS_CHECK
from gpusim.engine.state.whole_program import Compiled

if BOUNDS_CHECK:
    from gpusim.engine.state import bounds

    bounds.install()

OPTIONS = {"nogil": True, "error_model": "numpy", "boundscheck": BOUNDS_CHECK, "_nrt": False}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function of the engine: kept on disk, free of the interpreter lock, without exceptions for
    division by zero, never with reordered floating-point arithmetic, and without reference counts (counting them
    in every call cost three quarters of the executors' speed): it must not make arrays."""
    return Compiled(function, OPTIONS)


def compiled_on_demand(returns: types.Type = types.none) -> Callable[[Callable[..., Any]], Any]:
    """Compile, apart from its callers and when first called, a function that few programs need; else as `compiled`.

    returns: what the function gives, which its callers have to know without it.
    """
    return lambda function: Compiled(function, OPTIONS, returns)


def declared(module: str) -> Callable[[Callable[..., Any]], Any]:
    """A function `compiled_on_demand` of another module, which is imported when it is first called."""

    def elsewhere(function: Callable[..., Any]) -> Any:
        function.__module__ = module
        return Compiled(function, OPTIONS, types.none)

    return elsewhere
