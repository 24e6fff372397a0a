"""Time passes where a call of the program waits: one event of the simulation happens after the other, and between two
the functions of the host begin whose turn has come, while other threads have the driver's lock.
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import Any, Protocol

import simpy

from gpusim.driver.codes import ResultCode, fail_if, say
from gpusim.driver.objects import Context
from gpusim.driver.outputs.log import LaunchLog
from gpusim.driver.work.idle import IdleProgress
from gpusim.driver.work.launches import Observer
from gpusim.driver.work.stream_works import LookWork
from gpusim.driver.work.streams import HOST_THREAD
from gpusim.node.streams import StreamSet

PATIENCE_SECONDS = 1.0
"""So long the simulation stands still for a function of the host. One that takes longer may wait for the program."""
_LOOK_SECONDS = 0.1
PATIENT_LOOKS = 50
"""So often a call that waits looks at a word for which a stream waits, while nothing else is to be done."""


class QueueOwner(Protocol):
    """A driver, as far as its streams know it. lock: held whenever they do something."""

    lock: Any
    log: LaunchLog
    observers: list[Observer]
    max_cycles: int | None
    interrupted: bool
    calls: int
    callers: list[None]

    @property
    def thread(self) -> Any: ...
    def contexts(self) -> Iterable[Context]: ...
    def fail_if_failed(self) -> None: ...
    def stop_if_interrupted(self, *progress: int) -> None: ...
    def call_on_host_thread(self, call: Callable[..., object], *arguments: int) -> Future[object]: ...
    def copied(self, kind: str, target: int, source: int, nbytes: int, stream: int, began: int) -> None: ...


class PassingTime(ABC):
    """The simulated time of a driver's streams. All is done with the driver's lock held."""

    def __init__(self, driver: QueueOwner, streams: StreamSet):
        self._driver, self._set = driver, streams
        self._engine, self._env = streams.engine, streams.env
        self._set.waits = self.run_until
        self._due: list[tuple[Callable[[], object], simpy.Event]] = []
        self._called: list[tuple[Future[object], simpy.Event]] = []
        self._words: list[LookWork] = []
        self._looks = 0
        self._dropped, self._failed = 0, False
        self._idle = IdleProgress(self._calls, driver.lock, lambda: self.busy, self.run_while)
        self._contexts: list[Context] = []  # for finalizers, which may run where nothing calls

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether any stream has work left."""

    def _calls(self) -> tuple[int, int]:
        return self._driver.calls, len(self._driver.callers)

    def _fail_if_called(self) -> None:
        if threading.current_thread().name.startswith(HOST_THREAD):
            fail_if(self.busy, ResultCode.NOT_PERMITTED, "a function that a stream calls must not call CUDA")

    def run_until(self, done: simpy.Event) -> None:
        """Wait until something happens, or is dropped."""
        dropped = self._dropped
        self._run(lambda: not done.processed and dropped == self._dropped)

    def run_while(self, wanted: Callable[[], bool]) -> None:
        """Let time pass as long as that is wanted, and there is something to do, in a thread that calls nothing."""
        self._driver.thread.contexts[:] = self._contexts
        self._looks = 0
        try:
            self._run(lambda: wanted() and self.busy)
        except KeyboardInterrupt:
            self._driver.interrupted = True  # of the call that has come meanwhile

    def _run(self, pending: Callable[[], bool]) -> None:
        while pending():
            if not self._go_on():
                words, self._looks = self._words.copy(), 0
                self.drop()
                for each in words:
                    say(f"a stream waits for {each.what}, which nothing changes")
                fail_if(words, ResultCode.NOT_SUPPORTED)
                raise RuntimeError("streams wait for what never happens")
        self._set.host.time = max(self._set.host.time, float(self._env.now))

    def settle(self) -> None:
        """Let everything happen that waits for nothing of the program."""
        self._serve_host()
        while self._env.peek() < math.inf:
            self._go_on()
            self._serve_host()

    def _go_on(self, until: float = math.inf) -> bool:
        """Let something happen. False if nothing does by then, and there is no end of a function to be waited for, nor
        a word at which it is too early to give up. What it raises, an interrupt or a failure, leaves streams without
        work; so does a launch that fails."""
        self._serve_host()
        for each in [each for each in self._words if each.holds()]:
            self._words.remove(each)
            each.found.succeed()
        try:
            self._driver.stop_if_interrupted()
            if self._env.peek() <= until and self._env.peek() < math.inf:
                self._looks = 0
                self._step()
                return True
        except BaseException:
            self.drop()
            raise
        if until < math.inf or not (self._called or self._words):
            return False
        self._let_others_in([future for future, _ in self._called], _LOOK_SECONDS)
        self._looks = 0 if self._called else self._looks + 1
        return self._looks < PATIENT_LOOKS

    def _step(self) -> None:
        """Let the next event happen."""
        self._env.step()
        if self._failed:
            self.drop()

    def _serve_host(self) -> None:
        """Begin the functions of the host whose turn has come, and let streams go on whose function has returned."""
        while self._due:
            function, returned = self._due.pop(0)
            future = self._driver.call_on_host_thread(function)
            self._called.append((future, returned))
            self._let_others_in([future], PATIENCE_SECONDS if self._set.timed else 0.0)
        for each in [each for each in self._called if each[0].done()]:
            self._called.remove(each)
            each[1].succeed()

    def _let_others_in(self, futures: list[Future[object]], seconds: float) -> None:
        with self._unlocked():
            wait(futures, seconds, FIRST_COMPLETED) if futures else time.sleep(seconds)

    @contextmanager
    def _unlocked(self) -> Iterator[None]:
        self._driver.lock.release()
        try:
            yield
        finally:
            self._driver.lock.acquire()

    def drop(self) -> None:
        """Take out all work of all streams."""
        self._dropped += 1
        self._failed = False
        self._engine.drop()
        self._due.clear()
        self._called.clear()
        self._words.clear()
