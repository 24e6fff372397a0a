"""Progress on standard error for runs that take longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_S = 2.0
"""A run shorter than this shows nothing."""
COMPILING = "gpusim: compiling the simulator core (once)"


@contextmanager
def show_progress(wanted: bool | None) -> Iterator[Callable[[int, int, int], None] | None]:
    """A callback for `gpusim.simulate(progress=...)`, or None where nothing is to be shown.

    wanted: True always, False never, None if standard error is a terminal.
    """
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield None
        return
    bar = _Bar()
    try:
        yield bar
    finally:
        bar.stop()


def announce_compilation() -> None:
    """Say that the simulator's core has to be compiled first, which takes a minute or so and happens once."""
    from gpusim.engine.warm import core_is_cached

    if not core_is_cached():
        print(COMPILING, file=sys.stderr, flush=True)


@contextmanager
def show_points(wanted: bool | None) -> Iterator[Callable[[int, int, int], None] | None]:
    """A callback for `gpusim.explore.run(progress=...)`, or None where nothing is to be shown."""
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield None
        return
    bar = _Points()
    try:
        yield bar
    finally:
        bar.stop()


class _Points:
    """A bar of finished points with the time that is left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("sweeping"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("points{task.fields[failed]}, time left"),
            TimeRemainingColumn(),
        )
        # The last minute's speed: points of one program often stand together.
        self.progress = Progress(
            *columns, console=Console(stderr=True), transient=True, speed_estimate_period=60.0
        )
        self.task = self.progress.add_task("sweeping", total=None, failed="")
        self.progress.start()
        self.started = False

    def __call__(self, done: int, failed: int, total: int) -> None:
        if not self.started:  # what the journal had was not run now, and says nothing about the speed
            self.started = True
            self.progress.reset(self.task, total=total, completed=done)
        self.progress.update(
            self.task, completed=done, total=total, failed=f", {failed:,} failed" if failed else ""
        )

    def stop(self) -> None:
        self.progress.stop()


class _Bar:
    """A bar of finished blocks that appears after `PATIENCE_S`."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.progress: Any = None
        self.task: Any = None

    def __call__(self, cycles: int, finished: int, blocks: int) -> None:
        if self.progress is None:
            if time.monotonic() - self.started < PATIENCE_S:
                return
            self._start(blocks)
        self.progress.update(self.task, completed=finished, total=blocks, cycles=f"{cycles:,}")

    def _start(self, blocks: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("simulating"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("blocks, cycle {task.fields[cycles]},"),
            TimeElapsedColumn(),
        )
        self.progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.progress.add_task("simulating", total=blocks, cycles="0")
        self.progress.start()

    def stop(self) -> None:
        if self.progress is not None:
            self.progress.stop()
