"""A function called for many tasks at once: in processes of this machine, or by any `concurrent.futures.Executor`.

The processes are Pebble's: a task that ends its process, or takes too long, costs that task and nothing else, and the
process is replaced. loky, tried beside it, has no limits of time, and one process that dies breaks its whole pool.
Both start in half a second and pass some thousands of small tasks a second.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import context, parent_process
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpusim.errors import SimulationError
from gpusim.explore.interrupt import stop_if_interrupted

if TYPE_CHECKING:
    from pebble import ProcessPool

GRACE_S = 5.0
"""A task that has not noticed by itself that its time is over gets so much more before its process is ended."""
_TICK_S = 0.25
_AHEAD = 256
"""Tasks that an executor, whose size nobody knows, is given at once."""


class WorkerFailed(SimulationError):
    """There is nobody to run tasks: processes do not start, or an executor is broken."""


@dataclass(frozen=True)
class Ended:
    """Stands for what a function would have returned. how: what became of the task; seconds: since it was given."""

    how: str
    seconds: float


class Workers:
    """Calls functions in `count` processes of this machine, or by an executor, which stays open.

    announce: called once if the simulator's core has to be compiled first, which one process does for all.
    """

    def __init__(
        self, count: int = 1, announce: Callable[[], None] | None = None, executor: Executor | None = None
    ) -> None:
        self._count, self._announce, self._executor = count, announce, executor
        self._pool: ProcessPool | None = None
        self._futures: dict[Future[Any], tuple[Any, float]] = {}
        self._stopped = False

    def run(
        self, function: Callable[[Any], Any], tasks: Iterable[Any], limit_s: float | None = None
    ) -> Iterator[tuple[Any, Any]]:
        """Yield each task with what the function returns for it as it is finished, or with an `Ended`.

        function: takes one task; another process finds it by its name. limit_s: seconds that one task may take. The
        function should see to that itself; a process of this machine that does not is ended GRACE_S later.

        Raises WorkerFailed, and KeyboardInterrupt as `interruptible` has it.
        """
        left, under_way, self._stopped = iter(tasks), self._futures, False
        try:
            while True:
                for task in islice(left, (_AHEAD if self._executor else self._count) - len(under_way)):
                    under_way[self._submit(function, task, limit_s)] = task, time.monotonic()
                if not under_way:
                    return
                stop_if_interrupted()
                for future in wait(under_way, _TICK_S, FIRST_COMPLETED).done:
                    task, began = under_way.pop(future)
                    yield task, self._outcome(future, limit_s, time.monotonic() - began)
        finally:
            for future in under_way:  # nobody waits for what they do
                future.cancel()
            under_way.clear()

    def stop(self) -> None:
        """End what is running, from another thread: each task comes back as an `Ended`. Pebble ends their processes."""
        self._stopped = True
        for future in list(self._futures):
            future.cancel()

    def close(self) -> None:
        """End all processes at once, and have an executor forget what it has not begun."""
        for future in self._futures:
            future.cancel()
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()
            self._pool = None

    def _submit(self, function: Callable[[Any], Any], task: Any, limit_s: float | None) -> Future[Any]:
        try:
            if self._executor is not None:
                return self._executor.submit(function, task)
            self._pool = self._pool or self._start()
            timeout = None if limit_s is None else limit_s + GRACE_S
            return self._pool.schedule(function, (task,), timeout=timeout)
        except RuntimeError as error:  # a broken executor, or one that is closed
            raise WorkerFailed(f"tasks cannot be run: {error}") from None

    def _start(self) -> ProcessPool:
        from gpusim.engine.warm import core_is_cached

        if core_is_cached():
            return _processes(self._count)
        if self._announce is not None:
            self._announce()
        self._pool = _processes(1)
        compiled = self._pool.schedule(core_is_cached)
        while not wait([compiled], _TICK_S).done:
            stop_if_interrupted()
        self._outcome(compiled, None, 0.0)
        self.close()
        return _processes(self._count)

    def _outcome(self, future: Future[Any], limit_s: float | None, seconds: float) -> Any:
        """Return the function's result, or how the task ended. Raises WorkerFailed if no other task can run either."""
        from pebble import ProcessExpired

        if future.cancelled():
            if not self._stopped:
                raise WorkerFailed("the executor has dropped what it was given")
            return Ended("stopped: the run was ended", seconds)
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, BrokenExecutor):
            raise WorkerFailed(f"the processes that run tasks are gone or do not start: {error}")
        how = f"{type(error).__name__}: {error}"
        if isinstance(error, ProcessExpired):
            code = int(error.exitcode or 0)
            how = f"the worker process ended by itself, with exit code {code}"
            if code < 0:
                guess = ", perhaps for want of memory" if code == -9 else ""
                how = f"the worker process was ended by {signal.Signals(-code).name}{guess}"
        elif isinstance(error, TimeoutError) and limit_s is not None and self._executor is None:
            how = f"not finished after {limit_s:g} s, nor {GRACE_S:g} s later"
        return Ended(how, seconds)


@contextmanager
def dask_executor(address: str | None) -> Iterator[Executor | None]:
    """Connect to a Dask cluster and yield its executor. address: of its scheduler, such as tcp://host:8786, or its
    scheduler file; None yields None.

    Raises WorkerFailed if Dask is missing, nobody answers, or a worker's gpusim is another version than this one.
    """
    if address is None:
        yield None
        return
    from gpusim.explore.journal import sources_digest

    try:
        from distributed import Client
    except ImportError:
        raise WorkerFailed("--dask needs the package distributed: pip install 'gpusim[explore]'") from None
    where = {"scheduler_file": address} if os.path.exists(address) else {"address": address}
    try:
        client = Client(**where, set_as_default=False)
        client.wait_for_workers(1, timeout=30)
        others = [worker for worker, each in client.run(sources_digest).items() if each != sources_digest()]
    except (OSError, ValueError, ImportError) as error:
        raise WorkerFailed(f"no Dask cluster at {address}: {error}") from None
    try:
        if others:
            raise WorkerFailed(f"the Dask worker {others[0]} has another version of gpusim than this process")
        yield client.get_executor(pure=False)
    finally:
        client.close()


def _processes(count: int) -> ProcessPool:
    from pebble import ProcessPool

    return ProcessPool(count, initializer=_begin, context=_Context())


class _Process(context.SpawnProcess):
    """A spawned process that neither runs the user's script once more nor hears a keyboard's interrupt."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        script, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        masks = hasattr(signal, "pthread_sigmask")
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]) if masks else set()
        try:
            return context.SpawnProcess._Popen(process_obj)  # type: ignore[attr-defined]
        finally:
            sys.modules["__main__"] = script
            if masks:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Context(context.SpawnContext):
    Process = _Process


def _begin() -> None:
    """Prepare a process: it ends with its parent, prints nothing, and has loaded or compiled the simulator's core."""
    from gpusim.explore.evaluate import evaluate
    from gpusim.explore.point import Point

    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # ended at once, whatever it does
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    evaluate(Point("vector_add", "tiny", parameters={"size": 64}), bound=False)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
