"""A comparison of many points: on all cores, from where an earlier run stopped, with progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from gpusim.config import load_config
from validate import baseline, pool, score
from validate.journal import Journal
from validate.pool import Task
from validate.progress import Progress

_POINT_WORK = 300_000.0
"""What a point costs before its first instruction (inputs, reference, launch), in warp instructions."""


def compare(
    tasks: Sequence[Task],
    *,
    journal: Path | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    head: Callable[[], None] = lambda: None,
    say: Callable[[Task, score.Row], None] = lambda task, row: None,
) -> list[score.Row]:
    """The row of every task, in their order.

    `head` is called once all is well and the work begins, `say` with each row, in the same order, as soon as it can be.

    journal: file of rows; what it holds is not done again, and every new row is in it at once. A process that died says
    nothing about its point, so that is not written down. jobs: processes, one per core by default.

    Raises JournalError, and gpusim.errors.ConfigError for a configuration that does not hold together.
    """
    for gpu, overrides in dict.fromkeys((task.gpu, task.overrides) for task in tasks):
        load_config(gpu, overrides)
    found: dict[Task, score.Row] = {}
    said = 0

    def show() -> None:
        nonlocal said
        while said < len(tasks) and tasks[said] in found:
            say(tasks[said], found[tasks[said]])
            said += 1

    with ExitStack() as stack:
        book = stack.enter_context(Journal(journal)) if journal else None
        for task in tasks:
            row = book.find(task) if book else None
            if row is not None:
                found[task] = row
        left = [task for task in dict.fromkeys(tasks) if task not in found]
        head()
        progress = Progress(len(left), sum(map(_work, left)))
        show()
        for task, row in pool.run(left, jobs or pool.cores(), threads):
            found[task] = row
            if book and not isinstance(row, pool.ProcessDied):
                book.add(task, row)
            progress.clear()
            show()
            progress.done(_work(task))
        progress.clear()
    return [found[task] for task in tasks]


def _work(task: Task) -> float:
    """About how much there is to do at a point, in warp instructions."""
    try:
        return _POINT_WORK + baseline.measured(task.point, task.baseline_of)["smsp__inst_executed.sum"]
    except (LookupError, ValueError):
        return _POINT_WORK
