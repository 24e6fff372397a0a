"""The process that calls the driver, whose memory a call's pointers mean: this one, or another that a server serves.

Functions of the API reach what C passes through the functions of this file, never through ctypes. A thread works for
one caller, this process unless `serving` says otherwise.
"""

from __future__ import annotations

import _thread
import ctypes
import gc
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class Gone(Exception):
    """The calling process, or its thread, has ended."""


class Caller:
    """Memory and functions of the calling process, by addresses there: of this class itself, those of the process in
    which the driver works. process: the same for all of its threads."""

    process: Any = None

    def read(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes at each (address, count)."""
        return [ctypes.string_at(address, nbytes) for address, nbytes in places]

    def write(self, address: int, data: bytes) -> None:
        """Put bytes at an address."""
        ctypes.memmove(address, data, len(data))

    def text(self, address: int) -> bytes:
        """The C string at an address, without its end."""
        return ctypes.string_at(address)

    def move(self, target: int, source: int, nbytes: int, rows: int, target_pitch: int, source_pitch: int) -> None:
        """Copy so many bytes of each row, as memmove does; a pitch is the bytes from a row to the next."""
        for row in range(rows):
            ctypes.memmove(target + row * target_pitch, source + row * source_pitch, nbytes)

    def keep(self, data: bytes) -> int:
        """Address of a copy of these bytes that stays where it is as long as the process lives."""
        return ctypes.addressof(_kept.setdefault(data, ctypes.create_string_buffer(data, max(len(data), 1))))

    def function(self, address: int, arguments: str) -> Callable[..., int]:
        """A function at an address, to be called from any thread. arguments: a letter each: p pointer, i int."""
        types = (ctypes.c_void_p if each == "p" else ctypes.c_int for each in arguments)
        called: Callable[..., int] = ctypes.CFUNCTYPE(ctypes.c_size_t, *types)(address)
        return called

    def share(self, address: int, nbytes: int) -> bool:
        """Let the simulated device reach memory where it lies; False if it cannot."""
        return True

    def map(self, address: int, nbytes: int, file: int) -> bool:
        """Let the process see a file of memory at this address; False if something else lies there."""
        return True

    def environment(self, name: str) -> str | None:
        """A variable of its environment as it is now, None if it is not set."""
        return os.environ.get(name)

    def print(self, text: str) -> None:
        """Write what kernels have printed to the standard output."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def interrupted(self) -> None:
        """The call at hand ends for an interrupt of the user, which takes effect in the program behind it."""
        _thread.interrupt_main()

    def standby(self) -> Callable[[], Caller]:
        """Gives what works for the process while that makes no call."""
        return lambda: self


_kept: dict[bytes, ctypes.Array[ctypes.c_char]] = {}
_serves = threading.local()
_THIS_PROCESS = Caller()


def caller() -> Caller:
    """The process that this thread works for."""
    found: Caller = getattr(_serves, "caller", _THIS_PROCESS)
    return found


@contextmanager
def serving(process: Caller) -> Iterator[Caller]:
    """Work for another process in this thread."""
    before = caller()
    _serves.caller = process
    try:
        yield process
    finally:
        _serves.caller = before


class _Undisturbed:
    """A context in which Python collects no garbage: finalizers of a program that has the driver inside would call it
    in the middle of its work, in any thread."""

    _inside, _collects = 0, True

    def __enter__(self) -> None:
        if not self._inside:
            self._collects = gc.isenabled()
        self._inside += 1
        gc.disable()

    def __exit__(self, *_: object) -> None:
        self._inside -= 1
        if self._collects and not self._inside:
            gc.enable()


undisturbed = _Undisturbed()


def read(address: int, nbytes: int) -> bytes:
    """Bytes of the caller."""
    return caller().read([(address, nbytes)])[0]


def text(address: int) -> str:
    """The C string at an address."""
    return caller().text(address).decode()


def put_pointer(address: int, value: int) -> None:
    """Write a pointer, handle or size for the caller; nothing if the caller does not want it (address 0)."""
    if address:
        caller().write(address, struct.pack("<Q", value))


def put_int(address: int, value: int) -> None:
    """Write a 32-bit integer for the caller."""
    if address:
        caller().write(address, struct.pack("<I", value & 0xFFFFFFFF))


def put_text(address: int, room: int, text: str) -> None:
    """Write a C string of at most `room` bytes, its end included."""
    caller().write(address, text.encode()[: room - 1] + b"\0")


def constant_text(text: str) -> int:
    """Address of a C string that stays where it is as long as the process lives."""
    return caller().keep(text.encode() + b"\0")


def get_pointer(address: int) -> int:
    """The pointer, handle or size at an address."""
    return int.from_bytes(read(address, 8), "little")


def get_uint(address: int) -> int:
    """The unsigned 32-bit integer at an address."""
    return int.from_bytes(read(address, 4), "little")


def get_pointers(address: int, count: int) -> tuple[int, ...]:
    """Pointers, handles or sizes that lie one after the other."""
    return struct.unpack(f"<{count}Q", read(address, 8 * count)) if count else ()
