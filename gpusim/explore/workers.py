"""Processes that call a function for many tasks, and are replaced when a task ends one of them."""

from __future__ import annotations

import json
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gpusim.errors import SimulationError
from gpusim.explore.interrupt import stop_if_interrupted

GRACE_S = 5.0
"""A task that has not noticed by itself that its time is over gets so much more before its process is ended."""
_TICK_S = 0.25


class WorkerFailed(SimulationError):
    """Worker processes do not start on this machine."""


@dataclass(frozen=True)
class Ended:
    """Instead of what a function returns: its process ended. how: in words; seconds: since it was given the task."""

    how: str
    seconds: float


class Pool:
    """Calls functions in `workers` processes. announce: called once if the simulator's core is compiled first."""

    def __init__(self, workers: int, announce: Callable[[], None] | None = None) -> None:
        self._count, self._announce = workers, announce
        self._processes: set[_Process] = set()
        self._heard: queue.SimpleQueue[tuple[_Process, str, Any]] = queue.SimpleQueue()

    def run(
        self, function: Callable[[Any], Any], tasks: Sequence[Any], limit_s: float | None = None
    ) -> Iterator[tuple[Any, Any]]:
        """Each task with what the function returns for it as it is finished, or with an `Ended`.

        function: of one task, to be found by name in a new process. limit_s: seconds that one task may take; the
        function should see to that itself, this is for what does not.

        Raises WorkerFailed if no process can be started, and KeyboardInterrupt as `interruptible` has it.
        """
        waiting, busy = deque(tasks), dict[_Process, Any]()
        self._fill(len(waiting))
        try:
            while waiting or busy:
                for process in self._processes - busy.keys():
                    if process.ready and waiting:
                        busy[process] = waiting.popleft()
                        process.give(function, busy[process], limit_s)
                process, what, value = self._hear()
                if what == "compiling" and self._announce is not None:
                    announce, self._announce = self._announce, None
                    announce()
                elif what == "ready":
                    process.ready = True
                elif what == "result" and process in busy:
                    yield busy.pop(process), value
                elif what == "ended" and process in self._processes:
                    self._processes.remove(process)
                    ending = process.ending()
                    if not process.ready:
                        raise WorkerFailed("a worker process ended before it was ready; what it said stands above")
                    self._fill(len(waiting) + len(busy) - (process in busy))
                    if process in busy:
                        yield busy.pop(process), ending
        finally:
            for process in busy:  # nobody waits for what they do
                self._processes.discard(process)
                process.end()

    def _fill(self, wanted: int) -> None:
        while len(self._processes) < min(self._count, wanted):
            self._processes.add(_Process(self._heard))

    def _hear(self) -> tuple[_Process, str, Any]:
        """What a process says next."""
        while True:
            stop_if_interrupted()
            for process in self._processes:
                process.end_if_late()
            with suppress(queue.Empty):
                return self._heard.get(timeout=_TICK_S)

    def stop(self) -> None:
        """End what is running, from another thread: each task comes back as an `Ended`."""
        for process in list(self._processes):
            process.kill()

    def close(self) -> None:
        """End all processes at once."""
        for process in self._processes:
            process.end()
        self._processes.clear()


class _Process:
    """One process. A thread of its own hears what it says; all else is for the pool's thread."""

    def __init__(self, heard: queue.SimpleQueue[tuple[_Process, str, Any]]) -> None:
        # It finds modules where this process does. A session of its own: a keyboard's interrupt is for the pool alone.
        code = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from gpusim.explore.worker import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self.ready = False
        self._started = 0.0
        self._limit_s: float | None = None
        self._late = False
        threading.Thread(target=self._listen, args=(heard,), daemon=True).start()

    def _listen(self, heard: queue.SimpleQueue[tuple[_Process, str, Any]]) -> None:
        assert self._process.stdout is not None
        with suppress(EOFError, OSError, pickle.UnpicklingError), self._process.stdout as said:
            while True:
                heard.put((self, *pickle.load(said)))
        heard.put((self, "ended", None))

    def give(self, function: Callable[[Any], Any], task: Any, limit_s: float | None) -> None:
        """Hand it a task."""
        assert self._process.stdin is not None
        self._started, self._limit_s = time.monotonic(), limit_s
        data = pickle.dumps((function, task))
        with suppress(OSError):  # it has ended meanwhile, and will be heard of
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def end_if_late(self) -> None:
        """End the process if its task takes too long."""
        if self._limit_s is not None and time.monotonic() > self._started + self._limit_s + GRACE_S:
            self._late = True
            self.kill()

    def kill(self) -> None:
        """Have it end; it is heard of when it has."""
        self._process.kill()

    def ending(self) -> Ended:
        """How the process ended."""
        code = self._process.wait()
        self.end()
        how = f"the worker process ended by itself, with exit code {code}"
        if self._late:
            how = f"not finished after {self._limit_s:g} s, nor {GRACE_S:g} s later"
        elif code < 0:
            name = signal.Signals(-code).name
            guess = ", perhaps for want of memory" if name == "SIGKILL" else ""
            how = f"the worker process was ended by {name}{guess}"
        return Ended(how, time.monotonic() - self._started)

    def end(self) -> None:
        """End the process, whatever it does."""
        self.kill()
        with suppress(OSError):  # what could not be written
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process.wait()
