"""The driver API as a table: which functions there are, how C passes their arguments, and what runs them.

A function is written as plain Python, with the driver first and then its C arguments as integers:

    @function("cuMemFree_v2", "q")
    def free(driver, address): ...

The letters give the arguments' C types: p pointer or handle, q 64-bit integer or size, u and i 32-bit integers (without
and with sign), s 16-bit and b 8-bit unsigned integers. Results are written through pointers with `put_*`. A function
raises `DriverError` for an error code and returns nothing for success.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_TYPES = {
    "p": ctypes.c_uint64,
    "q": ctypes.c_uint64,
    "u": ctypes.c_uint32,
    "i": ctypes.c_int32,
    "s": ctypes.c_uint16,
    "b": ctypes.c_uint8,
}


@dataclass(frozen=True)
class Function:
    """One exported function.

    symbol: exported name, such as 'cuMemAlloc_v2'. since: the CUDA version that brought this variant (12000 is 12.0),
    which is how callers of `cuGetProcAddress` choose among those of one name. anytime: works without a context, and
    after a kernel has failed.
    """

    symbol: str
    argument_types: tuple[Any, ...]
    run: Callable[..., None]
    since: int
    anytime: bool

    @property
    def name(self) -> str:
        """The name without the variant's suffix."""
        return re.sub(r"_v\d+$", "", self.symbol)


FUNCTIONS: dict[str, Function] = {}
"""By exported name."""


def function(
    symbol: str, arguments: str = "", *, since: int = 0, anytime: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare a function of the API; see the top of this file."""

    def declare(run: Callable[..., None]) -> Callable[..., None]:
        if symbol in FUNCTIONS:
            raise ValueError(f"{symbol} is declared twice")
        types = tuple(_TYPES[letter] for letter in arguments)
        FUNCTIONS[symbol] = Function(symbol, types, run, since, anytime)
        return run

    return declare


def find(name: str, version: int) -> Function | None:
    """The variant of `name` that a caller written for CUDA `version` means, None if there is none."""
    if name in FUNCTIONS and re.search(r"_v\d+$", name):
        return FUNCTIONS[name]
    variants = [each for each in FUNCTIONS.values() if each.name == name and each.since <= version]
    return max(variants, key=lambda each: each.since, default=None)


def put_pointer(address: int, value: int) -> None:
    """Write a pointer, handle or size for the caller; nothing if the caller does not want it (address 0)."""
    if address:
        ctypes.c_uint64.from_address(address).value = value


put_size = put_pointer


def put_int(address: int, value: int) -> None:
    """Write a 32-bit integer for the caller."""
    if address:
        ctypes.c_uint32.from_address(address).value = value & 0xFFFFFFFF


def put_float(address: int, value: float) -> None:
    """Write a 32-bit float for the caller."""
    if address:
        ctypes.c_float.from_address(address).value = value


def put_text(address: int, room: int, text: str) -> None:
    """Write a C string of at most `room` bytes, its end included."""
    ctypes.memmove(address, text.encode()[: room - 1] + b"\0", min(len(text.encode()), room - 1) + 1)


def get_pointer(address: int) -> int:
    """The pointer, handle or size at an address."""
    return ctypes.c_uint64.from_address(address).value


def get_uint(address: int) -> int:
    """The unsigned 32-bit integer at an address."""
    return ctypes.c_uint32.from_address(address).value


def get_text(address: int) -> str:
    """The C string at an address."""
    return ctypes.string_at(address).decode()
