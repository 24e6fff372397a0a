"""Starts a program with our libraries, makes a server for each of its processes that calls CUDA, and waits for them."""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gpusim.driver.exports import LIBRARIES
from gpusim.driver.state import Driver
from gpusim.errors import SimulationError
from gpusim.exec.libraries import library_folder
from gpusim.exec.server import accept, end_with_parent, listen, serve_process

ADDRESS = "GPUSIM_EXEC"
"""Environment variable that tells the libraries where to call."""
NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit statuses of a program that cannot be started, as a shell has them."""


@dataclass
class ProgramEnd:
    """How the program ended, and what each of its processes that called CUDA has to tell, in the order of their first
    calls."""

    status: int
    told: list[Any] = field(default_factory=list)


def environment(address: str) -> dict[str, str]:
    """What the program finds our libraries by. They are loaded before all others: a program may name the folder of the
    vendor's in itself."""
    folder = library_folder()
    changed = dict(os.environ)
    preload = [str(folder / soname) for soname in LIBRARIES]
    for name, first in (("LD_PRELOAD", preload), ("LD_LIBRARY_PATH", [str(folder)])):
        changed[name] = os.pathsep.join([*first, *filter(None, [os.environ.get(name)])])
    return changed | {ADDRESS: address}


def run(command: Sequence[str], new_driver: Callable[[int], Driver], tell: Callable[[Driver], Any]) -> ProgramEnd:
    """Run a program to its end. new_driver: makes what serves a process, by its number, from 1. tell: what is to be
    told of it when the process has ended, as pickle can carry it. Raises SimulationError if the libraries cannot be
    made."""
    listener, address = listen()
    try:
        program = subprocess.Popen(list(command), env=environment(address), preexec_fn=end_with_parent)
    except FileNotFoundError:
        raise ProgramNotStarted(f"cannot run {command[0]}: no such file", NOT_FOUND) from None
    except OSError as error:
        raise ProgramNotStarted(f"cannot run {command[0]}: {error.strerror}", NOT_EXECUTABLE) from None
    import gpusim.device  # noqa: F401 - loaded while the program starts, once for all servers

    # Ctrl-C is meant for the program, which is in the same group of processes; so are the others.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: program.send_signal(got))
    servers = _Servers(listener, new_driver, tell)
    status = servers.wait_for(program)
    return ProgramEnd(128 - status if status < 0 else status, servers.told())


class ProgramNotStarted(SimulationError):
    """The program could not be started. status: what a shell makes of it."""

    def __init__(self, message: str, status: int):
        self.status = status
        super().__init__(message)


class _Servers:
    """The servers, one for each process that has called."""

    def __init__(self, listener: socket.socket, new_driver: Callable[[int], Driver], tell: Callable[[Driver], Any]):
        self._listener, self._new_driver, self._tell = listener, new_driver, tell
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._told: list[bytearray] = []
        self._living: dict[int, tuple[int, bytearray]] = {}  # by file that it tells through

    def wait_for(self, program: subprocess.Popen[bytes]) -> int:
        """Serve until the program has ended, and the processes that it leaves behind; a program that is killed takes
        them with it. Returns the program's status."""
        ended = os.pidfd_open(program.pid)
        self._selector.register(ended, selectors.EVENT_READ)
        status: int | None = None
        while status is None or self._living:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._begin()
                elif key.fd == ended:
                    status = program.wait()
                    self._selector.unregister(ended)
                else:
                    self._hear(key.fd)
        self._selector.unregister(self._listener)
        return status

    def told(self) -> list[Any]:
        """What the servers had to tell."""
        return [pickle.loads(each) for each in self._told if each]

    def _begin(self) -> None:
        """Make a server for a process that calls for the first time."""
        found = accept(self._listener)
        if found is None:
            return
        made, process = found
        there, here = os.pipe()
        sys.stdout.flush()
        server = os.fork()
        if server == 0:
            status = 1
            try:
                end_with_parent()
                os.close(there)
                self._listener.close()
                driver = serve_process(made, process, partial(self._new_driver, len(self._told) + 1))
                with open(here, "wb") as tells:
                    pickle.dump(self._tell(driver), tells)
                status = 0
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        made.close()
        os.close(here)
        said = bytearray()
        self._told.append(said)
        self._living[there] = server, said
        self._selector.register(there, selectors.EVENT_READ)

    def _hear(self, there: int) -> None:
        server, said = self._living[there]
        with contextlib.suppress(OSError):
            data = os.read(there, 1 << 20)
            said += data
            if data:
                return
        self._selector.unregister(there)
        os.close(there)
        del self._living[there]
        os.waitpid(server, 0)


def is_program(path: str) -> bool:
    """Whether a file is an executable of this system."""
    return Path(path).is_file() and os.access(path, os.X_OK)
