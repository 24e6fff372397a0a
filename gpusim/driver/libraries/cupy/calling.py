"""Functions of C libraries as CuPy's modules give them: without the places for results, which are returned."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from gpusim.driver.registry import ENTRY_POINTS

_RESULTS: dict[str, Any] = {"*p": ctypes.c_size_t, "*i": ctypes.c_int, "*f": ctypes.c_float}


def c_function(library: ctypes.CDLL, symbol: str) -> Callable[..., int]:
    """A function of a library, called as in C."""
    function: Any = getattr(library, symbol)
    point = ENTRY_POINTS.get(symbol)
    if point is not None:
        function.argtypes = point.argument_types
    return function


def wrapped(
    library: ctypes.CDLL, symbol: str, check: Callable[[int], None], *defaults: int
) -> Callable[..., Any]:
    """A function of a library without the places for results, and with values for its last arguments. check: raises
    an exception for an error code."""
    point, function = ENTRY_POINTS.get(symbol), c_function(library, symbol)
    letters = point.letters if point is not None else ()
    kinds = [_RESULTS[each] for each in letters if each in _RESULTS]
    given = len(letters) - len(kinds)

    def call(*arguments: int) -> Any:
        if point is None:
            return check(function())  # one that is not supported
        results = [kind() for kind in kinds]
        if len(arguments) < given:
            arguments += defaults[len(arguments) - given :]
        places, values = iter(results), iter(arguments)
        passed = (ctypes.addressof(next(places)) if each in _RESULTS else next(values) for each in letters)
        check(function(*passed))
        return results[0].value if len(results) == 1 else tuple(each.value for each in results) or None

    call.__name__ = call.__qualname__ = symbol
    return call
