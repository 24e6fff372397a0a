"""The cases of `managed` on a simulated H200, held to what was recorded on a real one.

A kernel's time is from its first block's start to its last block's end; of stores, which nobody waits for, that of the
events around it less what they take around an empty kernel. Of the host it is the time of its touches, of a prefetch
that between the events around it. Steps in which nothing has to come are not compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from gpusim.device import Device
from validate.streams.driver import ACCESSED_BY, HOST, PREFERRED, READ_MOSTLY
from validate.streams.managed import CASES, MB, Managed
from validate.streams.simulated import SimulatedLab

RECORDING = Path(__file__).parent / "results" / "managed_h200.json"
EMPTY_US = 20.0
"""Events around a kernel with next to nothing to do ("gpu reads again" of 64 KiB and 1 MiB: 19 to 22)."""
LEAST_US = 30.0
LARGE = 16 * MB
NOT_REPLAYED = "pingpong", "one page"
"""The driver slows down pages that go to and fro, which the model does not."""
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


class ManagedStep(NamedTuple):
    """A step of a case. error: simulated over recorded, less one."""

    kind: str
    case: str
    step: str
    recorded_us: float
    simulated_us: float

    @property
    def nbytes(self) -> int:
        return int(self.case.rsplit(", ", 1)[1])

    @property
    def error(self) -> float:
        return self.simulated_us / self.recorded_us - 1


class SimulatedManaged(Managed):
    """An array of managed memory of a simulated device; every step gives `us`."""

    def __init__(self, lab: SimulatedLab, nbytes: int) -> None:
        self.lab, self.driver, self.nbytes = lab, lab.driver, nbytes
        self.device: Device = lab.driver.device
        self.array = self.device.managed_array(nbytes // 4, "float32")
        self.address, self.steps = self.array.address, []

    def close(self) -> None:
        """Free it."""
        self.device.free(self.array)

    def host(self, name: str, *, write: bool = False, log: bool = False, pages: int | None = None) -> None:
        """The host touches all of it, or the first pages."""
        before = self.device.now_cycles
        self.device.managed.touch(self.array, 0, self.nbytes if pages is None else pages * 4096, write)
        self._noted(name, before)

    def host_all(self, name: str, *, write: bool = False) -> None:
        """As well."""
        self.host(name, write=write)

    def gpu(self, name: str, kernel: str, grid: int, threads: int, *arguments: Any) -> None:
        """A kernel."""
        lab = self.lab
        lab.begin()
        lab.launch("kernel", lab.stream(0), kernel, grid, threads, 0, *arguments)
        before = self.device.now_cycles
        lab.finish()
        self._noted(name, before)

    def touch(self, name: str, grid: int = 1, threads: int = 1, *, write: int = 0, multiplier: int = 1,
              stride: int = 4096, log: bool = False) -> None:  # fmt: skip
        """Without a log."""
        super().touch(name, grid, threads, write=write, multiplier=multiplier, stride=stride)

    def prefetch(self, name: str, place: int) -> None:
        """To the GPU or the host."""
        before = self.device.now_cycles
        self.device.prefetch(self.array, "host" if place == HOST else "device")
        self._noted(name, before)

    def advise(self, advice: int, place: int) -> None:
        """Accessed-by goes with a preferred location on the host."""
        if advice == READ_MOSTLY:
            self.device.advise(self.array, read_mostly=True)
        elif advice == PREFERRED:
            self.device.advise(self.array, preferred="host" if place == HOST else "device")
        elif advice != ACCESSED_BY:
            raise ValueError(f"no advice {advice}")

    def _noted(self, name: str, before: int) -> None:
        self.note(name, {"us": (self.device.now_cycles - before) / self.device.config.gpu.clock_mhz})


def recorded() -> dict[str, dict[str, dict[str, float]]]:
    """Medians of every case and step, in microseconds."""
    found: dict[str, dict[str, dict[str, float]]] = json.loads(RECORDING.read_text())["medians_us"]
    return found


def time_of(step: dict[str, float], name: str) -> float:
    """What is compared of a recorded step."""
    if "kernel_us" not in step:
        return step.get("event_us", step["host_us"])
    return step["event_us"] - EMPTY_US if "writes" in name else step["kernel_us"]


def kind_of(case: str, step: str) -> str | None:
    """What a step asks about."""
    if case.startswith("untouched, host") and "again" in step:
        return None
    for name, kind in (("read mostly", "read mostly"), ("stays on host", "over the bus")):
        if case.startswith(name):
            return kind if step in KINDS[kind] else None
    return next((kind for kind, steps in KINDS.items() if step in steps), None)


def replay(lab: SimulatedLab, most_bytes: int = 64 * MB, only: Iterable[str] = ()) -> list[ManagedStep]:
    """Every recorded case of up to so many bytes, or those named, on the lab's device."""
    rows, wanted = [], tuple(only)
    for case, steps in recorded().items():
        name, size = case.rsplit(", ", 1)
        if name not in CASES or name in NOT_REPLAYED or int(size) > most_bytes or (wanted and name not in wanted):
            continue
        if name == "read mostly" and int(size) > MB:  # half a second of collapsing pages
            continue
        it = SimulatedManaged(lab, int(size))
        CASES[name][0](it)
        it.close()
        for step in it.steps:
            kind, known = kind_of(case, step["step"]), steps.get(step["step"])
            if kind is not None and known is not None and time_of(known, step["step"]) >= LEAST_US:
                rows.append(ManagedStep(kind, case, step["step"], time_of(known, step["step"]), step["us"]))
    return rows


def table(rows: list[ManagedStep], within: float = 0.2) -> str:
    """Every step, then each kind in a line."""
    lines = [f"{'case, bytes':34}{'step':32}{'recorded us':>12}{'simulated':>11}{'error':>8}"]
    lines += [
        f"{row.case:34}{row.step:32}{row.recorded_us:12,.1f}{row.simulated_us:11,.1f}{row.error:+8.1%}" for row in rows
    ]
    lines += ["", f"{'':40}{'steps':>6}{f'within {within:.0%}':>12}{'mean':>8}{'worst':>8}"]
    for kind in KINDS:
        for words, large in (("16 MiB and more", True), ("less", False)):
            errors = [abs(row.error) for row in rows if row.kind == kind and (row.nbytes >= LARGE) == large]
            if errors:
                good, mean = sum(each <= within for each in errors), sum(errors) / len(errors)
                lines.append(f"{f'{kind}, {words}':40}{len(errors):6}{good:12}{mean:8.1%}{max(errors):8.1%}")
    return "\n".join(lines)
