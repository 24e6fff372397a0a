"""Points on a Dask cluster: the same function per point, on whatever workers there are."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gpusim.errors import SimulationError
from gpusim.explore.evaluate import empty_row, evaluate
from gpusim.explore.interrupt import stop_if_interrupted
from gpusim.explore.journal import sources_digest
from gpusim.explore.point import Point

_CONNECT_S = 20
_AHEAD = 4
"""Points that wait at the cluster for each of its threads: enough that none is idle, few enough to be taken back."""
_LOOK_S = 0.5
"""How often this end looks for an interrupt, and a worker whether its sweep has ended."""
_one_at_a_time = threading.Lock()


class ClusterFailed(SimulationError):
    """A Dask cluster that is not there, has no gpusim, or another version of it."""


class Cluster:
    """The workers of the Dask scheduler at `address`. Raises ClusterFailed if there are none, or other versions."""

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client, Event
        except ImportError:
            raise ClusterFailed("Dask needs the package distributed: pip install 'gpusim[explore]'") from None
        try:
            self._client = Client(address, timeout=_CONNECT_S, name="gpusim sweep")
        except (OSError, ValueError) as error:
            raise ClusterFailed(f"no Dask scheduler answers at {address}: {' '.join(str(error).split())}") from None
        try:
            _check(self._client, address)
        except BaseException:
            self._client.close()
            raise
        self._run = f"gpusim-{uuid.uuid4().hex}"
        self._ended = Event(self._run, client=self._client)

    def rows(self, points: Sequence[Point], options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Each point's row as it is finished. A point whose workers are lost again and again is a failed row."""
        call = uuid.uuid4().hex  # or another sweep on this cluster would get the results of this one
        waiting = iter(points)
        futures: dict[Any, Point] = {}
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def submit() -> None:
            point = next(waiting, None)
            if point is not None:
                name = f"gpusim-{call}-{point.key}"
                future = self._client.submit(_row, self._run, point, dict(options), key=name, pure=False)
                futures[future] = point
                future.add_done_callback(done.put)

        for _ in range(_AHEAD * max(sum(self._client.nthreads().values()), 1)):
            submit()
        while futures:
            stop_if_interrupted()
            with suppress(queue.Empty):
                future = done.get(timeout=_LOOK_S)
                point = futures.pop(future)
                submit()
                if future.status == "finished":
                    yield future.result()
                else:
                    error = " ".join(f"{type(future.exception()).__name__}: {future.exception()}".split())
                    yield empty_row(point, options.get("metrics", ())) | {"error": error}

    def close(self) -> None:
        """Take back what waits at the cluster, and let what runs there end."""
        self._ended.set()
        self._client.close()


def _check(client: Any, address: str) -> None:
    """That every worker has this version of gpusim."""
    try:
        found = client.run(sources_digest)
    except Exception as error:  # whatever the import on a worker raises
        raise ClusterFailed(f"the workers of {address} cannot load gpusim: {error}") from None
    if not found:
        raise ClusterFailed(f"the scheduler at {address} has no workers")
    others = [worker for worker, digest in found.items() if digest != sources_digest()]
    if others:
        raise ClusterFailed(f"{len(others)} of {len(found)} workers have another version of gpusim: {others[0]}")


def _row(run: str, point: Point, options: dict[str, Any]) -> dict[str, Any] | None:
    """What a worker does. One point after the other: the simulator's caches are a process's, not a thread's."""
    from distributed import Event

    ended, looked = Event(run), time.monotonic()

    def stop() -> bool:
        nonlocal looked
        if time.monotonic() < looked + _LOOK_S:
            return False
        looked = time.monotonic()
        return bool(ended.is_set())

    with _one_at_a_time:
        try:
            return evaluate(point, **options, stop=stop)
        except KeyboardInterrupt:  # for Dask, the end of the worker itself
            return None
