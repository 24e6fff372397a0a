"""Measures on a GPU what its board takes: `python -m validate.energy.measure OUT.json.gz [--programs]`.

A launch is repeated, while the board's counter of energy is read (NVML's total energy, in millijoules, which moves ten
times a second). Half a second goes by first, in which the clock comes to rest. The slope between the first and the last
move of the second behind it is the power; the time of a launch is of the same second.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from validate.energy.kernels import CUBIN, EnergyExperiment, experiments, words
from validate.gpu import GpuError, RealGpu

SECONDS, _SETTLING = 1.0, 0.5
_STATE_AT = 6
_MOST_GRAPH = 200
_LAUNCH_SECONDS = 0.01
_ROOM_WORDS = 1 << 29


class Board:
    """What NVML tells of a GPU."""

    def __init__(self, number: int = 0) -> None:
        self._nvml, self._handle = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        handle = ctypes.byref(self._handle)
        if self._nvml.nvmlInit_v2() or self._nvml.nvmlDeviceGetHandleByIndex_v2(number, handle):
            raise OSError("NVML cannot be used")

    def ask(self, function: str, *arguments: int, kind: Any = ctypes.c_uint) -> int:
        """What a function of NVML says, -1 if nothing."""
        value = kind()
        failed = getattr(self._nvml, function)(self._handle, *arguments, ctypes.byref(value))
        return -1 if failed else int(value.value)

    def state(self) -> dict[str, int]:
        """Clocks in MHz and the temperature."""
        clocks = {name: self.ask("nvmlDeviceGetClockInfo", k) for name, k in (("sm_mhz", 1), ("memory_mhz", 2))}
        return clocks | {"celsius": self.ask("nvmlDeviceGetTemperature", 0)}

    def power(self, settled: Callable[[], bool], busy: Callable[[], bool]) -> dict[str, Any]:
        """Watts while something is busy, from when it has settled."""
        moves: list[tuple[float, int]] = []
        last, state = -1, {}
        while busy():
            energy = self.ask("nvmlDeviceGetTotalEnergyConsumption", kind=ctypes.c_ulonglong)
            if last not in (-1, energy) and settled():
                moves.append((time.perf_counter(), energy))
                if len(moves) == _STATE_AT:
                    state = self.state()
            last = energy
        (first_time, first), (last_time, final) = moves[0], moves[-1]
        watts = (final - first) / 1000 / (last_time - first_time)
        return {"watts": round(watts, 2), "moves": len(moves), **(state or self.state())}

    def resting(self) -> dict[str, Any]:
        """Watts of `SECONDS` in which nothing is launched."""
        until = time.perf_counter() + SECONDS
        return self.power(lambda: True, lambda: time.perf_counter() < until)


def measured(gpu: RealGpu, board: Board, launch: Callable[[], object], seconds: float) -> dict[str, Any]:
    """Power and microseconds of a launch that takes so long."""
    settling, count = (max(2, round(each / seconds)) for each in (_SETTLING, SECONDS))
    middle, end = gpu.event(), gpu.event()
    recorded, over = threading.Event(), threading.Event()

    def settled() -> bool:
        return recorded.is_set() and int(gpu.driver.cuEventQuery(middle)[0]) == 0

    with ThreadPoolExecutor(1) as reader:  # a launch waits where the GPU's queue is full
        reading = reader.submit(board.power, settled, lambda: not over.is_set())
        for number in range(settling + count):
            if number == settling:
                gpu.record(middle)
                recorded.set()
            launch()
        gpu.record(end)
        gpu.synchronize()
        over.set()
        found = reading.result()
    return found | {"us": round(gpu.elapsed_us(middle, end) / count, 4)}


def _seconds(gpu: RealGpu, launch: Callable[[], object], times: int = 1) -> float:
    """Of one launch, the shortest of so many: the first ones take longer."""
    return min(gpu.timed_us(launch) for _ in range(times)) / 1e6


def microbenchmarks(gpu: RealGpu, board: Board, only: str) -> Iterator[dict[str, Any]]:
    """Every experiment of one GPU whose name fits, once, and the state of rest before and after."""
    yield {"name": "idle", **board.resting()}
    cubin, room, data = gzip.decompress(CUBIN.read_bytes()), gpu.alloc(4 * _ROOM_WORDS), gpu.alloc(1 << 18)
    filled = ""
    for each in experiments():
        if not re.search(only, each.name) or each.peer:
            continue
        values = words(each.fill, 1 << 16)
        gpu.put(data, values)
        if each.fill != filled and each.fill in ("u32", "zeros"):
            for start in range(0, 4 * _ROOM_WORDS, values.nbytes):
                gpu.put(room + start, values)
            filled = each.fill
        try:
            found = _experiment(gpu, board, gpu.function(cubin, each.entry), each, (data, room))
        except GpuError as error:
            found = {"failed": str(error)}
        yield {"name": each.name, **found}
    gpu.synchronize()
    yield {"name": "rest", **board.resting()}


def _graph(gpu: RealGpu, launch: Callable[[Any], object], count: int) -> Callable[[], object]:
    """A launch of so many, one after the other."""

    def put(stream: Any) -> None:
        for _ in range(count):
            launch(stream)

    start: Callable[[], object] = gpu.graph(put)
    return start


def _experiment(
    gpu: RealGpu, board: Board, kernel: Any, each: EnergyExperiment, places: tuple[int, int]
) -> dict[str, Any]:
    def launch(rounds: int, stream: Any = None) -> None:
        parameters = *map(np.uint64, places), *map(np.uint32, (rounds, each.a, each.b))
        gpu.launch(kernel, (each.grid,), (each.block,), parameters, each.shared_bytes, stream)

    if each.launches > 1:
        start = _graph(gpu, partial(launch, 1), each.launches)
        return {"rounds": 1, **measured(gpu, board, start, _seconds(gpu, start, 4))}
    launch(64)
    rounds = 64
    while (took := _seconds(gpu, partial(launch, rounds))) < _LAUNCH_SECONDS / 10:
        rounds *= 4
    rounds = max(1, round(rounds * _LAUNCH_SECONDS / took))
    return {"rounds": rounds, **measured(gpu, board, lambda: launch(rounds), _LAUNCH_SECONDS)}


def programs(gpu: RealGpu, board: Board, only: str, seconds: float) -> Iterator[dict[str, Any]]:
    """Every recorded program at its large size, in a graph that is launched again and again."""
    from programs import images
    from validate.points import select
    from validate.worker import DeviceKernel, check

    deadline = time.monotonic() + seconds
    for point in select((), "large"):
        if time.monotonic() < deadline and re.search(only, str(point)):
            with DeviceKernel(gpu, images.cubin_of(point.variant), point.make()) as kernel:
                kernel.reset()
                kernel.run()
                right = check(point, kernel)["ok"]
                count = min(_MOST_GRAPH, max(1, round(_LAUNCH_SECONDS / _seconds(gpu, kernel.run))))
                start = _graph(gpu, kernel.run, count)
                found = measured(gpu, board, start, _seconds(gpu, start, 4))
            found["us"] = round(found["us"] / count, 4)
            yield {"name": str(point), "right": right, "nodes": count, **found}


def main(path: Path, what: str, only: str, passes: int, seconds: float) -> None:
    """Everything so many times, into one file."""
    gpu, board, began = RealGpu(), Board(), time.monotonic()
    rows: list[dict[str, Any]] = []
    for number in range(passes):
        left = seconds - (time.monotonic() - began)
        for row in microbenchmarks(gpu, board, only) if what == "micro" else programs(gpu, board, only, left):
            rows.append({"pass": number, **row})
            print(number, *row.values(), flush=True)
        timed = f"NVML total energy over {SECONDS} s of launches"
        about = gpu.about() | {"date": time.strftime("%Y-%m-%d"), "measured": timed}
        path.write_bytes(gzip.compress(json.dumps({"about": about, "rows": rows}).encode(), mtime=0))
        if time.monotonic() - began > seconds * (number + 1) / (number + 2):
            break


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--programs", action="store_true", help="the bundled programs in place of the microbenchmarks")
    parser.add_argument("--only", default="", metavar="REGEX", help="names that fit")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=560.0, help="no further pass that would end later")
    options = parser.parse_args()
    main(options.path, "programs" if options.programs else "micro", options.only, options.passes, options.seconds)
