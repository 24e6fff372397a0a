"""Time passes where a call of the program waits: one event of the simulation happens after the other, and between two
the functions of the host begin whose turn has come, while other threads have the driver's lock. While the program calls
nothing, a thread lets time pass.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from typing import Any, Protocol

import simpy

from gpusim.device import Device
from gpusim.driver.caller import Caller, Gone, serving, undisturbed
from gpusim.driver.codes import DriverError, ResultCode
from gpusim.driver.objects import Context, DriverGpu
from gpusim.driver.outputs.log import LaunchLog
from gpusim.driver.work.launches import CopyCall, Observer
from gpusim.node import Node
from gpusim.node.streams import StreamSet
from gpusim.node.work import JointWork

PATIENCE_SECONDS = 1.0
"""Host time that the simulation waits for a function of the host; one that takes longer may wait for the program."""
_LOOK_SECONDS, _QUIET_LOOKS, _ABSENT_LOOKS = 0.1, 3, 90
_SLICE_SECONDS, _BETWEEN_SECONDS = 0.05, 0.002


class QueueOwner(Protocol):
    """A driver, as far as its streams know it. lock: held whenever they do something."""

    lock: Any
    log: LaunchLog
    observers: list[Observer]
    max_cycles: int | None
    interrupted: bool
    calls: int
    callers: list[None]
    node: Node

    @property
    def thread(self) -> Any: ...
    def contexts(self) -> Iterable[Context]: ...
    def simulated(self, gpu: DriverGpu) -> Device: ...
    def fail_if_failed(self) -> None: ...
    def stop_if_interrupted(self) -> None: ...
    def call_on_host_thread(self, call: Callable[..., object], *arguments: int) -> Future[object]: ...
    def copied(self, copy: CopyCall, began: int) -> None: ...
    def unlocked(self) -> AbstractContextManager[None]: ...


class PassingTime(ABC):
    """The simulated time of a driver's streams. All is done with the driver's lock held."""

    def __init__(self, driver: QueueOwner, streams: StreamSet):
        self._driver, self._set, self._sets = driver, streams, [streams]
        self.env = streams.env
        streams.waits = self.run_until
        self._due: list[tuple[Callable[[], object], simpy.Event]] = []
        self._called: list[tuple[Future[object], simpy.Event]] = []
        self._dropped, self._failed = 0, False
        self._thread: threading.Thread | None = None
        self._standby: Callable[[], Caller] | None = None
        self._contexts: list[Context] = []  # for finalizers, which may run where nothing calls

    def add_gpu(self, device: Device) -> None:
        """Let the streams of another GPU, which shares the clock, be waited for as well."""
        self._sets.append(device.streams)
        device.streams.waits = self.run_until

    @property
    @abstractmethod
    def busy(self) -> bool:
        """True if any stream has work left."""

    def run_until(self, done: simpy.Event) -> None:
        """Wait until something happens, or is dropped."""
        dropped = self._dropped
        self._run(lambda: not done.processed and dropped == self._dropped)

    def _run(self, pending: Callable[[], bool]) -> None:
        looks = 0
        while pending():
            if self._go_on():
                looks = 0
                continue
            absent = self._absent()
            if looks == _ABSENT_LOOKS or not absent:
                self.drop()
                raise DriverError(ResultCode.UNKNOWN, absent or "streams wait for what never happens")
            looks += 1  # another thread of the program may still call
            with self._driver.unlocked():
                time.sleep(_LOOK_SECONDS)
        self._set.host.time = max(self._set.host.time, float(self.env.now))

    def _absent(self) -> str:
        """Say who does not come to a meeting that streams wait for, and none waits for anything else."""
        works = (queue.pending[0] for each in self._sets for queue in each.queues if queue.pending)
        met = [meeting for work in works if isinstance(work, JointWork) for meeting in work.meetings]
        return "; ".join(dict.fromkeys(each.absent() for each in met if not each.begins.triggered))

    def _wakes(self) -> bool:
        """Return whether anything will happen if the program calls nothing."""
        return self.env.peek() < math.inf or bool(self._due or self._called)

    def settle(self) -> None:
        """Let everything happen that waits for nothing of the program."""
        self._serve_host()
        while self.env.peek() < math.inf:
            self._go_on()
            self._serve_host()

    def _go_on(self, until: float = math.inf) -> bool:
        """Let something happen. False if nothing does by then, and there is no end of a function to be waited for. What
        it raises, an interrupt or a failure, leaves streams without work; so does a launch that fails."""
        self._serve_host()
        try:
            self._driver.stop_if_interrupted()
            if self.env.peek() <= until and self.env.peek() < math.inf:
                self._step()
                return True
        except BaseException:
            self.drop()
            raise
        if until < math.inf or not self._called:
            return False
        self._let_others_in([future for future, _ in self._called], _LOOK_SECONDS)
        return True

    def _step(self) -> None:
        """Let the next event happen."""
        self.env.step()
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
        with self._driver.unlocked():
            wait(futures, seconds, FIRST_COMPLETED)

    def drop(self) -> None:
        """Take out all work of all streams."""
        self._dropped += 1
        self._failed = False
        for each in self._sets:
            each.engine.drop()
        self._due.clear()
        self._called.clear()

    # --- while the program calls nothing ------------------------------------------------------------------------------

    def watch(self, standby: Callable[[], Caller]) -> None:
        """Let a thread do the work of streams while the program calls nothing: it may wait for a function that a stream
        is to call, or look at memory. standby: gives what reaches the program's memory meanwhile."""
        self._contexts, self._standby = list(self._driver.thread.contexts), standby
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="gpusim idle", daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        """It counts looks without a call, not seconds, so that a busy machine, which holds up this thread as well as
        the program, changes little."""
        try:
            seen, quiet = (-1, 0), 0
            self._driver.thread.contexts[:] = self._contexts  # Python may call finalizers anywhere in this thread
            while self._is_watched():
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

    def _calls(self) -> tuple[int, int]:
        """Return how often somebody has called or returned, and how many have not returned."""
        return self._driver.calls, len(self._driver.callers)

    def _is_watched(self) -> bool:
        """Return whether there is work. Whoever adds some has the lock, and sees that this thread is there or gone."""
        with self._driver.lock:
            if not self.busy:
                self._thread = None
            return self.busy

    def _slice(self, calls: tuple[int, int]) -> None:
        """Let time pass, until a call comes or somebody else should have the lock."""
        assert self._standby is not None
        with serving(self._standby()) as process, self._driver.lock, undisturbed:
            self._driver.thread.contexts[:] = self._contexts
            end = time.monotonic() + _SLICE_SECONDS
            try:
                self._run(lambda: self._calls() == calls and time.monotonic() < end and self.busy and self._wakes())
            except KeyboardInterrupt:
                self._driver.interrupted = True  # of the call that has come meanwhile
            process.read([])  # what was written is there now
