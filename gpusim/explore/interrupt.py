"""Ctrl-C that cannot be lost: it sets a flag, which every row, every window of a simulation and every pool looks at.

Python raises KeyboardInterrupt wherever the interpreter happens to be. Where that is a callback of a weak reference, a
finaliser or an executor, it prints the exception and drops it, and a sweep of days goes on as if nothing had been said.
A second Ctrl-C ends the process at once, as it would end any.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Signal:
    """The one SIGINT of this process. active: it is caught. pressed: it has come."""

    active = False
    pressed = False


def interrupted() -> bool:
    """Return whether Ctrl-C was pressed since `interruptible` began."""
    return _Signal.pressed


def stop_if_interrupted() -> None:
    """Raise the KeyboardInterrupt that is due."""
    if _Signal.pressed:
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """While this lasts, an interrupt is raised by `stop_if_interrupted` and at the end, and nowhere else.

    Only in the main thread, and not where interrupts are ignored; within another one it changes nothing.
    """
    usual = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if _Signal.active or not in_main or usual in (None, signal.SIG_IGN):
        yield
        return
    _Signal.active, _Signal.pressed = True, False
    signal.signal(signal.SIGINT, _press)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        pressed = _Signal.pressed
        _Signal.active = _Signal.pressed = False
    if pressed:
        raise KeyboardInterrupt


def _press(number: int, frame: FrameType | None) -> None:
    _Signal.pressed = True
    signal.signal(signal.SIGINT, signal.SIG_DFL)
