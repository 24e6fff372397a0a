"""Progress on standard error for what takes longer than two seconds."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from gpusim.units import counted, scaled

Progress = Callable[[int, int, int], None]
LaunchProgress = Callable[[int, int, int, int], None]
PATIENCE_S = 2.0
"""Seconds that a launch or a compilation runs before its progress is shown."""
_EVERY_S = 5.0
_LONG_S = 30.0
"""Seconds after which a launch that shows no progress is named once."""
CORE_FUNCTIONS = 500
"""About how many functions the first timed launch compiles."""


def announce_compilation(stop: Callable[[], None] = lambda: None) -> None:
    """From now on say how far this process is when it compiles the simulator's core. stop: raises what is to end it."""
    from gpusim.engine.state import code_cache

    count, due, of = 0, math.inf, ""

    def compiles(what: str) -> None:
        nonlocal count, due, of
        if count == 0:
            from gpusim.engine.warm import core_is_cached

            of = "" if core_is_cached() else f" of about {CORE_FUNCTIONS}"
            say_compiling()
            due = time.monotonic() + PATIENCE_S
        count += 1
        if time.monotonic() > due:
            due = time.monotonic() + _EVERY_S
            print(f"gpusim: {count:,}{of} functions, now {what}", file=sys.stderr, flush=True)

    code_cache.watchers[:] = [lambda _: stop(), compiles]


def say_compiling() -> None:
    """Print that the simulator core is being compiled, by this process or by a worker."""
    print("gpusim: compiling the simulator core (once)", file=sys.stderr, flush=True)


@contextmanager
def show_progress(wanted: bool | None, per_block: Callable[[], float] = float) -> Iterator[LaunchProgress | None]:
    """A callback for `gpusim.simulate(progress=...)`, or None where nothing is to be shown.

    wanted: True always, False never, None if standard error is a terminal; elsewhere one line for a long launch.
    per_block: about how many instructions a block issues, 0 if that is not known; asked once, when there is
    something to show.
    """
    with Bar() as bar:
        began, due, expected = time.monotonic(), 0.0, math.nan

        def once(cycles: int, finished: int, blocks: int, issued: int) -> None:
            nonlocal due
            due = due or time.monotonic() + _LONG_S  # from its first instructions on, behind what had to be compiled
            if time.monotonic() > due:
                due = math.inf
                text = launch_text(issued, 0.0, cycles, finished, blocks)
                ways = "--progress shows how far, --max-cycles ends it"
                print(f"gpusim: still running: {text} ({ways})", file=sys.stderr, flush=True)

        def instructions(cycles: int, finished: int, blocks: int, issued: int) -> None:
            nonlocal expected
            if not bar.shown and time.monotonic() - began < PATIENCE_S:
                return
            expected = per_block() if math.isnan(expected) else expected
            total = expected * blocks
            if total < issued:  # not known, or wrong: what the blocks that have ended say
                total = issued * blocks / finished if finished else 0.0
            bar.show(issued, total or None, launch_text(issued, total, cycles, finished, blocks))

        yield instructions if is_shown(wanted) else once if wanted is None else None


@contextmanager
def show_points(wanted: bool | None, of: str = "points") -> Iterator[Progress | None]:
    """A callback for `gpusim.explore.sweep(progress=...)`, or None, as in `show_progress`. of: noun that it counts."""
    with Bar() as bar:

        def points(done: int, failed: int, total: int) -> None:
            bar.show(done, total, f"{done:,} of {total:,} {of}{f', {failed:,} failed' if failed else ''}")

        yield points if is_shown(wanted) else None


def launch_text(issued: int, total: float, cycles: int, finished: int, blocks: int) -> str:
    """Return the text beside the bar of a launch. total: its instructions, 0 if that is not known."""
    of = f" of {scaled(total)}" if total else ""
    return f"{scaled(issued)}{of}instructions; cycle {cycles:,}, {finished:,} of {counted(blocks, 'block')} done"


def is_shown(wanted: bool | None) -> bool:
    """Return whether progress is to be shown, see `show_progress`."""
    return wanted or (wanted is None and sys.stderr.isatty())


class Bar(ExitStack):
    """A bar of what is finished, with a text and the time that is left; a context manager."""

    shown: Any = None

    def show(self, done: float, total: float | None, text: str) -> None:
        """Begin, or move on. total: None if it is not known."""
        if self.shown is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = BarColumn(bar_width=20), TextColumn("{task.description}, time left"), TimeRemainingColumn()
            # The last minute's speed: points of one program often stand together.
            how: dict[str, Any] = {"transient": True, "speed_estimate_period": 60.0}
            self.shown = Progress(*columns, console=Console(stderr=True), **how)
            self.shown.add_task(text, total=total, completed=int(done))
            self.enter_context(self.shown)
        self.shown.update(self.shown.task_ids[0], completed=done, total=total, description=text)
