"""The simulator's side of one process of the program: a driver of its own, a thread for each of the process's threads.

It is a fork of the process that started the program, so it has everything loaded, and device memory lies at the same
addresses for every program. It lives until the process it serves has ended.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import selectors
import signal
import socket
import struct
import threading
from typing import Any

from gpusim.driver.caller import Gone, caller, serving
from gpusim.driver.registry import answer
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import HOST_THREAD
from gpusim.exec import wire
from gpusim.exec.libraries import functions
from gpusim.exec.wire import CallingProcess, Connection, read_hello

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
        registers = wire.REGISTERS[platform.machine()]
        self._registers, self._words = registers, registers + wire.STACK_WORDS
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
        if what == wire.ORDERS:
            self._calls_functions.add(thread)
            self._process.asked.pop(0).set_result(connection)
            return
        if thread in self._calls_functions:
            threading.current_thread().name = HOST_THREAD
        state = vars(self.driver.thread)
        state |= (self._states.get(thread, {}) if what == wire.CALLS_AGAIN else {}) | {"ident": ident}
        self._states[thread] = state
        with serving(connection), contextlib.suppress(Gone):
            self._answer_all(connection, threading.get_native_id())
        del self.driver.serving[threading.get_native_id()]

    def interrupt(self) -> None:
        """Let the call that is under way fail, in a program whose own reaction to an interrupt waits for its end."""
        if self._is_python:
            self.driver.interrupt()

    def _answer_all(self, connection: Connection, thread: int) -> None:
        driver = self.driver
        driver.serving[thread] = False
        for number, words, answered in connection.calls():
            if number == wire.GOOD_BYE:
                try:
                    driver.finish()
                finally:  # whatever has become of its work, the process ends
                    connection.answer(0)
                continue
            point = self._points[number]
            if self._is_python is None and answered:
                self._is_python = connection.symbol("PyErr_CheckSignals") != 0
            driver.serving[thread] = True
            try:
                value = answer(driver, point, point.arguments(words, self._registers))
                if answered:
                    connection.answer(value)
            finally:
                driver.serving[thread] = False


def serve_processes(made: socket.socket, process: int, driver: Driver, parent: int, more: socket.socket) -> bool:
    """Serve processes until all have ended and no more can come. made, process: the first one's first connection, and
    its number; more: gives those of others, as `pass_on` sends them. parent: a pidfd; if that process ends first, it
    takes the served ones with it. Returns whether they have ended by themselves."""
    served = _ServedProcesses(driver, parent, more)
    signal.signal(signal.SIGINT, lambda *_: served.interrupt())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGCHLD])  # before, a new process would end
    served.begin(made, process, driver)
    return served.serve()


def pass_on(made: socket.socket, process: int, to: socket.socket) -> None:
    """Give a process's first connection to the server of others."""
    socket.send_fds(to, [process.to_bytes(4, "little")], [made.fileno()])


class _ServedProcesses:
    """The processes of a server, by the pidfd that tells their end."""

    def __init__(self, driver: Driver, parent: int, more: socket.socket):
        self._first, self._parent, self._more = driver, parent, more
        driver.address_of = _address
        self._served: dict[int, tuple[ServedProcess, socket.socket]] = {}
        self._watched = selectors.DefaultSelector()
        for each in (parent, more):
            self._watched.register(each, selectors.EVENT_READ)

    def begin(self, made: socket.socket, process: int, driver: Driver) -> None:
        """Serve another process. The hello of its first connection is answered with where the others go."""
        listener, name = listen()
        ended, served = os.pidfd_open(process), ServedProcess(driver)
        self._served[ended] = served, listener
        self._watched.register(ended, selectors.EVENT_READ)
        self._watched.register(listener, selectors.EVENT_READ, (served, listener))
        made.sendall(name.encode().ljust(wire.NAME_BYTES, b"\0"))
        _in_thread(served, made)

    def interrupt(self) -> None:
        """Let calls that are under way fail."""
        for served, _ in self._served.values():
            served.interrupt()

    def serve(self) -> bool:
        """Serve them to their end."""
        can_come = True
        while self._served or can_come:
            for key, _ in self._watched.select():
                if key.fileobj is self._more:
                    can_come = self._take_on()
                elif key.fd == self._parent:
                    for ended in self._served:
                        signal.pidfd_send_signal(ended, signal.SIGKILL)
                    return False
                elif key.data is not None:
                    served, listener = key.data
                    if (found := accept(listener)) is not None:
                        _in_thread(served, found[0])
                else:
                    self._end(key.fd)
        return True

    def _take_on(self) -> bool:
        """Begin to serve a process that is passed on. False if no more can come."""
        number, files, *_ = socket.recv_fds(self._more, 4, 1)
        if not files:
            self._watched.unregister(self._more)
            return False
        with contextlib.suppress(OSError):  # it has ended meanwhile
            self.begin(socket.socket(fileno=files[0]), int.from_bytes(number, "little"), self._first.beside())
        return True

    def _end(self, ended: int) -> None:
        """A process has ended."""
        served, listener = self._served.pop(ended)
        for each in (ended, listener):
            self._watched.unregister(each)
        listener.close()
        os.close(ended)
        served.driver.end()


def _address(symbol: str) -> int:
    """Return where a function of the libraries lies in the process that this thread works for."""
    process = caller()
    assert isinstance(process, Connection)
    return process.symbol(symbol)


def _in_thread(served: ServedProcess, made: socket.socket) -> None:
    threading.Thread(target=served.serve, args=(made,), daemon=True).start()
