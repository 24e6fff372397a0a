"""Managed memory: what moves when host and GPU touch it, by faults and by prefetching; recorded, and simulated.

A kernel's time is from its first block's start to its last block's end; of stores, which nobody waits for, that of the
events around it less what they take around an empty kernel. Of the host it is the time of its touches, of a prefetch
that between the events around it. Steps in which nothing has to come are not compared.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.node.managed import Place
from validate.compared import Compared
from validate.gpu import read_json
from validate.streams.lab import Lab

RECORDING = Path(__file__).parent / "results" / "managed_h200.json"
MB, PAGE = 1 << 20, 4096
EMPTY_US = 20.0
"""Events around a kernel with next to nothing to do ("gpu reads again" of 64 KiB and 1 MiB: 19 to 22)."""
LEAST_US = 30.0
LARGE = 16 * MB
Step = list[Any]
"""A method of `Managed` and what it is given, first the step's name."""


class Managed:
    """An array of managed memory, what is done to it step by step, and the microseconds of each step."""

    def __init__(self, lab: Lab, nbytes: int) -> None:
        self.lab, self.device, self.nbytes = lab, lab.device, nbytes
        self.array = self.device.managed_array(nbytes // 4, "float32")
        self.steps: dict[str, float] = {}

    def run(self, steps: Iterable[Step]) -> dict[str, float]:
        """Do the steps of a case, and free the array; what each took."""
        for method, *given in steps:
            getattr(self, method)(*given)
        self.device.free(self.array)
        return self.steps

    def host(self, name: str, write: bool = False) -> None:
        """The host touches a word of every page in order."""
        self._timed(name, lambda: self.device.managed.touch(self.array, 0, self.nbytes, write))

    def prefetch(self, name: str, place: Place) -> None:
        """All of it."""
        self._timed(name, lambda: self.device.prefetch(self.array, place))

    def advise(self, what: str, value: Any) -> None:
        """One keyword of `Device.advise`."""
        self.device.advise(self.array, **{what: value})

    def touch(
        self, name: str, grid: int = 1, threads: int = 1, multiplier: int = 1, write: int = 0, stride: int = PAGE
    ) -> None:
        """One word every stride bytes, by so many threads."""
        words = (*map(np.int64, (self.nbytes // stride, stride // 4, multiplier)), np.int32(write), np.uint64(0))
        self.kernel(name, "touch", grid, threads, *words)

    def read(self, name: str) -> None:
        """All of it by the whole GPU."""
        self.kernel(name, "read_all", 264, 256, np.int64(self.nbytes // 16), np.uint64(self.lab.scratch))

    def write(self, name: str) -> None:
        """All of it by the whole GPU."""
        self.kernel(name, "write_all", 264, 256, np.int64(self.nbytes // 16))

    def kernel(self, name: str, kernel: str, grid: int, threads: int, *words: Any) -> None:
        """A kernel whose first parameter is the array's address."""
        self.lab.begin()
        address = np.uint64(self.array.address)
        self.lab.launch("kernel", self.lab.stream(0), kernel, grid, threads, 0, address, *words)
        self._timed(name, self.lab.finish)

    def _timed(self, name: str, work: Callable[[], object]) -> None:
        before = self.device.now_cycles
        work()
        self.steps[name] = (self.device.now_cycles - before) / self.device.config.gpu.clock_mhz


_DOCUMENT = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
CASES: dict[str, list[Step]] = _DOCUMENT["cases"]
KINDS: dict[str, list[str]] = _DOCUMENT["kinds"]
"""Steps by what they ask about."""


def recorded() -> dict[str, dict[str, dict[str, float]]]:
    """Medians of every case and step, in microseconds."""
    return read_json(RECORDING)["medians_us"]  # type: ignore[no-any-return]


def time_of(step: dict[str, float], name: str) -> float:
    """Return the time of a recorded step that is compared."""
    if "kernel_us" not in step:
        return step.get("event_us", step.get("host_us", 0.0))
    return step["event_us"] - EMPTY_US if "writes" in name else step["kernel_us"]


def kind_of(case: str, step: str) -> str | None:
    """Return the kind of what a step asks about."""
    if case.startswith("untouched, host") and "again" in step:
        return None
    for name, kind in (("read mostly", "read mostly"), ("stays on host", "over the bus")):
        if case.startswith(name):
            return kind if step in KINDS[kind] else None
    return next((kind for kind, steps in KINDS.items() if step in steps), None)


def replay(lab: Lab, most_bytes: int = 64 * MB, only: Iterable[str] = ()) -> Iterator[Compared]:
    """Every recorded case of up to so many bytes, or those named, with their size or without, on the lab's device: its
    steps, by what they ask about and whether their array is large."""
    wanted = set(only)
    for case, steps in recorded().items():
        name, size = case.rsplit(", ", 1)
        if name not in CASES or int(size) > most_bytes or (wanted and wanted.isdisjoint((name, case))):
            continue
        if name == "read mostly" and int(size) > MB:  # half a second of collapsing pages
            continue
        for step, found in Managed(lab, int(size)).run(CASES[name]).items():
            kind, known = kind_of(case, step), steps.get(step)
            if kind is not None and known is not None and time_of(known, step) >= LEAST_US:
                group = f"{kind}, {'16 MiB and more' if int(size) >= LARGE else 'less'}"
                yield Compared(group=group, case=f"{case}: {step}", point=(case, step), limit=0.2,
                               measured=time_of(known, step), simulated=found)  # fmt: skip
