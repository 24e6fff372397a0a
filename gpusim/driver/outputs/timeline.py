"""All launches and copies of a program on one timeline for Perfetto: `--trace FILE`.

One nanosecond of the viewer's axis is one of simulated time. Launches and collectives lie on a track for each stream,
copies and fills on one for each direction, of several GPUs below each. Those that engines do one after the other are
slices, others moments, at their end. Ranges of the program (NVTX) lie above, by the host's clock.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpusim.config import GPUConfig
from gpusim.driver.codes import say
from gpusim.driver.objects import NamedRange
from gpusim.driver.work.launches import CopyCall, JointCall, LaunchCall, Observer
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
        self._gpus = {0: self._whole}
        self._tracks: dict[tuple[int, str], int] = {}
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
        track = self._stream(call.gpu, call.stream)
        name = short_name(call.symbol)
        self._writer.slice(track, self._ns(self._starts.pop(call.number)), self._ns(cycle), name, facts | more)
        self._launches += 1

    def joined(self, call: JointCall, cycle: int, came: int, began: int) -> None:
        facts = {"bytes": f"{call.nbytes:,}", "GPUs": str(call.ranks), "algorithm": call.how, "busiest link": call.link}
        facts["waited for others"] = f"{self.config.time_us(began - came):,.2f} us"
        self._writer.slice(self._stream(call.gpu, call.stream), self._ns(came), self._ns(cycle), call.name, facts)

    def copied(self, copy: CopyCall, cycle: int, began: int) -> None:
        facts = {"bytes": f"{copy.nbytes:,}", "to": f"{copy.target:#x}", "stream": f"{copy.stream:#x}"}
        facts["value" if copy.kind == "fill" else "from"] = f"{copy.source:#x}"
        peer = copy.source_gpu != copy.target_gpu
        way = f"copies to GPU {copy.target_gpu}" if peer else _DIRECTIONS[copy.kind]
        track, name = self._track(way, 1, copy.source_gpu), f"{copy.nbytes:,} bytes"
        if (peer or copy.kind in _BY_ENGINES) and began < cycle:
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

    def _stream(self, gpu: int, handle: int) -> int:
        return self._track("default stream" if handle == 0 else f"stream {handle:#x}", 0, gpu)

    def _track(self, name: str, rank: int, gpu: int = 0) -> int:
        if gpu not in self._gpus:
            self._gpus[gpu] = self._writer.track(f"GPU {gpu}", self._whole, gpu)
        if (gpu, name) not in self._tracks:
            self._tracks[gpu, name] = self._writer.track(name, self._gpus[gpu], rank)
        return self._tracks[gpu, name]

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
