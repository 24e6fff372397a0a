"""Managed memory: what moves when host and GPU touch it, by faults and by prefetching; recorded, and simulated.

A kernel's time is from its first block's start to its last block's end; of stores, which nobody waits for, that of the
events around it less what they take around an empty kernel. Of the host it is the time of its touches, of a prefetch
that between the events around it. Steps in which nothing has to come are not compared.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from validate.compared import Compared
from validate.gpu import ACCESSED_BY, HOST, PREFERRED, READ_MOSTLY
from validate.streams.lab import RealLab, SimulatedLab

RECORDING = Path(__file__).parent / "results" / "managed_h200.json"
KB, MB, PAGE = 1 << 10, 1 << 20, 4096
SIZES = (64 * KB, MB, 4 * MB, 16 * MB, 64 * MB, 256 * MB)
GPU = 0
ODD = 7919
"""Multiplied with a page's number, modulo a power of two of pages, it gives every page once, far apart."""
EMPTY_US = 20.0
"""Events around a kernel with next to nothing to do ("gpu reads again" of 64 KiB and 1 MiB: 19 to 22)."""
LEAST_US = 30.0
LARGE = 16 * MB
KINDS: dict[str, tuple[str, ...]] = {
    "one thread": ("touch", "touch untouched", "touch sparsely", "touch every page", "touch in order"),
    "a warp": ("touch by a warp",),
    "a block, all in order": ("touch by a block", "touch by all", "touch by all, pages far apart"),
    "whole GPU": ("gpu reads", "gpu reads, host had read", "gpu reads after", "gpu writes", "gpu writes untouched"),
    "prefetch": ("prefetch to gpu", "prefetch to gpu again", "prefetch to host"),
    "host": ("host reads back", "host writes untouched"),
    "read mostly": ("gpu reads", "gpu writes", "host writes again", "host reads after write"),
    "over the bus": ("gpu reads", "gpu reads again", "gpu writes", "touch in order"),
}
"""Steps by what they ask about; those of the last two are of one case each."""


Step = tuple[Any, ...]
"""A method of `Managed` and what it is given, first the step's name."""


class Managed:
    """An array of managed memory, what is done to it step by step, and what each step took.

    Its own for a real and a simulated GPU are: `host` (the host touches a word of every page in order, or all words),
    `kernel` (whose first parameter is the array's address), `prefetch` to the GPU or the HOST, `advise`, `close`.
    """

    address: int
    kernel: Callable[..., None]

    def __init__(self, lab: Any, nbytes: int) -> None:
        self.lab, self.gpu, self.nbytes = lab, lab.gpu, nbytes
        self.steps: dict[str, dict[str, float]] = {}

    def run(self, steps: Iterable[Step]) -> dict[str, dict[str, float]]:
        """Do the steps of a case, and free the array; what each took."""
        for method, *given in steps:
            getattr(self, method)(*given)
        self.close()  # type: ignore[attr-defined]
        return self.steps

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


# --- cases ------------------------------------------------------------------------------------------------------------

_FILLED, _BACK = ("host", "host writes", True), ("host", "host writes back", True)
_READ_BACK = ("host", "host reads back")


def _in_order(multiplier: int = 1, write: int = 0) -> tuple[Step, ...]:
    """Host memory that one thread of the GPU touches page by page, each after the one before."""
    touches = (("touch", name, 1, 1, multiplier, write) for name in ("touch", "touch again"))
    return _FILLED, *touches, _READ_BACK


_FAULTS: tuple[Step, ...] = (  # and a page that the host had read meanwhile
    _FILLED, ("read", "gpu reads"), ("read", "gpu reads again"), _READ_BACK, ("host", "host reads again"),
    ("read", "gpu reads, host had read"), ("host", "host writes all", True, True), ("write", "gpu writes"),
    ("host", "host reads all", False, True),
)  # fmt: skip
_PREFETCHED: tuple[Step, ...] = (
    _FILLED, ("prefetch", "prefetch to gpu", GPU), ("prefetch", "prefetch to gpu again", GPU), ("read", "gpu reads"),
    ("prefetch", "prefetch to host", HOST), ("host", "host reads"), ("read", "gpu reads after"),
)  # fmt: skip
_WIDTHS: tuple[Step, ...] = (  # every lane of a warp has a page of its own; then a block; then all
    _FILLED, ("touch", "touch by a warp", 1, 32), _BACK, ("touch", "touch by a block", 1, 1024), _BACK,
    ("touch", "touch by all", 264, 256), _BACK, ("touch", "touch by all, pages far apart", 264, 256, ODD),
)  # fmt: skip
_READ_MOSTLY: tuple[Step, ...] = (  # both read copies of their own until one writes
    _FILLED, ("advise", READ_MOSTLY, GPU), ("read", "gpu reads"), ("read", "gpu reads again"), ("host", "host reads"),
    ("read", "gpu reads after host read"), ("write", "gpu writes"), ("host", "host reads after write"),
    ("read", "gpu reads after that"), ("host", "host writes again", True), ("read", "gpu reads after host wrote"),
)  # fmt: skip
_STAYS: tuple[Step, ...] = (  # preferred on the host and mapped for the GPU: kernels reach it over the bus
    ("advise", PREFERRED, HOST), ("advise", ACCESSED_BY, GPU), _FILLED, ("read", "gpu reads"),
    ("read", "gpu reads again"), ("touch", "touch in order"), ("write", "gpu writes"), ("host", "host reads"),
)  # fmt: skip
_PREFERRED: tuple[Step, ...] = (  # the host fetches it all the same, where it cannot map the GPU's memory
    ("advise", PREFERRED, GPU), _FILLED, ("read", "gpu reads"), ("host", "host reads"), ("read", "gpu reads after"),
)  # fmt: skip

CASES: dict[str, tuple[tuple[Step, ...], tuple[int, ...]]] = {
    "faults": (_FAULTS, SIZES),
    "in order": (_in_order(), SIZES),
    "far apart": (_in_order(ODD), (MB, 4 * MB, 16 * MB, 64 * MB)),
    "in order, written": (_in_order(write=1), (MB, 16 * MB)),
    "widths": (_WIDTHS, (MB, 16 * MB, 64 * MB)),
    "untouched": ((("touch", "touch untouched", 1, 1, 1, 2), _READ_BACK), (MB, 4 * MB, 16 * MB)),
    "untouched, whole gpu": ((("write", "gpu writes untouched"), ("write", "gpu writes again"), _READ_BACK), SIZES),
    "untouched, host": (
        (("host", "host writes untouched", True), ("host", "host writes again", True)), (MB, 16 * MB),
    ),
    "prefetch": (_PREFETCHED, SIZES),
    "prefetch untouched": ((("prefetch", "prefetch to gpu", GPU), ("write", "gpu writes")), SIZES),
    **{f"sparse {stride}KB": (  # one page of every stride; then every page, of which some have come with it
        (_FILLED, ("touch", "touch sparsely", 1, 1, 1, 0, stride * KB), ("touch", "touch every page")), (16 * MB,),
    ) for stride in (64, 128, 256, 512, 1024, 2048, 4096)},
    "read mostly": (_READ_MOSTLY, (MB, 64 * MB)),
    "stays on host": (_STAYS, (MB, 64 * MB)),
    "preferred on gpu": (_PREFERRED, (MB, 64 * MB)),
}  # fmt: skip


# --- on a GPU ---------------------------------------------------------------------------------------------------------


class RealManaged(Managed):
    """An array of this machine's GPU; a step gives `event_us`, `kernel_us`, `host_us`, as far as it has them."""

    def __init__(self, lab: RealLab, nbytes: int) -> None:
        super().__init__(lab, nbytes)
        self.address = self.gpu.managed(nbytes)
        self.words = np.ctypeslib.as_array((ctypes.c_float * (nbytes // 4)).from_address(self.address))

    def close(self) -> None:
        self.gpu.synchronize()
        self.gpu.free(self.address)

    def host(self, name: str, write: bool = False, whole: bool = False) -> None:
        words = self.words if whole else self.words[:: PAGE // 4]
        start = time.perf_counter_ns()
        if write:
            words[:] = 2.0
        else:
            words.sum()
        self.steps[name] = {"host_us": (time.perf_counter_ns() - start) / 1e3}

    def kernel(self, name: str, kernel: str, grid: int, threads: int, *words: Any) -> None:
        self.lab.begin()
        self.lab.open()
        stream = self.lab.stream(0)
        self.gpu.call("cuStreamSynchronize", stream)
        first = self.gpu.record(self.gpu.event(), stream)
        self.lab.launch("kernel", stream, kernel, grid, threads, 0, np.uint64(self.address), *words)
        last = self.gpu.record(self.gpu.event(), stream)
        blocks = self.lab.finish()["kernel"]
        kernel_us = (blocks[:, 2].max() - blocks[:, 1].min()) / 1e3
        self.steps[name] = {"event_us": self.gpu.elapsed_us(first, last), "kernel_us": float(kernel_us)}

    def prefetch(self, name: str, place: int) -> None:
        stream = self.lab.gate_stream
        self.gpu.synchronize()
        first = self.gpu.record(self.gpu.event(), stream)
        self.gpu.prefetch(self.address, self.nbytes, place, stream)
        self.steps[name] = {"event_us": self.gpu.elapsed_us(first, self.gpu.record(self.gpu.event(), stream))}

    def advise(self, advice: int, place: int) -> None:
        self.gpu.advise(self.address, self.nbytes, advice, place)


def measure(lab: RealLab) -> dict[str, dict[str, dict[str, float]]]:
    """Every case at its sizes, three times on fresh memory: the medians of each step."""
    found = {}
    for name, (steps, sizes) in CASES.items():
        for nbytes in sizes:
            turns = [RealManaged(lab, nbytes).run(steps) for _ in range(3)]
            found[f"{name}, {nbytes}"] = {
                step: {key: statistics.median(turn[step][key] for turn in turns) for key in numbers}
                for step, numbers in turns[0].items()
            }
    return found


# --- simulated --------------------------------------------------------------------------------------------------------


class SimulatedManaged(Managed):
    """An array of a simulated device; a step gives `us`."""

    def __init__(self, lab: SimulatedLab, nbytes: int) -> None:
        super().__init__(lab, nbytes)
        self.device = lab.device
        self.array = self.device.managed_array(nbytes // 4, "float32")
        self.address = self.array.address

    def close(self) -> None:
        self.device.free(self.array)

    def host(self, name: str, write: bool = False, whole: bool = False) -> None:
        self._timed(name, lambda: self.device.managed.touch(self.array, 0, self.nbytes, write))

    def kernel(self, name: str, kernel: str, grid: int, threads: int, *words: Any) -> None:
        self.lab.begin()
        self.lab.launch("kernel", self.lab.stream(0), kernel, grid, threads, 0, np.uint64(self.address), *words)
        self._timed(name, self.lab.finish)

    def prefetch(self, name: str, place: int) -> None:
        self._timed(name, lambda: self.gpu.prefetch(self.array, place))

    def advise(self, advice: int, place: int) -> None:
        self.gpu.advise(self.array, advice, place)

    def _timed(self, name: str, work: Callable[[], object]) -> None:
        before = self.device.now_cycles
        work()
        self.steps[name] = {"us": (self.device.now_cycles - before) / self.device.config.gpu.clock_mhz}


def recorded() -> dict[str, dict[str, dict[str, float]]]:
    """Medians of every case and step, in microseconds."""
    found: dict[str, dict[str, dict[str, float]]] = json.loads(RECORDING.read_text())["medians_us"]
    return found


def time_of(step: dict[str, float], name: str) -> float:
    """What is compared of a recorded step."""
    if "kernel_us" not in step:
        return step.get("event_us", step.get("host_us", 0.0))
    return step["event_us"] - EMPTY_US if "writes" in name else step["kernel_us"]


def kind_of(case: str, step: str) -> str | None:
    """What a step asks about."""
    if case.startswith("untouched, host") and "again" in step:
        return None
    for name, kind in (("read mostly", "read mostly"), ("stays on host", "over the bus")):
        if case.startswith(name):
            return kind if step in KINDS[kind] else None
    return next((kind for kind, steps in KINDS.items() if step in steps), None)


def replay(lab: SimulatedLab, most_bytes: int = 64 * MB, only: Iterable[str] = ()) -> Iterator[Compared]:
    """Every recorded case of up to so many bytes, or those named, with their size or without, on the lab's device: its
    steps, by what they ask about and whether their array is large."""
    wanted = set(only)
    for case, steps in recorded().items():
        name, size = case.rsplit(", ", 1)
        if name not in CASES or int(size) > most_bytes or (wanted and wanted.isdisjoint((name, case))):
            continue
        if name == "read mostly" and int(size) > MB:  # half a second of collapsing pages
            continue
        for step, found in SimulatedManaged(lab, int(size)).run(CASES[name][0]).items():
            kind, known = kind_of(case, step), steps.get(step)
            if kind is not None and known is not None and time_of(known, step) >= LEAST_US:
                yield Compared(
                    group=f"{kind}, {'16 MiB and more' if int(size) >= LARGE else 'less'}", case=f"{case}: {step}",
                    point=(case, step), measured=time_of(known, step), simulated=found["us"], limit=0.2,
                )  # fmt: skip
