"""Points of a comparison on all cores at once, each in a process of its own.

Most points are small: they end before a second host thread of the engine has helped. So the cores are given points, not
parts of points. A process that dies (killed, out of memory) costs the point it was at, and another takes its place.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

import gpusim
from gpusim.engine.warm import core_is_cached
from validate import replay, score
from validate.points import ProgramPoint


@dataclass(frozen=True)
class Task:
    """A point to be simulated with a configuration and compared with a GPU's baseline."""

    point: ProgramPoint
    gpu: str = "h200"
    baseline_of: str = "h200"
    overrides: tuple[str, ...] = ()


class ProcessDied(replay.Failure):
    """The process that simulated the point ended without an answer. That says nothing about the point."""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compile_engine() -> None:
    """Compile the simulator once, if it has not been: several processes would do it several times."""
    if not core_is_cached():
        gpusim.simulate(_nothing, 1, 1, (), gpu="tiny")


def run(tasks: Sequence[Task], jobs: int = 1, threads: int | None = None) -> Iterator[score.Row]:
    """The row of every task, as they are done.

    jobs: processes; with one, tasks are done here and in order. threads: of each simulation; None shares the cores
    out among the processes.
    """
    jobs = min(jobs, len(tasks))
    if jobs <= 1:
        yield from (_row(task, threads) for task in tasks)
        return
    compile_engine()
    yield from _spread(list(tasks), jobs, threads or max(1, cores() // jobs))


def _spread(left: list[Task], jobs: int, threads: int) -> Iterator[score.Row]:
    workers: dict[Connection, tuple[Any, Task]] = {}
    try:
        while left or workers:
            while left and len(workers) < jobs:
                _give(*_start(threads), left.pop(0), workers)
            for connection in _ready(workers):
                process, task = workers.pop(connection)
                try:
                    row = connection.recv()
                except (EOFError, OSError):
                    process.join()
                    yield ProcessDied(task.point, f"its process ended with status {process.exitcode}")
                    continue
                yield row
                if left:
                    _give(connection, process, left.pop(0), workers)
                else:
                    connection.close()
    finally:
        for process, _ in workers.values():
            process.terminate()


def _ready(workers: dict[Connection, tuple[Any, Task]]) -> list[Connection]:
    """The connections that have an answer, or have ended."""
    ready = set(wait(list(workers)))
    return [connection for connection in workers if connection in ready]


def _give(connection: Connection, process: Any, task: Task, workers: dict[Connection, tuple[Any, Task]]) -> None:
    workers[connection] = (process, task)
    # A process that has died meanwhile answers with the end of its connection.
    with suppress(OSError):
        connection.send(task)


def _start(threads: int) -> tuple[Connection, Any]:
    # spawn: a forked copy of a process with threads may hang, and would keep the other workers' connections open.
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, threads), daemon=True)
    process.start()
    there.close()
    return here, process


def _serve(connection: Connection, threads: int) -> None:
    """A worker: tasks in, rows out, until the other end is closed, if only because that process was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the keyboard's interrupt is for the process that waits
    while True:
        try:
            task = connection.recv()
            connection.send(_row(task, threads))
        except (EOFError, OSError):
            return


def _row(task: Task, threads: int | None) -> score.Row:
    (row,) = replay.compare(
        [task.point], gpu=task.gpu, baseline_of=task.baseline_of, overrides=task.overrides, threads=threads
    )
    return row


def _nothing() -> None:
    """A kernel without work."""
    return
