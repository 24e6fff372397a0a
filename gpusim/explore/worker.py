"""A process that evaluates points for `pool`: it reads points and writes rows, one line of JSON each.

Two ways to be one. Where the system can fork, a first process loads the simulator's core once and is the nursery: it
forks a worker for every socket that it is sent, in milliseconds. Elsewhere every worker is a process of its own that
talks through its standard input and output. Either way a worker ends when nobody is left to read what it writes.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import signal
import socket
import sys
import threading
from contextlib import contextmanager
from typing import IO, Any

from gpusim.explore.evaluate import evaluate
from gpusim.explore.lock import lock
from gpusim.explore.point import Point


def main() -> None:
    """The process that `pool` starts: `nursery FILE_DESCRIPTOR`, or `pipe`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the sweep's to handle
    if sys.argv[1] == "nursery":
        control = socket.socket(fileno=int(sys.argv[2]))
        _silence()
        _prepare(control.makefile("w"))
        _nurse(control)
        return
    reader, writer = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    _silence()
    _prepare(writer)
    _serve(reader, writer)


def _silence() -> None:
    """What kernels print goes nowhere: standard output may be the way to the pool, and is the sweep's in any case."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)


def _prepare(writer: IO[str]) -> None:
    """Load the core, so that the first point does not wait for it; of several processes only one compiles it."""
    from gpusim.engine.warm import core_is_cached

    if core_is_cached():
        _warm()
    else:
        _say(writer, {"state": "compiling"})
        with _one_at_a_time():
            _warm()
    _say(writer, {"state": "ready"})


def _warm() -> None:
    evaluate(Point("vector_add", "tiny", parameters={"size": 64}), bound=False)


@contextmanager
def _one_at_a_time():
    from gpusim.engine.state.jit import core_folder

    folder = core_folder()
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def _nurse(control: socket.socket) -> None:
    """Serve requests: with a socket, fork a worker on it and tell its number; "wait N", tell how worker N ended."""
    gc.collect()
    gc.freeze()  # what is loaded stays in memory that all workers share
    while True:
        request, sockets, _, _ = socket.recv_fds(control, 64, 1)
        if not request:
            os._exit(0)
        if sockets:
            number = os.fork()
            if number == 0:
                control.close()
                channel = socket.socket(fileno=sockets[0])
                _serve(channel.makefile("r"), channel.makefile("w"))
                os._exit(0)
            os.close(sockets[0])
            answer = {"worker": number}
        else:
            _, status = os.waitpid(int(request.split()[1]), 0)
            answer = {"code": os.waitstatus_to_exitcode(status)}
        control.sendall(json.dumps(answer).encode() + b"\n")


def _serve(reader: IO[str], writer: IO[str]) -> None:
    """Evaluate one point after the other until there is nobody to write to."""
    tasks: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(reader, tasks), daemon=True).start()
    while True:
        task = json.loads(tasks.get())
        row = evaluate(Point.from_dict(task["point"]), **task["options"])
        _say(writer, row)


def _listen(reader: IO[str], tasks: queue.SimpleQueue[str]) -> None:
    """Take in what comes, also during a run: its end is the end of the sweep, and so of this process."""
    try:
        for line in reader:
            tasks.put(line)
    finally:
        os._exit(0)


def _say(writer: IO[str], value: dict[str, Any]) -> None:
    """Write one line; with nobody to read it, end."""
    try:
        writer.write(json.dumps(value) + "\n")
        writer.flush()
    except OSError:
        os._exit(0)
