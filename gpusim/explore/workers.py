"""Worker processes that evaluate points, and are replaced when a point ends one of them."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import IO, Any

from gpusim.errors import SimulationError
from gpusim.explore.evaluate import empty_row
from gpusim.explore.point import Point

GRACE_S = 5.0
"""A point that has not noticed by itself that its time is over gets so much more before its worker is ended."""
_TICK_S = 0.25


class WorkerFailed(SimulationError):
    """Worker processes do not start on this machine."""


class Worker:
    """A process behind a pair of streams. `evaluate` and `ending` are for one thread, `kill` for any."""

    def __init__(self, reader: IO[str], writer: IO[str], end: Callable[[], None], code: Callable[[], int]) -> None:
        self._reader, self._writer, self._end, self._code = reader, writer, end, code
        self._lock = threading.Lock()
        self._deadline: float | None = None
        self.late = False

    def evaluate(self, point: Point, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """The point's row; None if the process has ended before it was finished."""
        limit = options.get("timeout_s")
        with self._lock:
            self._deadline = None if limit is None else time.monotonic() + limit + GRACE_S
        try:
            self._writer.write(json.dumps({"point": point.to_dict(), "options": options}) + "\n")
            self._writer.flush()
            line = self._reader.readline()
        except OSError:
            line = ""
        with self._lock:
            self._deadline = None
        return json.loads(line) if line.endswith("\n") else None

    def kill_if_late(self) -> None:
        """End the process if its point takes too long."""
        with self._lock:
            if self._deadline is not None and time.monotonic() > self._deadline:
                self.late, self._deadline = True, None
                self._end()

    def kill(self) -> None:
        """End the process."""
        self._end()

    def ending(self) -> str:
        """How the process ended, for a row."""
        code = self._code()
        if code < 0:
            name = signal.Signals(-code).name
            guess = ", perhaps for want of memory" if name == "SIGKILL" else ""
            return f"the worker process was ended by {name}{guess}"
        return f"the worker process ended by itself, with exit code {code}"

    def close(self) -> None:
        """Let the process end."""
        for stream in (self._writer, self._reader):
            with suppress(OSError):
                stream.close()


class Pool:
    """Evaluates points in `workers` processes. announce: called once if the simulator's core is compiled first."""

    def __init__(self, workers: int, announce: Callable[[], None] | None = None) -> None:
        self._count, self._announce = workers, announce
        self._workers: set[Worker] = set()
        self._idle: list[Worker] = []
        self._threads: list[threading.Thread] = []
        self._stopped = False
        self._source: _Nursery | _Processes = (_Nursery if hasattr(os, "fork") else _Processes)(self._heard)

    def rows(self, points: Sequence[Point], options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Each point's row as it is finished. Raises WorkerFailed if no worker can be started."""
        tasks: queue.SimpleQueue[Point] = queue.SimpleQueue()
        results: queue.SimpleQueue[dict[str, Any] | BaseException] = queue.SimpleQueue()
        for point in points:
            tasks.put(point)
        for _ in range(min(self._count, len(points))):
            self._threads.append(threading.Thread(target=self._drive, args=(tasks, results, options), daemon=True))
            self._threads[-1].start()
        for _ in points:
            yield self._next(results)

    def _next(self, results: queue.SimpleQueue[dict[str, Any] | BaseException]) -> dict[str, Any]:
        while True:
            try:
                result = results.get(timeout=_TICK_S)
            except queue.Empty:
                for worker in list(self._workers):
                    worker.kill_if_late()
                continue
            if isinstance(result, BaseException):
                raise result
            return result

    def _drive(
        self,
        tasks: queue.SimpleQueue[Point],
        results: queue.SimpleQueue[dict[str, Any] | BaseException],
        options: Mapping[str, Any],
    ) -> None:
        """One worker's thread: hand it points until there are none, with a new process after one has ended."""
        worker = None
        try:
            while not self._stopped:
                try:
                    point = tasks.get_nowait()
                except queue.Empty:
                    break
                worker = worker or self._worker()
                started = time.perf_counter()
                row = worker.evaluate(point, options)
                if row is None and self._stopped:
                    break
                if row is None or worker.late:  # late: it answered in the moment in which it was ended
                    ending = worker.ending()
                    self._workers.discard(worker)
                    worker.close()
                    row = row or _failed(point, options, worker, ending, time.perf_counter() - started)
                    worker = None
                results.put(row)
        except BaseException as error:
            results.put(error)
        finally:
            if worker is not None:
                self._idle.append(worker)

    def _worker(self) -> Worker:
        try:
            return self._idle.pop()
        except IndexError:
            worker = self._source.start()
            self._workers.add(worker)
            return worker

    def _heard(self, stream: IO[str]) -> None:
        """Waits until a process says that it is ready."""
        while line := stream.readline():
            if json.loads(line)["state"] == "ready":
                return
            if self._announce is not None:
                announce, self._announce = self._announce, None
                announce()
        raise WorkerFailed("a worker process ended before it was ready; what it said stands above")

    def close(self) -> None:
        """End all processes at once."""
        self._stopped = True
        for worker in list(self._workers):
            worker.kill()
        self._source.close()
        for thread in self._threads:
            thread.join(5)
        for worker in list(self._workers):
            worker.close()


def _failed(
    point: Point, options: Mapping[str, Any], worker: Worker, ending: str, seconds: float
) -> dict[str, Any]:
    """The row of a point that ended its worker."""
    if worker.late:
        ending = f"not finished after {options['timeout_s']:g} s, nor {GRACE_S:g} s later"
    return empty_row(point, options.get("metrics", ())) | {"seconds": round(seconds, 6), "error": ending}


def _command(*words: str) -> list[str]:
    """The command of a worker process, which finds modules where this process does."""
    code = "import sys, json; sys.path[:] = json.loads(sys.argv.pop()); from gpusim.explore.worker import main; main()"
    return [sys.executable, "-P", "-c", code, *words, json.dumps(sys.path)]


class _Nursery:
    """One process that has loaded the simulator and forks the workers."""

    def __init__(self, heard: Callable[[IO[str]], None]) -> None:
        self._heard, self._lock, self._ready = heard, threading.Lock(), False
        self._control, theirs = socket.socketpair()
        self._answers = self._control.makefile("r")
        # A session of its own: an interrupt from the keyboard is for the sweep alone.
        command = _command("nursery", str(theirs.fileno()))
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True
        )
        theirs.close()

    def start(self) -> Worker:
        with self._lock:
            if not self._ready:
                self._heard(self._answers)
                self._ready = True
            ours, theirs = socket.socketpair()
            socket.send_fds(self._control, [b"fork"], [theirs.fileno()])
            theirs.close()
            number = self._answer()["worker"]
        reader, writer = ours.makefile("r"), ours.makefile("w")
        ours.close()  # the streams keep it open
        return Worker(reader, writer, partial(os.kill, number, signal.SIGKILL), partial(self._code, number))

    def _code(self, number: int) -> int:
        with self._lock:
            self._control.sendall(f"wait {number}".encode())
            return int(self._answer()["code"])

    def _answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            raise WorkerFailed("the process that starts the workers has ended")
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class _Processes:
    """A process of its own for every worker."""

    def __init__(self, heard: Callable[[IO[str]], None]) -> None:
        self._heard = heard
        self._started: list[subprocess.Popen[str]] = []

    def start(self) -> Worker:
        process = subprocess.Popen(
            _command("pipe"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self._started.append(process)
        assert process.stdin is not None and process.stdout is not None
        self._heard(process.stdout)
        return Worker(process.stdout, process.stdin, process.kill, process.wait)

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
