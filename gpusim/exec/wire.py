"""A connection of one thread of a served process: calls come in, orders go out, the answer last (see client.c).

Orders that want no answer are kept until one does or the call returns, so most calls cost one message each way.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial

from gpusim.driver.caller import Caller, Gone
from gpusim.launch.arena import map_shared

PROTOCOL = 7
REGISTERS = {"x86_64": 6, "aarch64": 8}
"""Integer registers that pass arguments, by machine: System V ABI, AAPCS64."""
STACK_WORDS = 18
"""Words of the caller's stack that come with a call: client.c's STACK."""
CALLS, ORDERS, CALLS_AGAIN = range(3)
"""Purposes of a connection: calls of a thread, orders to call functions of the program, or calls of a thread whose
earlier connection the program has closed, as one does that closes all files."""
GOOD_BYE = (1 << 29) - 1
"""In place of a function's number: the program ends."""
NAME_BYTES = 64
_CONNECTS_SECONDS = 60
_HELLO = struct.Struct("<IIiiQ")
_ORDER = struct.Struct("<II6Q")
_RETURN, _READ, _WRITE, _TEXT, _MOVE, _KEEP, _CALL, _SHARE, _MAP, _THREAD, _SYMBOL, _PRINT, _ENVIRONMENT = range(13)


def read_hello(connection: socket.socket) -> tuple[int, int, tuple[int, int]]:
    """(purpose, thread, process and thread for POSIX). Raises Gone for another protocol."""
    protocol, what, process, thread, own = _HELLO.unpack(_received(connection, _HELLO.size))
    if protocol != PROTOCOL:
        raise Gone
    return what, thread, (process, own & 0xFFFF_FFFF)


def _received(connection: socket.socket, nbytes: int) -> bytes:
    try:
        data = connection.recv(nbytes, socket.MSG_WAITALL)
        while 0 < len(data) < nbytes:
            more = connection.recv(nbytes - len(data), socket.MSG_WAITALL)
            data = data + more if more else b""
    except OSError:
        raise Gone from None
    if len(data) < nbytes:
        raise Gone
    return data


class CallingProcess:
    """State that the connections of a process share: texts kept in its memory, and the connections for orders: one to
    call functions, and one for work while no call is made."""

    def __init__(self) -> None:
        self.kept: dict[bytes, int] = {}
        self.calling: Future[Connection] | None = None
        self.standing_by: Future[Connection] | None = None
        self.asked: list[Future[Connection]] = []


class Connection(Caller):
    """The caller that is a thread of another process. words: arguments that come with a call."""

    def __init__(self, connection: socket.socket, process: CallingProcess, words: int):
        self._socket, self.process = connection, process
        self._request = struct.Struct(f"<II{words}Q")
        self._waiting, self._interrupted = bytearray(), False
        self._lock = threading.Lock()  # of the connection for orders, which any thread uses

    def calls(self) -> Iterator[tuple[int, tuple[int, ...], bool]]:
        """(number of the function, words, whether an answer is waited for) of each call, until the thread or the
        process ends."""
        while True:
            try:
                function, unanswered, *words = self._request.unpack(_received(self._socket, self._request.size))
            except Gone:
                return
            yield function, tuple(words), not unanswered

    def answer(self, value: int) -> None:
        """End a call."""
        self._order(_RETURN, value & 0xFFFF_FFFF_FFFF_FFFF, self._interrupted)
        self._interrupted = False
        self._flush()

    # --- Caller -------------------------------------------------------------------------------------------------------

    def read(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        for address, nbytes in places:
            self._order(_READ, address, nbytes)
        self._flush()
        return [_received(self._socket, nbytes) if nbytes else b"" for _, nbytes in places]

    def write(self, address: int, data: bytes) -> None:
        self._order(_WRITE, address, len(data))
        self._waiting += data

    def text(self, address: int) -> bytes:
        self._order(_TEXT, address)
        return _received(self._socket, self._number())

    def move(self, target: int, source: int, nbytes: int, rows: int, target_pitch: int, source_pitch: int) -> None:
        self._order(_MOVE, target, source, nbytes, rows, target_pitch, source_pitch)
        self.read([(target, 1)])  # it has happened when this returns: kernels may read it next

    def keep(self, data: bytes) -> int:
        kept = self.process.kept
        if data not in kept:
            self._order(_KEEP, max(len(data), 1))
            self.write(address := self._number(), data)
            self.read([(address, 1)])  # so it is there when other threads learn of it
            kept[data] = address
        return kept[data]

    def function(self, address: int, arguments: str) -> Callable[..., int]:
        if self.process.calling is None:
            self.process.calling = self._ask_for_orders()
        calling = self.process.calling

        def call(*values: int) -> int:
            orders = calling.result(_CONNECTS_SECONDS)
            with orders._lock:
                orders._order(_CALL, address, *values)
                return orders._number()

        return call

    def interrupted(self) -> None:
        self._interrupted = True

    def standby(self) -> Callable[[], Connection]:
        if self.process.standing_by is None:
            self.process.standing_by = self._ask_for_orders()
        return partial(self.process.standing_by.result, _CONNECTS_SECONDS)

    def _ask_for_orders(self) -> Future[Connection]:
        """Has the process make a thread that takes orders."""
        asked: Future[Connection] = Future()
        self.process.asked.append(asked)
        self._order(_THREAD)
        self._flush()
        return asked

    def share(self, address: int, nbytes: int) -> bool:
        first = address // mmap.PAGESIZE * mmap.PAGESIZE
        size = -(-(address + nbytes - first) // mmap.PAGESIZE) * mmap.PAGESIZE
        file = os.memfd_create("gpusim registered")
        try:
            os.ftruncate(file, size)
            if not map_shared(first, size, file):
                return False
            self._order(_SHARE, first, size, file=file)
            self.read([(first, 1)])
            return True
        finally:
            os.close(file)

    def print(self, text: str) -> None:
        data = text.encode()
        self._order(_PRINT, len(data))
        self._waiting += data

    def environment(self, name: str) -> str | None:
        self._order(_ENVIRONMENT, self.keep(name.encode() + b"\0"))
        found = _received(self._socket, nbytes) if (nbytes := self._number()) else b""
        return found[:-1].decode() if found else None

    def symbol(self, name: str) -> int:
        """Address of one of the libraries' functions in the process, 0 if there is none."""
        self._order(_SYMBOL, self.keep(name.encode() + b"\0"))
        return self._number()

    def map(self, address: int, nbytes: int, file: int) -> bool:
        self._order(_MAP, address, nbytes, file=file)
        return bool(self._number())

    # --- the socket ---------------------------------------------------------------------------------------------------

    def _order(self, what: int, *words: int, file: int | None = None) -> None:
        order = _ORDER.pack(what, 0, *words, *(0,) * (6 - len(words)))
        if file is None:
            self._waiting += order
            return
        self._flush()
        try:
            socket.send_fds(self._socket, [order], [file])
        except OSError:
            raise Gone from None

    def _number(self) -> int:
        self._flush()
        return int.from_bytes(_received(self._socket, 8), "little")

    def _flush(self) -> None:
        if self._waiting:
            data, self._waiting = self._waiting, bytearray()
            try:
                self._socket.sendall(data)
            except OSError:
                raise Gone from None
