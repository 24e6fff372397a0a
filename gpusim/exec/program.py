"""Starts a program with our libraries, makes a server for each of its processes that calls CUDA, and waits for them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import re
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import IO, Any

from gpusim.driver.exports import DRIVER, LIBRARIES, NVTX
from gpusim.driver.state import Driver
from gpusim.errors import SimulationError
from gpusim.exec.libraries import library_folder
from gpusim.exec.server import accept, listen, pass_on, serve_processes

ADDRESS = "GPUSIM_EXEC"
"""Environment variable that tells the libraries where to call."""
NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit statuses of a program that cannot be started, as a shell has them."""
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
_READ = (signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_GRACE_SECONDS, _MOST_SECONDS, _LOOK_SECONDS = 2.0, 9.0, 0.02
_SFD_CLOEXEC, _SFD_NONBLOCK, _SIGINFO_BYTES = 0o2000000, 0o4000, 128  # signalfd(2)


@dataclass
class ProgramEnd:
    """The program's exit status, and the outputs of each of its processes that called CUDA, in the order of their first
    calls."""

    status: int
    told: list[Any] = field(default_factory=list)


def environment(address: str) -> dict[str, str]:
    """Return the variables by which the program finds our libraries, and Python our `sitecustomize`. The libraries
    are loaded before all others, since a program may itself name the folder of the vendor's. An empty name in a list of
    folders would be the working directory, and is left out. What hides this machine's GPUs is, too."""
    folder = library_folder()
    changed = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    preload = [str(folder / soname) for soname in LIBRARIES]
    inherit = [str(resources.files("gpusim.driver.inherit"))]
    for name, first in (("LD_PRELOAD", preload), ("LD_LIBRARY_PATH", [str(folder)]), ("PYTHONPATH", inherit)):
        changed[name] = ":".join([*first, *filter(None, re.split("[:;]", os.environ.get(name, "")))])
    # Names of the driver that Numba and Triton would otherwise look for among the machine's.
    changed |= {"NUMBA_CUDA_DRIVER": str(folder / DRIVER), "TRITON_LIBCUDA_PATH": str(folder)}
    return changed | {ADDRESS: address, "NVTX_INJECTION64_PATH": str(folder / NVTX)}


_SOURCES = {".cu": "gpusim nvcc builds a program of it, gpusim run launches a kernel", ".py": "gpusim script runs it"}


def run(
    command: Sequence[str], new_driver: Callable[[int], Driver], tell: Callable[[Driver], Any], shared: bool = False
) -> ProgramEnd:
    """Run a program to its end. new_driver: makes what serves a process, by its number, from 1. tell: what is to be
    told of it when the process has ended, as pickle can carry it. shared: its processes have the same GPUs; else each
    has its own. Raises SimulationError if the libraries cannot be made."""
    listener, address = listen()
    changed = environment(address)
    # A terminal's Ctrl-C and Ctrl-\\ go to the program too, which is in the same group of processes.
    if signal.getsignal(signal.SIGQUIT) != signal.SIG_IGN:  # which the program inherits
        signal.signal(signal.SIGQUIT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, _READ)  # they are read from a file, with their sender
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)  # descendants whose parent ends become children of this process
    try:
        program = subprocess.Popen(list(command), env=changed, preexec_fn=_begin_program)
    except OSError as error:
        known = Path(command[0]).suffix.lower() if Path(command[0]).is_file() else ""
        why = _SOURCES.get(known, "no such file" if isinstance(error, FileNotFoundError) else error.strerror)
        status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        raise ProgramNotStarted(f"cannot run {command[0]}: {why}", status) from None

    servers = _Servers(listener, new_driver, tell, shared, program)
    for number in _PASSED_ON:
        signal.signal(number, servers.end_program)
    import gpusim.device  # noqa: F401 - loaded while the program starts, once for all servers

    status = servers.wait()
    return ProgramEnd(128 - status if status < 0 else status, servers.told())


def _begin_program() -> None:
    """Let the program take interrupts, and end when the process that made it does, however that ends."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _READ)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class ProgramNotStarted(SimulationError):
    """The program could not be started. status: what a shell makes of it."""

    def __init__(self, message: str, status: int):
        self.status = status
        super().__init__(message)


class _Servers:
    """The servers: one for each process that has called or, where they share the GPUs, for all."""

    def __init__(
        self,
        listener: socket.socket,
        new_driver: Callable[[int], Driver],
        tell: Callable[[Driver], Any],
        shared: bool,
        program: subprocess.Popen[bytes],
    ):
        self._program, self._is_to_end = program, False
        self._listener, self._new_driver, self._tell, self._shared = listener, new_driver, tell, shared
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._told: list[IO[bytes]] = []  # a file of each
        # By pidfd: the process, its folder, and where it takes on other processes of the program.
        self._living: dict[int, tuple[int, str | None, socket.socket]] = {}
        self._this_process = os.pidfd_open(os.getpid())
        self._others = _children()  # of the process that runs the program
        # An interrupt that is ignored is so by the program, too, which has inherited that.
        read = [each for each in _READ if signal.getsignal(each) != signal.SIG_IGN]
        signals = (ctypes.c_uint64 * 16)(sum(1 << each - 1 for each in read))  # sigset_t
        self._signals = ctypes.CDLL(None).signalfd(-1, signals, _SFD_CLOEXEC | _SFD_NONBLOCK)
        self._selector.register(self._signals, selectors.EVENT_READ)

    def wait(self) -> int:
        """Serve until the program has ended, and the processes that it leaves behind; of a program that was to end, or
        was killed, they end with it. Returns the program's status."""
        ended = os.pidfd_open(self._program.pid)
        self._selector.register(ended, selectors.EVENT_READ)
        status: int | None = None
        while status is None or self._living:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._begin()
                elif key.fd == self._signals:
                    self._signalled()
                elif key.fd == ended:
                    status = self._program.wait()
                    self._selector.unregister(ended)
                    for *_, more in self._living.values():
                        more.close()
                    if self._is_to_end or status < 0 or 128 < status <= 128 + signal.SIGRTMAX:  # as a shell tells it
                        self._end_orphans()
                else:
                    self._end(key.fd)
        self._selector.unregister(self._listener)
        return status

    def _signalled(self) -> None:
        """Pass a signal on to the servers. An interrupt ends the calls that are under way: a Python program that waits
        in one acts on it when it returns. One that no terminal has sent may be for this process alone, and goes to the
        program too."""
        try:
            number, _, code = struct.unpack_from("<3i", os.read(self._signals, _SIGINFO_BYTES))
        except BlockingIOError:  # another thread of this process has got it
            return
        if number == signal.SIGCHLD:
            for each in self._orphans():
                os.waitpid(each, os.WNOHANG)
            return
        if number == signal.SIGINT:
            self._is_to_end = True
            if self._program.returncode is not None:
                self._end_orphans()
            elif code <= 0:
                self._program.send_signal(number)
        for server, *_ in self._living.values():
            os.kill(server, number)

    def end_program(self, number: int, _: object) -> None:
        """A signal has come that ends the program; or else, if it has ended, what it left behind."""
        self._is_to_end = True
        if self._program.poll() is not None:
            self._end_orphans()
            sys.exit(128 + number)
        self._program.send_signal(number)

    def _orphans(self) -> set[int]:
        """The program's descendants whose parents have ended."""
        living = {server for server, *_ in self._living.values()}
        return _children() - living - self._others - {self._program.pid}

    def _end_orphans(self) -> None:
        """End them, and those that this makes orphans. Each is asked to first, so that it removes what it has made."""
        asked: dict[int, float] = {}
        since = time.monotonic()
        while (orphans := self._orphans()) and (now := time.monotonic()) < since + _MOST_SECONDS:
            for each in orphans:
                if os.waitpid(each, os.WNOHANG)[0]:
                    asked.pop(each, None)
                elif each not in asked:
                    asked[each] = now
                    os.kill(each, signal.SIGTERM)
                elif now > asked[each] + _GRACE_SECONDS:
                    os.kill(each, signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)

    def told(self) -> list[Any]:
        """Return what the servers had to tell."""
        return [pickle.load(each) for each in self._told if each.seek(0, os.SEEK_END) and not each.seek(0)]

    def _begin(self) -> None:
        """Make a server for a process that calls for the first time."""
        found = accept(self._listener)
        if found is None:
            return
        made, process = found
        if self._shared:
            for *_, more in self._living.values():
                with contextlib.suppress(OSError):  # it is about to end
                    pass_on(made, process, more)
                    made.close()
                    return
        told = os.fdopen(os.memfd_create("gpusim told"), "w+b")
        temporary = None
        with contextlib.suppress(OSError):  # where there is no place for files, who needs one says so
            temporary = tempfile.mkdtemp(prefix="gpusim-exec-")
        sys.stdout.flush()
        more, theirs = socket.socketpair()
        server = os.fork()
        if server == 0:
            try:
                os.setpgid(0, 0)  # with the tools that it runs, which end with it
                for number in _PASSED_ON:
                    signal.signal(number, signal.SIG_DFL)
                for each in (self._listener, more):
                    each.close()
                tempfile.tempdir = temporary
                driver = self._new_driver(len(self._told) + 1)
                if serve_processes(made, process, driver, self._this_process, theirs):
                    pickle.dump(self._tell(driver), told)
                    told.flush()
            except (SimulationError, OSError) as error:
                print(f"gpusim: error: {error}", file=sys.stderr)
            except Exception:
                traceback.print_exc()
            finally:
                _remove(temporary)
                sys.stdout.flush()
                sys.stderr.flush()
                os.killpg(os.getpid(), signal.SIGKILL)
        for each in (made, theirs) if self._shared else (made, theirs, more):
            each.close()
        self._told.append(told)
        ended = os.pidfd_open(server)
        self._living[ended] = server, temporary, more
        self._selector.register(ended, selectors.EVENT_READ)

    def _end(self, ended: int) -> None:
        """A server has ended."""
        server, temporary, more = self._living.pop(ended)
        more.close()
        self._selector.unregister(ended)
        os.close(ended)
        number = os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])
        if number != -signal.SIGKILL or (temporary is not None and Path(temporary).exists()):  # not by itself
            why = "as when the host has no memory left for that of devices"
            print(f"gpusim: error: signal {-number} has ended the simulator's process, {why}", file=sys.stderr)
        _remove(temporary)


def _children() -> set[int]:
    return {int(each) for task in Path("/proc/self/task").glob("*/children") for each in task.read_text().split()}


def _remove(folder: str | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
