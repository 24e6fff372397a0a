"""The simulator's side of one process of the program: a driver of its own, a thread for each of the process's threads.

It is a fork of the process that started the program, so it has everything loaded, and device memory lies at the same
addresses for every program. It lives until the process it serves has ended.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from gpusim.driver.caller import Gone, caller, serving
from gpusim.driver.registry import answer
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import HOST_THREAD
from gpusim.exec.libraries import functions
from gpusim.exec.wire import (
    CALLS_AGAIN,
    GOOD_BYE,
    NAME_BYTES,
    ORDERS,
    REGISTERS,
    STACK_WORDS,
    CallingProcess,
    Connection,
    read_hello,
)

_CREDENTIALS = struct.Struct("3i")  # struct ucred: process, user, group


def listen() -> tuple[socket.socket, str]:
    """A socket in the abstract namespace, and its name: there is no file, and nothing to clean up."""
    name = f"gpusim-{os.getpid()}-{secrets.token_hex(8)}"
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind("\0" + name)
    made.listen(128)
    return made, name


def accept(listener: socket.socket) -> tuple[socket.socket, int] | None:
    """A connection and the process at its other end, None if that is another user's."""
    made, _ = listener.accept()
    process, user, _ = _CREDENTIALS.unpack(made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if user != os.getuid():
        made.close()
        return None
    return made, process


class ServedProcess:
    """A process and the driver that works for it."""

    def __init__(self, driver: Driver):
        self.driver, self._process = driver, CallingProcess()
        registers = REGISTERS[platform.machine()]
        self._registers, self._words = registers, registers + STACK_WORDS
        self._points = functions()
        self._states: dict[int, dict[str, Any]] = {}  # of the driver's about each thread
        self._is_python: bool | None = None
        self._calls_functions: set[int] = set()  # threads of the process that do for streams

    def serve(self, made: socket.socket) -> None:
        """Answer the calls of a connection whose hello is still to come."""
        try:
            what, thread, ident = read_hello(made)
        except Gone:
            made.close()
            return
        connection = Connection(made, self._process, self._words)
        if what == ORDERS:
            self._calls_functions.add(thread)
            self._process.asked.pop(0).set_result(connection)
            return
        if thread in self._calls_functions:
            threading.current_thread().name = HOST_THREAD
        state = vars(self.driver.thread)
        state |= (self._states.get(thread, {}) if what == CALLS_AGAIN else {}) | {"ident": ident}
        self._states[thread] = state
        with serving(connection), contextlib.suppress(Gone):
            self._answer_all(connection)

    def interrupt(self) -> None:
        """Let the call that is under way fail, in a program whose own reaction to an interrupt waits for its end."""
        if self._is_python:
            self.driver.interrupt()

    def _answer_all(self, connection: Connection) -> None:
        driver = self.driver
        for number, words, answered in connection.calls():
            if number == GOOD_BYE:
                driver.finish()
                connection.answer(0)
                continue
            point = self._points[number]
            if self._is_python is None and answered:
                self._is_python = connection.symbol("PyErr_CheckSignals") != 0
            value = answer(driver, point, point.arguments(words, self._registers))
            if answered:
                connection.answer(value)


def serve_process(made: socket.socket, process: int, new_driver: Callable[[], Driver], parent: int) -> Driver | None:
    """Serve a process from its first connection until it has ended; returns what has worked for it. parent: a pidfd; if
    that process ends first, it takes the served one with it, and nothing is returned."""
    listener, name = listen()
    ended = os.pidfd_open(process)
    driver = new_driver()
    driver.address_of = _address
    served = ServedProcess(driver)
    signal.signal(signal.SIGINT, lambda *_: served.interrupt())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # not before: a process that has just begun would end
    # The hello of the first connection is answered with where the others go.
    made.sendall(name.encode().ljust(NAME_BYTES, b"\0"))
    _in_thread(served, made)
    watched = select.poll()
    for each in (listener, ended, parent):
        watched.register(each, select.POLLIN)
    while True:
        ready = {which for which, _ in watched.poll()}
        if listener.fileno() in ready:
            found = accept(listener)
            if found is not None:
                _in_thread(served, found[0])
        if ended in ready:
            return driver
        if parent in ready:
            signal.pidfd_send_signal(ended, signal.SIGKILL)
            return None


def _address(symbol: str) -> int:
    """Return where a function of the libraries lies in the process that this thread works for."""
    process = caller()
    assert isinstance(process, Connection)
    return process.symbol(symbol)


def _in_thread(served: ServedProcess, made: socket.socket) -> None:
    threading.Thread(target=served.serve, args=(made,), daemon=True).start()
