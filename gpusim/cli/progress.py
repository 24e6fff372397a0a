"""Progress on standard error for what takes longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int, int, int], None]
PATIENCE_S = 2.0
"""What is shorter than this shows nothing."""
_EVERY_S = 5.0


def announce_compilation() -> None:
    """From now on say how far it has come when this process compiles parts of the simulator's core."""
    from gpusim.engine.state import code_cache

    code_cache.watchers[:] = [_Compilation().compiles]


class _Compilation:
    """A line when it begins, and one every few seconds."""

    def __init__(self) -> None:
        self._count = 0
        self._due = 0.0

    def compiles(self, what: str) -> None:
        if self._count == 0:
            say_compiling()
            self._due = time.monotonic() + PATIENCE_S
        self._count += 1
        if time.monotonic() > self._due:
            self._due = time.monotonic() + _EVERY_S
            print(f"gpusim: {self._count:,} functions, now {what}", file=sys.stderr, flush=True)


def say_compiling() -> None:
    """The same where somebody else has found out."""
    print("gpusim: compiling the simulator core (once)", file=sys.stderr, flush=True)


@contextmanager
def show_progress(wanted: bool | None) -> Iterator[Progress | None]:
    """A callback for `gpusim.simulate(progress=...)`, or None where nothing is to be shown.

    wanted: True always, False never, None if standard error is a terminal.
    """
    with _shown(wanted, "blocks") as bar:
        yield bar.blocks if bar else None


@contextmanager
def show_points(wanted: bool | None, of: str = "points") -> Iterator[Progress | None]:
    """The same for `gpusim.explore.run(progress=...)`. of: what is counted."""
    with _shown(wanted, of) as bar:
        yield bar.points if bar else None


@contextmanager
def _shown(wanted: bool | None, of: str) -> Iterator[Bar | None]:
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield None
        return
    bar = Bar(of)
    try:
        yield bar
    finally:
        if bar.progress is not None:
            bar.progress.stop()


class Bar:
    """A bar of what is finished that appears after `PATIENCE_S`, with the time that is left."""

    def __init__(self, of: str) -> None:
        self.of = of
        self.started = time.monotonic()
        self.progress: Any = None
        self._task: Any = None

    def blocks(self, cycles: int, finished: int, blocks: int) -> None:
        self._show(finished, blocks, f", cycle {cycles:,}")

    def points(self, done: int, failed: int, total: int) -> None:
        self._show(done, total, f", {failed:,} failed" if failed else "")

    def _show(self, done: int, total: int, note: str) -> None:
        if self.progress is None:
            if self.of == "blocks" and time.monotonic() - self.started < PATIENCE_S:
                return
            self._start(done, total)
        self.progress.update(self._task, completed=done, total=total, note=note)

    def _start(self, done: int, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        note = TextColumn(self.of + "{task.fields[note]}, time left")
        # The last minute's speed: points of one program often stand together. What a journal had says nothing about it.
        self.progress = Progress(
            BarColumn(), MofNCompleteColumn(), note, TimeRemainingColumn(),
            console=Console(stderr=True), transient=True, speed_estimate_period=60.0,
        )  # fmt: skip
        self._task = self.progress.add_task(self.of, total=total, completed=done, note="")
        self.progress.start()


