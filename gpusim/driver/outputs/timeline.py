"""All launches and copies of a program on one timeline for Perfetto: `--trace FILE`.

One nanosecond of the viewer's axis is one of simulated time. Launches lie on a track for each stream, copies and fills
on one for each direction. Those that engines do one after the other are slices, others moments, at their end. Ranges
of the program (NVTX) lie above, by the host's clock.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpusim.config import GPUConfig
from gpusim.driver.codes import say
from gpusim.driver.objects import NamedRange
from gpusim.driver.work.launches import CopyCall, LaunchCall, Observer
from gpusim.errors import KernelError, SimulationError
from gpusim.tracing.perfetto import TrackWriter, write_packets
from gpusim.units import counted
from isa.demangle import short_name

if TYPE_CHECKING:
    from gpusim.result import Result

_DIRECTIONS = {
    "HtoD": "copies from host to device",
    "DtoH": "copies from device to host",
    "DtoD": "copies from device to device",
    "HtoH": "copies from host to host",
    "fill": "fills",
}
_BY_ENGINES = ("HtoD", "DtoH")


class Timeline(Observer):
    """Collects events, some 300 bytes each, and writes them at the end, so that a file is a whole one."""

    def __init__(self, path: Path, config: GPUConfig):
        self.path, self.config = path, config
        self._writer = TrackWriter()
        self._whole = self._writer.track(f"{config.gpu.name}, simulated time")
        self._tracks: dict[str, int] = {}
        self._launches = self._copies = 0
        self._starts: dict[int, int] = {}
        self._threads: dict[int, int] = {}
        self._ranges: list[tuple[int, int, int, str]] = []

    def launching(self, call: LaunchCall, cycle: int) -> None:
        self._starts[call.number] = cycle

    def launched(self, call: LaunchCall, result: Result, cycle: int) -> None:
        self._launch(call, cycle, {"limited by": result.limiter.kind, "cycles": f"{result.cycles:,}"})

    def failed(self, call: LaunchCall, error: SimulationError, cycle: int) -> None:
        if isinstance(error, KernelError):
            self._launch(call, cycle, {"error": str(error)})
        self._starts.pop(call.number, None)

    def _launch(self, call: LaunchCall, cycle: int, more: dict[str, str]) -> None:
        launch = call.launch
        facts = {
            "launch": f"{call.number:,}",
            "kernel": call.name,
            "grid": str(launch.grid),
            "block": str(launch.block),
            "dynamic shared memory": f"{launch.shared_bytes:,} bytes",
        }
        facts |= {"NVTX range": call.nvtx_range} if call.nvtx_range else {}
        track = self._track("default stream" if call.stream == 0 else f"stream {call.stream:#x}", 0)
        name = short_name(call.symbol)
        self._writer.slice(track, self._ns(self._starts.pop(call.number)), self._ns(cycle), name, facts | more)
        self._launches += 1

    def copied(self, copy: CopyCall, cycle: int, began: int) -> None:
        facts = {"bytes": f"{copy.nbytes:,}", "to": f"{copy.target:#x}", "stream": f"{copy.stream:#x}"}
        facts["value" if copy.kind == "fill" else "from"] = f"{copy.source:#x}"
        track, name = self._track(_DIRECTIONS[copy.kind], 1), f"{copy.nbytes:,} bytes"
        if copy.kind in _BY_ENGINES and began < cycle:
            self._writer.slice(track, self._ns(began), self._ns(cycle), name, facts)
        else:
            self._writer.instant(track, self._ns(cycle), name, facts)
        self._copies += 1

    def ranged(self, ended: NamedRange, cycle: int) -> None:
        if ended.handle:  # these overlap in any way, so each has a track; the viewer joins those of one name
            track = self._writer.track("started ranges", self._whole, -1)
        else:
            number = self._threads.setdefault(id(ended.thread), len(self._threads) + 1)
            track = self._track(f"ranges of thread {number}" + (f", {ended.domain}" if ended.domain else ""), -2)
        self._ranges.append((track, self._ns(ended.began), self._ns(cycle), ended.name))

    def _track(self, name: str, rank: int) -> int:
        if name not in self._tracks:
            self._tracks[name] = self._writer.track(name, self._whole, rank)
        return self._tracks[name]

    def _ns(self, cycle: int) -> int:
        return round(1000 * self.config.time_us(cycle))

    def close(self) -> None:
        for track, start, end, name in reversed(self._ranges):  # of those at one time the outer one first
            if start < end:
                self._writer.slice(track, start, end, name, {})
            else:
                self._writer.instant(track, end, name, {})
        try:
            write_packets(self._writer.packets(), self.path)
        except OSError as error:
            say(f"--trace {self.path}: {error.strerror}")
            return
        say(f"{self.path}: {counted(self._launches, 'launch')} and {self._copies:,} copies and fills")
