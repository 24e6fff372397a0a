"""Lets the work of streams go on while a program calls nothing: it may wait for a function that a stream is to call, or
look at memory."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from gpusim.driver.caller import Caller, Gone, serving, undisturbed

_LOOK_SECONDS, _QUIET_LOOKS = 0.1, 3
_SLICE_SECONDS, _BETWEEN_SECONDS = 0.05, 0.002


class IdleProgress:
    """A thread that is there as long as streams have work. It counts looks without a call, not seconds, so that a busy
    machine, which holds up this thread as well as the program, changes little.

    calls: how often somebody has called or returned, and how many have not returned. lock: the driver's. busy: whether
    streams have work. run_while: lets time pass as long as what it gets is true.
    """

    def __init__(
        self,
        calls: Callable[[], tuple[int, int]],
        lock: Any,
        busy: Callable[[], bool],
        run_while: Callable[[Callable[[], bool]], None],
    ):
        self._calls, self._lock, self._busy, self._run_while = calls, lock, busy, run_while
        self._thread: threading.Thread | None = None
        self._standby: Callable[[], Caller] | None = None

    def watch(self, standby: Callable[[], Caller]) -> None:
        """Streams have work. standby: gives what reaches the program's memory while it calls nothing."""
        self._standby = standby
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gpusim idle", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            seen, quiet = (-1, 0), 0
            self._run_while(lambda: False)  # the thread gets contexts, as Python may call finalizers anywhere in it
            while self._is_wanted():
                time.sleep(_LOOK_SECONDS if quiet < _QUIET_LOOKS else _BETWEEN_SECONDS)
                calls = self._calls()
                quiet = quiet + 1 if calls == seen and not calls[1] else 0
                seen = calls
                if quiet >= _QUIET_LOOKS:
                    self._slice(seen)
        except (Gone, TimeoutError):
            pass
        except Exception:
            traceback.print_exc()

    def _is_wanted(self) -> bool:
        """Whether there is work. Whoever adds some has the lock, and sees that this thread is there or gone."""
        with self._lock:
            if not self._busy():
                self._thread = None
            return self._busy()

    def _slice(self, calls: tuple[int, int]) -> None:
        """Let time pass, until a call comes or somebody else should have the lock."""
        assert self._standby is not None
        with serving(self._standby()) as process, self._lock, undisturbed:
            end = time.monotonic() + _SLICE_SECONDS
            self._run_while(lambda: self._calls() == calls and time.monotonic() < end)
            process.read([])  # what was written is there now
