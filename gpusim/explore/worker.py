"""A process of `workers.Pool`: it reads calls and writes what they return, through its standard input and output.

It ends when nobody is left to read what it writes, also in the middle of a call.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from gpusim.explore.evaluate import evaluate
from gpusim.explore.lock import lock
from gpusim.explore.point import Point


def main() -> None:
    """Serve calls until there is nobody to write to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that waits
    reader, writer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What kernels print goes nowhere: standard output is the way to the pool, and the pool's own in any case.
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    prepare(writer)
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(reader, calls), daemon=True).start()
    while True:
        function, task = calls.get()
        _say(writer, ("result", function(task)))


def prepare(writer: IO[bytes]) -> None:
    """Load the simulator's core, so that the first call does not wait; of several processes only one compiles it."""
    from gpusim.engine.warm import core_is_cached

    if core_is_cached():
        _warm()
    else:
        _say(writer, ("compiling", None))
        with _one_at_a_time():
            _warm()
    _say(writer, ("ready", None))


def _warm() -> None:
    evaluate(Point("vector_add", "tiny", parameters={"size": 64}), bound=False)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    from gpusim.engine.state.code_cache import core_folder

    folder = core_folder()
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def _listen(reader: IO[bytes], calls: queue.SimpleQueue[Any]) -> None:
    """Take in what comes, also during a call: its end is the end of the pool, and so of this process."""
    code = 0
    try:
        while True:
            calls.put(pickle.load(reader))
    except EOFError:
        pass
    except BaseException:  # a function or a task that this process cannot load
        traceback.print_exc()
        code = 1
    finally:
        os._exit(code)


def _say(writer: IO[bytes], value: tuple[str, Any]) -> None:
    """Write one message; with nobody to read it, end."""
    data = pickle.dumps(value)
    try:
        writer.write(data)
        writer.flush()
    except OSError:
        os._exit(0)
