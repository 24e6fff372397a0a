"""Time passes where a call of the program waits: one event of the simulation happens after the other, and between two
the functions of the host begin whose turn has come, while other threads have the driver's lock. While the program calls
nothing, a thread lets time pass. Several processes take turns, see `processes`.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol

import simpy

from gpusim.device import Device
from gpusim.driver.caller import Caller, Gone, caller, serving, undisturbed
from gpusim.driver.codes import DriverError, ResultCode, say
from gpusim.driver.objects import Context, DriverGpu
from gpusim.driver.outputs.log import LaunchLog
from gpusim.driver.work.launches import CopyCall, Observer
from gpusim.driver.work.processes import Quiet, SharedTime, processor_ns, told_of
from gpusim.engine.streams import StreamQueue
from gpusim.node import Node
from gpusim.node.streams import StreamSet
from gpusim.node.work import JointWork, Meeting

PATIENCE_SECONDS = 1.0
"""Host time that the simulation waits for a function of the host; one that takes longer may wait for the program."""
ABSENT_SECONDS = 9.0
"""Host time without a sign of a rank after which it is missed."""
_LOOK_SECONDS, _QUIET_LOOKS, _COMPUTES_LOOKS = 0.1, 3, 50
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
    serving: dict[int, bool]
    node: Node
    time: SharedTime
    devices: list[Device]
    is_shared: bool

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
    """The simulated time of one process's streams. All is done with the driver's lock held. waiting: conditions that
    its calls wait for; quiet: whether it does nothing."""

    def __init__(self, driver: QueueOwner):
        self._driver, self._set = driver, driver.devices[0].streams
        self.env, self._shared = self._set.env, driver.time
        self._home = caller().process
        self._shared.members[self._home] = self
        self.waiting: list[Callable[[], bool]] = []  # by calls
        self.number = driver.thread.ident[0]
        self.quiet = Quiet(self.number, lambda: driver.calls)
        self._processor_ns = processor_ns(self.number)  # when a call began or ended
        self._due: list[tuple[Callable[[], object], simpy.Event]] = []
        self._called: list[tuple[Future[object], simpy.Event]] = []
        self._thread: threading.Thread | None = None
        self._standby: Callable[[], Caller] | None = None
        self._contexts: list[Context] = []  # for finalizers, which may run where nothing calls

    @property
    def _sets(self) -> list[StreamSet]:
        return [each.streams for each in self._driver.devices]

    def computed(self, counts: bool) -> None:
        """Look at the processor time of its process: where it counts, the host clock goes on by what came since."""
        before, self._processor_ns = self._processor_ns, processor_ns(self.number)
        if counts:
            self._shared.host.computed(self._home, self._set.units(max(self._processor_ns - before, 0) / 1000))

    def listens(self) -> bool:
        """Return whether no call of its process is on its way, but for such as wait."""
        return all(
            self.waiting if answers else "unix_stream" in told_of("self", thread, "wchan")
            for thread, answers in self._driver.serving.copy().items()
        )

    def acts(self) -> float:
        """Time from which on its process may do something without another's help, infinite if that waits."""
        if self.waiting:
            return math.inf if all(pending() for pending in self.waiting) else float(self.env.now)
        return math.inf if not any(self._driver.serving.values()) and self.quiet else self._shared.host.of(self._home)

    def at_home(self, effect: Callable[..., object]) -> Callable[..., object]:
        """An effect that reaches the memory of this process, whichever lets it happen."""
        if not self._driver.is_shared:
            return effect
        standby = caller().standby()

        def happens(*what: object) -> None:
            if caller().process is self._home:
                effect(*what)
                return
            with suppress(Gone, TimeoutError), serving(standby()) as process:
                effect(*what)
                process.read([])  # what was written is there now

        return happens

    @property
    @abstractmethod
    def busy(self) -> bool:
        """True if any stream has work left."""

    @property
    @abstractmethod
    def calls_host(self) -> bool:
        """True if a stream has a function of the host to call."""

    @abstractmethod
    def mains(self) -> Iterable[StreamQueue]:
        """Queues of its default streams."""

    def run_until(self, done: simpy.Event) -> None:
        """Wait until something happens, or is dropped."""
        dropped = self._shared.dropped
        if not done.processed:
            self.run_while(lambda: not done.processed and dropped == self._shared.dropped)
            self._shared.host.waited(self._home, float(self.env.now))
            for each in self._driver.observers:
                each.waited(self._home, done)

    def run_while(
        self, pending: Callable[[], bool], absent: Callable[[], str] = str, patience: float = ABSENT_SECONDS
    ) -> None:
        """Wait as long as this is so. absent: says whom it waits for beside streams. Raises UNKNOWN if it would for
        ever: when no process of the program has done anything for `patience` seconds of the host, at once if none can.
        """
        since = math.inf
        with self._shared.waiting(self, pending):
            while pending():
                if self._go_on():
                    since = math.inf
                    continue
                met = self._met()
                lost = "; ".join({each.lost: None for each in met if each.lost})
                who = lost or absent() or "; ".join({each.absent(): None for each in met})
                since = min(since, time.monotonic())
                alone = not who and len(self._shared.members) == 1
                if lost or alone or time.monotonic() > since + patience:
                    self.drop()
                    raise DriverError(ResultCode.UNKNOWN, who or "streams wait for what never happens")
                self._shared.let_in(self)  # another thread of the program may still call
                if self._shared.comes_first(self) < math.inf:
                    since = math.inf

    def _met(self) -> list[Meeting]:
        """Meetings that streams wait for, and none waits for anything else."""
        works = (queue.pending[0] for each in self._sets for queue in each.queues if queue.pending)
        met = [meeting for work in works if isinstance(work, JointWork) for meeting in work.meetings]
        return [each for each in met if not each.begins.triggered]

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
                if self.env.peek() > self._shared.comes_first(self):
                    self._shared.let_in(self)
                else:
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
        if self._shared.failed is not None:
            self._shared.failed.drop()

    def _serve_host(self) -> None:
        """Begin the functions of the host whose turn has come, and let streams go on whose function has returned."""
        for member in self._shared.members.values():
            member.call_due()

    def call_due(self) -> None:
        """Begin the functions of the host whose turn has come, of this process."""
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
        """Take out all work of all streams. Another process whose work that was cannot go on."""
        others = [each for each in self._shared.members.values() if each is not self and (each.busy or each.waiting)]
        self._shared.dropped += 1
        self._shared.failed = None
        for streams in self._sets:
            streams.engine.drop()
        for member in self._shared.members.values():
            member.forget_work()
        for other in others:
            other.fail()
        if others:
            lost = ", ".join(str(other.number) for other in others)
            say(f"GPU work of process {self.number} could not go on, so that of process {lost} is lost, too")

    def forget_work(self) -> None:
        """All work was taken out."""
        self._due.clear()
        self._called.clear()

    def fail(self) -> None:
        """The contexts of this process cannot be used any more."""
        for each in self._driver.contexts():
            each.failed = each.failed or ResultCode.UNKNOWN

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
                if apart := self._set.timed and self._driver.is_shared:
                    self.quiet.look()
                enough = _COMPUTES_LOOKS if apart and not self.calls_host else _QUIET_LOOKS
                if quiet >= enough and (not apart or self.quiet):
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
                self.run_while(
                    lambda: self._calls() == calls and time.monotonic() < end and self.busy and self._wakes()
                )
            except KeyboardInterrupt:
                self._driver.interrupted = True  # of the call that has come meanwhile
            process.read([])  # what was written is there now
