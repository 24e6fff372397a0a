"""The driver API as a table: which functions there are, how C passes their arguments, and what runs them.

A function is plain Python. It gets the driver and what C passes, and returns what C wants to be told:

    @entry("cuMemAllocPitch_v2", "*p *p q q (u)")
    def allocate_pitch(driver: Driver, width: int, height: int) -> tuple[int, int]: ...

It raises `DriverError` for an error code. The signature has a letter for each argument of C's, in order:

- p pointer, q 64 bits or a size, u and i 32 bits without and with sign, h 16 bits, b 8 bits: passed as integers;
- D number of a device, C context (0: the current one), S stream, E event, K kernel, M module or library, G graph,
  P memory pool, T C string: looked up, and an error code if there is none;
- *p, *i, *f: a place for a result of 64 bits, of 32, or a float. It is not passed: what the function returns, one value
  or a tuple, is written to these places, except for None and where the caller wants no answer (address 0);
- in parentheses: what this driver has no use for.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from gpusim.driver.caller import caller, text
from gpusim.driver.codes import ResultCode, known
from gpusim.driver.state import Driver

_TYPES: dict[str, Any] = {
    "q": ctypes.c_uint64,
    "u": ctypes.c_uint32,
    "i": ctypes.c_int32,
    "D": ctypes.c_int32,
    "h": ctypes.c_uint16,
    "b": ctypes.c_uint8,
}
"""C types by letter; the other letters are pointers or handles."""
_RESULTS: dict[str, Any] = {"*p": ctypes.c_uint64, "*i": ctypes.c_uint32, "*f": ctypes.c_float}
_LOOKED_UP: dict[str, Callable[[Driver, int], Any]] = {
    "D": Driver.check_device,
    "C": Driver.context_or_current,
    "S": Driver.stream_of,
    "E": lambda driver, handle: known(driver.context().events.get(handle)),
    "K": lambda driver, handle: known(driver.context().kernels.get(handle)),
    "M": lambda driver, handle: known(driver.context().modules.get(handle)),
    "G": lambda driver, handle: known(driver.graphs.get(handle), ResultCode.INVALID_VALUE),
    "P": lambda driver, handle: known(driver.pools.get(handle), ResultCode.INVALID_VALUE),
    "T": lambda driver, address: text(address),
}
_Run = TypeVar("_Run", bound=Callable[..., Any])


@dataclass(frozen=True)
class EntryPoint:
    """One exported function.

    symbol: exported name, such as 'cuMemAlloc_v2'. letters: its arguments, each a letter of the signature with a star
    for a result, '' for one that is not used. since: the CUDA version that brought this variant (12000 is 12.0), which
    is how callers of `cuGetProcAddress` choose among those of one name. anytime: works without a context, and after a
    kernel has failed.
    """

    symbol: str
    argument_types: tuple[Any, ...]
    letters: tuple[str, ...]
    run: Callable[..., Any]
    since: int
    anytime: bool

    @property
    def name(self) -> str:
        """The name without the variant's suffix."""
        return re.sub(r"_v\d+$", "", self.symbol)

    def call(self, driver: Driver, arguments: tuple[int, ...]) -> None:
        """Do what C asks for. Raises DriverError."""
        passed, places = [], []
        for letter, value in zip(self.letters, arguments, strict=True):
            if letter in _RESULTS:
                places.append((_RESULTS[letter], value))
            elif letter:
                passed.append(_LOOKED_UP[letter](driver, value) if letter in _LOOKED_UP else value)
        answer = self.run(driver, *passed)
        answers = answer if isinstance(answer, tuple) else (answer,)
        for (kind, address), value in zip(places, answers, strict=bool(places)):
            if address and value is not None:
                caller().write(address, bytes(kind(value)))


ENTRY_POINTS: dict[str, EntryPoint] = {}
"""By exported name."""


def entry(
    symbol: str, signature: str = "", *, since: int = 0, anytime: bool = False
) -> Callable[[_Run], _Run]:
    """Declare a function of the API; see the top of this file. One Python function may serve several."""

    def declare(run: _Run) -> _Run:
        if symbol in ENTRY_POINTS:
            raise ValueError(f"{symbol} is declared twice")
        parts = re.findall(r"\*?[a-zA-Z]|[()]", signature)
        used, types, letters = True, [], []
        for part in parts:
            if part in "()":
                used = part == ")"
                continue
            types.append(_TYPES.get(part, ctypes.c_uint64))
            letters.append(part if used else "")
        ENTRY_POINTS[symbol] = EntryPoint(symbol, tuple(types), tuple(letters), run, since, anytime)
        return run

    return declare


def entries(*rows: tuple[str, str, Callable[..., Any]], anytime: bool = False) -> None:
    """Declare functions of an expression each: (symbol and the version that brought it, signature, what runs it)."""
    for name, signature, run in rows:
        symbol, _, since = name.partition(" ")
        entry(symbol, signature, since=int(since or 0), anytime=anytime)(run)


def nothing(driver: Driver, *_checked: object) -> None:
    """What a call does that is done when its arguments have been looked up: what it asks for is so anyway."""


def find(name: str, version: int) -> EntryPoint | None:
    """The variant of `name` that a caller written for CUDA `version` means, None if there is none."""
    if name in ENTRY_POINTS and re.search(r"_v\d+$", name):
        return ENTRY_POINTS[name]
    variants = [each for each in ENTRY_POINTS.values() if each.name == name and each.since <= version]
    return max(variants, key=lambda each: each.since, default=None)
