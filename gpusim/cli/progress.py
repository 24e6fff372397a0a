"""Progress on standard error for what takes longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Self

from gpusim.units import scaled

Progress = Callable[[int, int, int], None]
LaunchProgress = Callable[[int, int, int, int], None]
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
def show_progress(wanted: bool | None, per_block: Callable[[], float] = float) -> Iterator[LaunchProgress | None]:
    """A callback for `gpusim.simulate(progress=...)`, or None where nothing is to be shown.

    wanted: True always, False never, None if standard error is a terminal. per_block: about how many instructions a
    block issues, 0 if that is not known; asked once, when there is something to show.
    """
    with LaunchBar(per_block) as bar:
        yield bar.instructions if _is_shown(wanted) else None


@contextmanager
def show_points(wanted: bool | None, of: str = "points") -> Iterator[Progress | None]:
    """The same for `gpusim.explore.sweep(progress=...)`. of: what is counted."""
    with Bar(of) as bar:
        yield bar.points if _is_shown(wanted) else None


def _is_shown(wanted: bool | None) -> bool:
    return wanted or (wanted is None and sys.stderr.isatty())


class Bar:
    """A bar of what is finished, with the time that is left; a context manager."""

    def __init__(self, of: str) -> None:
        self.of = of
        self.progress: Any = None
        self._task: Any = None

    def points(self, done: int, failed: int, total: int) -> None:
        self._show(done, total, f", {failed:,} failed" if failed else "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress is not None:
            self.progress.stop()

    def _show(self, done: float, total: float | None, note: str) -> None:
        if self.progress is None:
            self._start(done, total)
        self.progress.update(self._task, completed=done, total=total, note=note)

    def _columns(self) -> tuple[Any, ...]:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

        note = TextColumn(self.of + "{task.fields[note]}, time left")
        return BarColumn(), MofNCompleteColumn(), note, TimeRemainingColumn()

    def _start(self, done: float, total: float | None) -> None:
        from rich.console import Console
        from rich.progress import Progress

        # The last minute's speed: points of one program often stand together. What a journal had says nothing about it.
        self.progress = Progress(
            *self._columns(), console=Console(stderr=True), transient=True, speed_estimate_period=60.0
        )
        self._task = self.progress.add_task(self.of, total=total, completed=done, note="")
        self.progress.start()


class LaunchBar(Bar):
    """Instructions of a launch, how many there are a second, and the time that is left; after `PATIENCE_S`."""

    def __init__(self, per_block: Callable[[], float]) -> None:
        super().__init__("instructions")
        self.started = time.monotonic()
        self._ask, self._per_block = per_block, 0.0
        self._first: tuple[float, int] | None = None

    def instructions(self, cycles: int, finished: int, blocks: int, issued: int) -> None:
        now = time.monotonic()
        if self._first is None or issued < self._first[1]:  # of a sampled run, another part begins
            self._first = now, issued
        if self.progress is None:
            if now - self.started < PATIENCE_S or issued == self._first[1]:
                return
            self._per_block = self._ask()
        total = self._per_block * blocks
        if total < issued:  # not known, or wrong: what the blocks that have ended say
            total = issued * blocks / finished if finished else 0.0
        rate = (issued - self._first[1]) / max(now - self._first[0], 1e-3)
        self._show(issued, total or None, launch_text(issued, total, rate, cycles, finished, blocks))

    def _columns(self) -> tuple[Any, ...]:
        from rich.progress import BarColumn, TextColumn

        return BarColumn(bar_width=20), TextColumn("{task.fields[note]}")


# many parameters: what there is to say
def launch_text(issued: int, total: float, rate: float, cycles: int, finished: int, blocks: int) -> str:
    """What stands beside the bar. total: instructions of the launch, 0 if that is not known; rate: in a second."""
    left = "time left unknown until a block ends"
    if total and rate:
        left = f"{timedelta(seconds=round((total - issued) / rate))} left"
    of = f" of {scaled(total)}" if total else ""
    return (
        f"{scaled(issued)}{of}instructions, {scaled(rate)}/s, {left}; cycle {cycles:,}, "
        f"{finished:,} of {blocks:,} blocks done"
    )
