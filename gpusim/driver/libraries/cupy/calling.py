"""Functions of C libraries as CuPy's modules give them: without the places for results, which are returned.

What a function takes is in a file beside the libraries of `gpusim exec`, so that a program there need not load the
driver, which takes longer than CuPy. Where the driver is in the program's process it is known.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

_RESULTS: dict[str, Any] = {"*p": ctypes.c_size_t, "*i": ctypes.c_int, "*f": ctypes.c_float}


@cache
def _signatures() -> dict[str, list[tuple[str, Any]]]:
    """The letter (`gpusim.driver.registry`) and the type of each argument, None for a structure, by function."""
    registry: Any = sys.modules.get("gpusim.driver.registry")
    if registry is not None:
        text = registry.signatures()
    else:
        text = Path(os.environ["NUMBA_CUDA_DRIVER"]).with_name("signatures").read_text()
    found = {}
    for line in text.splitlines():
        symbol, *arguments = line.split(" ")
        pairs = (each.split(":") for each in arguments)
        found[symbol] = [(letter, getattr(ctypes, kind, None)) for letter, kind in pairs]
    return found


def constants(part: str) -> dict[str, int]:
    """Numbers by name, of a part of `constants.txt`."""
    text = Path(__file__).with_name("constants.txt").read_text().partition(f"[{part}]\n")[2].partition("[")[0]
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def c_function(library: ctypes.CDLL, symbol: str) -> Callable[..., int]:
    """A function of a library, called as in C."""
    function: Any = getattr(library, symbol)
    types = [kind for _, kind in _signatures().get(symbol, ())]
    if types and None not in types:
        function.argtypes = types
    return function


def wrapped(library: ctypes.CDLL, symbol: str, check: Callable[[int], None], *defaults: int) -> Callable[..., Any]:
    """A function of a library without the places for results, and with values for its last arguments. check: raises
    an exception for an error code."""
    signature, function = _signatures().get(symbol), c_function(library, symbol)
    letters = [letter for letter, _ in signature or ()]
    kinds = [_RESULTS[each] for each in letters if each in _RESULTS]
    given = len(letters) - len(kinds)

    def call(*arguments: int) -> Any:
        if signature is None:
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
