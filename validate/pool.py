"""Points of a comparison on all cores at once, each in a process of its own.

Most points are small: they end before a second host thread of the engine has helped. So the cores are given points, not
parts of points, in the processes of a sweep (`gpusim.explore.workers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from gpusim.explore.interrupt import interruptible
from gpusim.explore.workers import Ended, Workers
from gpusim.host.options import host_threads
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


def run(tasks: Sequence[Task], jobs: int = 1, threads: int | None = None) -> Iterator[score.Row]:
    """The row of every task, as they are done.

    jobs: processes; with one, tasks are done here and in order. threads: of each simulation; None shares the cores
    out among the processes.
    """
    jobs = min(jobs, len(tasks))
    if jobs <= 1:
        yield from (_row(task, threads) for task in tasks)
        return
    each = partial(_row, threads=threads or max(1, host_threads(None) // jobs))
    with interruptible(), closing(Workers(jobs)) as pool:
        for task, row in pool.run(each, tasks):
            yield ProcessDied(task.point, row.how) if isinstance(row, Ended) else row


def _row(task: Task, threads: int | None) -> score.Row:
    (row,) = replay.compare(
        [task.point], gpu=task.gpu, baseline_of=task.baseline_of, overrides=task.overrides, threads=threads
    )
    return row
