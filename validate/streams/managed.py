"""Managed memory: what moves when host and GPU touch it, by faults and by prefetching; recorded, and simulated.

A kernel's time is from its first block's start to its last block's end; of stores, which nobody waits for, that of the
events around it less what they take around an empty kernel. Of the host it is the time of its touches, of a prefetch
that between the events around it. Steps in which nothing has to come are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.node.managed import Place
from validate.compared import Compared
from validate.gpu import read_json
from validate.streams.lab import Lab

RECORDING = Path(__file__).parent / "results" / "managed_h200.json"
KB, MB, PAGE = 1 << 10, 1 << 20, 4096
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


# --- cases ------------------------------------------------------------------------------------------------------------

_FILLED, _BACK = ("host", "host writes", True), ("host", "host writes back", True)
_READ_BACK = ("host", "host reads back")


def _in_order(multiplier: int = 1, write: int = 0) -> tuple[Step, ...]:
    """Host memory that one thread of the GPU touches page by page, each after the one before."""
    touches = (("touch", name, 1, 1, multiplier, write) for name in ("touch", "touch again"))
    return _FILLED, *touches, _READ_BACK


_FAULTS: tuple[Step, ...] = (  # and a page that the host had read meanwhile
    _FILLED, ("read", "gpu reads"), ("read", "gpu reads again"), _READ_BACK, ("host", "host reads again"),
    ("read", "gpu reads, host had read"), ("host", "host writes all", True), ("write", "gpu writes"),
    ("host", "host reads all"),
)  # fmt: skip
_PREFETCHED: tuple[Step, ...] = (
    _FILLED, ("prefetch", "prefetch to gpu", "device"), ("prefetch", "prefetch to gpu again", "device"),
    ("read", "gpu reads"), ("prefetch", "prefetch to host", "host"), ("host", "host reads"),
    ("read", "gpu reads after"),
)  # fmt: skip
_WIDTHS: tuple[Step, ...] = (  # every lane of a warp has a page of its own; then a block; then all
    _FILLED, ("touch", "touch by a warp", 1, 32), _BACK, ("touch", "touch by a block", 1, 1024), _BACK,
    ("touch", "touch by all", 264, 256), _BACK, ("touch", "touch by all, pages far apart", 264, 256, ODD),
)  # fmt: skip
_READ_MOSTLY: tuple[Step, ...] = (  # both read copies of their own until one writes
    _FILLED, ("advise", "read_mostly", True), ("read", "gpu reads"), ("read", "gpu reads again"),
    ("host", "host reads"), ("read", "gpu reads after host read"), ("write", "gpu writes"),
    ("host", "host reads after write"), ("read", "gpu reads after that"), ("host", "host writes again", True),
    ("read", "gpu reads after host wrote"),
)  # fmt: skip
_STAYS: tuple[Step, ...] = (  # preferred on the host and mapped for the GPU: kernels reach it over the bus
    ("advise", "preferred", "host"), _FILLED, ("read", "gpu reads"),
    ("read", "gpu reads again"), ("touch", "touch in order"), ("write", "gpu writes"), ("host", "host reads"),
)  # fmt: skip
_PREFERRED: tuple[Step, ...] = (  # the host fetches it all the same, where it cannot map the GPU's memory
    ("advise", "preferred", "device"), _FILLED, ("read", "gpu reads"), ("host", "host reads"),
    ("read", "gpu reads after"),
)  # fmt: skip

CASES: dict[str, tuple[Step, ...]] = {
    "faults": _FAULTS,
    "in order": _in_order(),
    "far apart": _in_order(ODD),
    "in order, written": _in_order(write=1),
    "widths": _WIDTHS,
    "untouched": (("touch", "touch untouched", 1, 1, 1, 2), _READ_BACK),
    "untouched, whole gpu": (("write", "gpu writes untouched"), ("write", "gpu writes again"), _READ_BACK),
    "untouched, host": (("host", "host writes untouched", True), ("host", "host writes again", True)),
    "prefetch": _PREFETCHED,
    "prefetch untouched": (("prefetch", "prefetch to gpu", "device"), ("write", "gpu writes")),
    **{f"sparse {stride}KB": (  # one page of every stride; then every page, of which some have come with it
        _FILLED, ("touch", "touch sparsely", 1, 1, 1, 0, stride * KB), ("touch", "touch every page"),
    ) for stride in (64, 128, 256, 512, 1024, 2048, 4096)},
    "read mostly": _READ_MOSTLY,
    "stays on host": _STAYS,
    "preferred on gpu": _PREFERRED,
}  # fmt: skip


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
