"""Progress on standard error for runs that take longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_S = 2.0
"""A run shorter than this shows nothing."""


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
        print("gpusim: compiling the simulator core (once)", file=sys.stderr, flush=True)


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
