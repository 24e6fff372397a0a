"""Measures on a GPU what its board takes: `python -m validate.energy.measure OUT.json.gz [--programs]`.

A launch is repeated, while the board's counter of energy is read (NVML's total energy, in millijoules, which moves ten
times a second). Half a second goes by first, in which the clock comes to rest. The slope between the first and the last
move of the second behind it is the power; the time of a launch is of the same second. Needs CuPy, and nothing of the
simulator but its programs.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gzip
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import cupy as cp  # type: ignore[import-not-found,import-untyped,unused-ignore]
import numpy as np

from validate.energy.data import words
from validate.energy.kernels import CUBIN, EnergyExperiment, experiments

SECONDS = 1.0
_SETTLING = 0.5
"""In which the board's control of clocks comes to rest."""
_STATE_AT = 6
_MOST_GRAPH = 200
_LAUNCH_SECONDS = 0.01


class Board:
    """What NVML tells of a GPU, the first one by default."""

    def __init__(self, number: int = 0) -> None:
        self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self._handle = ctypes.c_void_p()
        handle = ctypes.byref(self._handle)
        if self._nvml.nvmlInit_v2() or self._nvml.nvmlDeviceGetHandleByIndex_v2(number, handle):
            raise OSError("NVML cannot be used")

    def _ask(self, function: str, *arguments: int, kind: Any = ctypes.c_uint) -> int:
        value = kind()
        failed = getattr(self._nvml, function)(self._handle, *arguments, ctypes.byref(value))
        return -1 if failed else int(value.value)

    def millijoules(self) -> int:
        """Since the driver was loaded."""
        return self._ask("nvmlDeviceGetTotalEnergyConsumption", kind=ctypes.c_ulonglong)

    def state(self) -> dict[str, Any]:
        """Clocks in MHz and the temperature."""
        return {
            "sm_mhz": self._ask("nvmlDeviceGetClockInfo", 1),
            "memory_mhz": self._ask("nvmlDeviceGetClockInfo", 2),
            "celsius": self._ask("nvmlDeviceGetTemperature", 0),
        }

    def power(self, settled: Callable[[], bool], busy: Callable[[], bool]) -> dict[str, Any]:
        """Watts while something is busy, from when it has settled."""
        moves: list[tuple[float, int]] = []
        last, state = self.millijoules(), {}
        while busy():
            energy, now = self.millijoules(), time.perf_counter()
            if energy != last and settled():
                moves.append((now, energy))
                if len(moves) == _STATE_AT:
                    state = self.state()
            last = energy
        (first_time, first), (last_time, final) = moves[0], moves[-1]
        watts = (final - first) / 1000 / (last_time - first_time)
        return {"watts": round(watts, 2), "moves": len(moves), **(state or self.state())}


def measured(board: Board, launch: Callable[[], object], seconds: float, other: Board | None = None) -> dict[str, Any]:
    """Power and microseconds of a launch that takes so long. other: a board whose watts are told too."""
    settling, count = (max(2, round(each / seconds)) for each in (_SETTLING, SECONDS))
    middle, end = cp.cuda.Event(), cp.cuda.Event()
    recorded, over = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as readers:  # a launch waits where the GPU's queue is full
        when = (lambda: recorded.is_set() and middle.done), lambda: not over.is_set()
        reading = readers.submit(board.power, *when)
        beside = readers.submit(other.power, *when) if other is not None else None
        for number in range(settling + count):
            if number == settling:
                middle.record()
                recorded.set()
            launch()
        end.record()
        end.synchronize()
        over.set()
        found = reading.result()
    if beside is not None:
        found["other_watts"] = beside.result()["watts"]
    found["us"] = round(1000 * cp.cuda.get_elapsed_time(middle, end) / count, 4)
    return found


def _seconds(launch: Callable[[], object]) -> float:
    """Of one launch that has been made before."""
    start, end = cp.cuda.Event(), cp.cuda.Event()
    start.record()
    launch()
    end.record()
    end.synchronize()
    return float(cp.cuda.get_elapsed_time(start, end)) / 1000


def _settled(launch: Callable[[], object]) -> float:
    """Seconds of a launch that has not been made yet: the first ones take longer."""
    return min(_seconds(launch) for _ in range(4))


def graph_of(launch: Callable[[], object], count: int) -> Callable[[], object]:
    """A launch of so many of it, one after the other."""
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        for _ in range(count):
            launch()
        graph = stream.end_capture()

    def start() -> None:
        graph.launch(cp.cuda.Stream.null)

    return start


def microbenchmarks(board: Board, only: str) -> Iterator[dict[str, Any]]:
    """Every experiment whose name fits, once, and the state of rest before and after."""
    yield {"name": "idle", **board.power(lambda: True, _for(SECONDS))}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.cubin")
        path.write_bytes(gzip.decompress(CUBIN.read_bytes()))
        module = cp.RawModule(path=str(path))
        room = cp.zeros(1 << 29, cp.uint32)
        peer = _peer_room() if re.search(only, "peer") and cp.cuda.runtime.getDeviceCount() > 1 else None
        filled = ""
        for each in experiments():
            if not re.search(only, each.name) or (each.peer and peer is None):
                continue
            data = cp.asarray(words(each.fill, 1 << 16))
            if each.fill != filled and each.fill in ("u32", "zeros"):
                for start in range(0, room.size, data.size):
                    room[start : start + data.size] = data
                filled = each.fill
            try:
                if each.peer and peer is not None:
                    peer[:] = room[: peer.size]
                    yield {"name": each.name, **_experiment(board, module, each, data, peer, Board(1))}
                else:
                    yield {"name": each.name, **_experiment(board, module, each, data, room)}
            except Exception as error:
                yield {"name": each.name, "failed": str(error)}
    cp.cuda.runtime.deviceSynchronize()
    yield {"name": "rest", **board.power(lambda: True, _for(SECONDS))}


def _for(seconds: float) -> Callable[[], bool]:
    until = time.perf_counter() + seconds
    return lambda: time.perf_counter() < until


def _peer_room() -> Any:
    """Memory of the second GPU, which the first one may use."""
    if cp.cuda.runtime.deviceCanAccessPeer(0, 1):
        with contextlib.suppress(cp.cuda.runtime.CUDARuntimeError):  # it is allowed already
            cp.cuda.runtime.deviceEnablePeerAccess(1)
    with cp.cuda.Device(1):
        return cp.zeros(1 << 28, cp.uint32)


def _experiment(
    board: Board, module: Any, each: EnergyExperiment, data: Any, room: Any, other: Board | None = None
) -> dict[str, Any]:
    kernel = module.get_function(each.entry)
    if each.shared_bytes:
        kernel.max_dynamic_shared_size_bytes = each.shared_bytes

    def launch(rounds: int) -> None:
        arguments = (data, room, np.uint32(rounds), np.uint32(each.a), np.uint32(each.b))
        kernel((each.grid,), (each.block,), arguments, shared_mem=each.shared_bytes)

    if each.launches > 1:
        start = graph_of(lambda: launch(1), each.launches)
        return {"rounds": 1, **measured(board, start, _settled(start))}
    launch(64)
    rounds = 64
    while (took := _seconds(partial(launch, rounds))) < _LAUNCH_SECONDS / 10:
        rounds *= 4
    rounds = max(1, round(rounds * _LAUNCH_SECONDS / took))
    return {"rounds": rounds, **measured(board, lambda: launch(rounds), _LAUNCH_SECONDS, other)}


def programs(board: Board, only: str, seconds: float) -> Iterator[dict[str, Any]]:
    """Every recorded program at its large size, in a graph that is launched again and again."""
    from programs import images
    from validate.points import select
    from validate.worker import DeviceKernel, check

    deadline = time.monotonic() + seconds
    for point in select((), "large"):
        if time.monotonic() > deadline:
            return
        if not re.search(only, str(point)):
            continue
        kernel = DeviceKernel(images.cubin_of(point.variant), point.make())
        kernel.reset()
        kernel.run()
        cp.cuda.runtime.deviceSynchronize()
        right = check(point, kernel)["ok"]
        one = _seconds(kernel.run)
        count = min(_MOST_GRAPH, max(1, round(_LAUNCH_SECONDS / one)))
        start = graph_of(kernel.run, count)
        found = measured(board, start, _settled(start))
        found["us"] = round(found["us"] / count, 4)
        yield {"name": str(point), "right": right, "nodes": count, **found}
        del kernel, start
        cp.get_default_memory_pool().free_all_blocks()


def main(path: Path, what: str, only: str, passes: int, seconds: float) -> None:
    """Everything so many times, into one file."""
    board = Board()
    began = time.monotonic()
    properties = cp.cuda.runtime.getDeviceProperties(0)
    rows: list[dict[str, Any]] = []
    for number in range(passes):
        left = seconds - (time.monotonic() - began)
        for row in microbenchmarks(board, only) if what == "micro" else programs(board, only, left):
            rows.append({"pass": number, **row})
            if number == 0:
                tail = {key: value for key, value in row.items() if key not in ("name", "moves", "memory_mhz")}
                print(f"{row['name']:<34}", *tail.values(), flush=True)
        about = {
            "gpu": properties["name"].decode(),
            "cuda_driver": cp.cuda.runtime.driverGetVersion(),
            "date": time.strftime("%Y-%m-%d"),
            "measured": f"NVML total energy over {SECONDS} s of launches",
        }
        path.write_bytes(gzip.compress(json.dumps({"about": about, "rows": rows}).encode(), mtime=0))
        if time.monotonic() - began > seconds * (number + 1) / (number + 2):
            break
    print(about, len(rows), "rows", round(time.monotonic() - began), "s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--programs", action="store_true", help="the bundled programs in place of the microbenchmarks")
    parser.add_argument("--only", default="", metavar="REGEX", help="names that fit")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=560.0, help="no further pass that would end later")
    options = parser.parse_args()
    main(options.path, "programs" if options.programs else "micro", options.only, options.passes, options.seconds)
