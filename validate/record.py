"""Record what a real GPU does with the bundled programs: results, times by events, counters by ncu.

Needs a GPU and Nsight Compute; compiles nothing, since it runs the cubins of the program images. Each family is
profiled by a run of ncu of its own, so that a failure costs one family, not the recording.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gpusim.results.profile import ProfiledLaunch, parse_profile
from validate import gpu
from validate.metrics import RECORDED, WARM
from validate.points import ProgramPoint, select

FORMAT = 2
RAW_NAME = "recording.json.gz"
TIME_REPEATS = 31
_LAUNCH_FACTS = ("launch__occupancy_limit", "launch__waves", "launch__shared_mem_", "profiler__replayer_passes")


class RecordingFailed(RuntimeError):
    """A part of a recording that could not be made, with what was printed."""


class ProgramRecorder:
    """One recording: its document, which is written after each step, and its time limit."""

    def __init__(self, out: Path, seconds: float, say: Callable[[str], None]) -> None:
        self.out, self.seconds, self._say, self._started = out, seconds, say, time.monotonic()
        out.mkdir(parents=True, exist_ok=True)
        found = gpu.provenance()
        self.document: dict[str, Any] = {
            "format": FORMAT,
            "provenance": {
                "date": found["date"], "ncu": f"Version {found['ncu']}", "smi_before": found["smi"],
                "cache_control": "all (ncu flushes before every pass)", "clock_control": "none",
            },
            "points": {},
            "failures": {},
        }  # fmt: skip

    def left(self) -> float:
        """Seconds until the limit."""
        return self.seconds - (time.monotonic() - self._started)

    def note(self, text: str) -> None:
        """Say what happens, with the time."""
        self._say(f"[{time.monotonic() - self._started:6.1f} s] {text}")

    def keep(self) -> None:
        """Write the document."""
        with gzip.open(self.out / RAW_NAME, "wt") as file:
            json.dump(self.document, file)

    def step(self, name: str, work: Callable[[], str]) -> None:
        """Do a part of the work and note what it says; its failure is written down and ends nothing else."""
        try:
            self.note(f"{name}: {work()}")
        except (RecordingFailed, OSError, ValueError) as error:
            self.document["failures"][name] = str(error)[-6000:]
            self.note(f"{name} failed: {str(error)[-1500:]}")
        self.keep()

    def times(self, points: Sequence[ProgramPoint]) -> str:
        """Times and results of the points."""
        found = _worker("times", TIME_REPEATS, min(self.left(), 150.0), points, None)[0]
        provenance = self.document["provenance"]
        provenance |= found["device"] | {"event_overhead_us": found["event_overhead_us"]}
        provenance["smi_after_times"] = gpu.provenance()["smi"]
        for row in found["rows"]:
            self.document["points"].setdefault(row.pop("point"), {}).update(row)
        bad = [name for name, row in self.document["points"].items() if not row["check"]["ok"]]
        return f"of {len(found['rows'])} points; wrong outputs: {', '.join(bad) or 'none'}"

    def counters(
        self, points: Sequence[ProgramPoint], metrics: Sequence[str], repeats: int, task: str = "counters"
    ) -> str:
        """Counters of points, with task 'warm' of launches after the same one."""
        if self.left() < 15.0:
            raise RecordingFailed("no time left")
        # Of two launches in a row only the second one is warm.
        which = slice(1, None, 2) if task == "warm" else slice(None)
        found, launches = _worker(task, repeats, self.left() - 5.0, points, metrics)
        wanted = set(metrics)
        for label, launch in zip(found["rows"][which], launches[which], strict=True):
            if label.get("check", {}).get("ok") is False:
                self.document["failures"][label["point"]] = f"under ncu: {label['check']['mismatch']}"
            # ncu also prints hundreds of device attributes.
            kept = {k: v for k, v in launch.metrics.items() if k in wanted or k.startswith(_LAUNCH_FACTS)}
            about = {"kernel": launch.kernel, "grid": list(launch.grid), "block": list(launch.block), "metrics": kept}
            row = self.document["points"].setdefault(label["point"], {})
            row.setdefault("profiles" if task == "counters" else task, []).append(about)
        return f"{len(launches[which])} launches"


def record(
    out: Path, only: Sequence[str] = (), *, sizes: str = "all", repeats: int = 3, seconds: float = 600.0,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:  # fmt: skip
    """Record the chosen points into `out`/recording.json.gz and return the document.

    repeats: launches of each point under ncu. seconds: limit of the whole recording; what was not reached in
    time is listed under 'failures'.
    """
    points = select(only, sizes)
    recorder = ProgramRecorder(out, seconds, say)
    recorder.note(f"{len(points)} points, {repeats} profiled launches each")
    recorder.step("times", lambda: recorder.times(points))
    known: list[str] = []

    def metrics() -> str:
        known.extend(supported(points[0], RECORDED, recorder.left()))
        unknown = recorder.document["unknown_metrics"] = [name for name in RECORDED if name not in known]
        return f"{len(known)} known, not known: {', '.join(unknown) or 'none'}"

    recorder.step("metrics", metrics)
    families: dict[str, list[ProgramPoint]] = {}
    for point in points if known else ():
        families.setdefault(point.program.family, []).append(point)
    for family, members in families.items():
        recorder.step(family, lambda members=members: recorder.counters(members, known, repeats))  # type: ignore[misc]
    if known:
        recorder.step("warm", lambda: recorder.counters(points, WARM, repeats, "warm"))
    return recorder.document


def supported(point: ProgramPoint, metrics: Sequence[str], seconds: float) -> list[str]:
    """Return the `metrics` that ncu collects. It refuses a whole run for one unknown name, so the names that it
    complains about are left out until it accepts the rest. Raises RecordingFailed."""
    names = list(metrics)
    while names:
        try:
            launches = _worker("counters", 1, min(60.0, seconds), [point], names)[1]
            return [name for name in names if name in launches[0].metrics]
        except RecordingFailed as error:
            if not (bad := complaints(str(error), names)):
                raise
            names = [name for name in names if name not in bad]
    return names


def complaints(output: str, metrics: Sequence[str]) -> list[str]:
    """Return the `metrics` that an ==ERROR== or ==WARNING== line of ncu names, in their order."""
    lines = [line for line in output.splitlines() if line.startswith(("==ERROR==", "==WARNING=="))]
    named = {word.strip(".:;,'\"") for line in lines for word in line.replace(",", " ").split()}
    return [metric for metric in metrics if metric in named]


def _worker(
    task: str, repeats: int, seconds: float, points: Sequence[ProgramPoint], metrics: Sequence[str] | None
) -> tuple[dict[str, Any], list[ProfiledLaunch]]:
    """Return what `validate.worker` writes of a task, and what ncu counted of its launches if metrics are asked for.
    Raises RecordingFailed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.json")
        line = [sys.executable, "-m", "validate.worker", task, str(out), str(repeats), f"{seconds - 10.0:.0f}"]
        line += map(str, points)
        if metrics is None:
            status, printed = gpu.run(line, seconds)
            launches: list[ProfiledLaunch] = []
        else:
            options = ("--cache-control", "none") if task == "warm" else ()
            counted = gpu.count(line, metrics, timeout_s=seconds, options=options)
            status, printed = counted.status, counted.csv[-2000:] + counted.printed
            launches = parse_profile(counted.csv) or parse_profile(counted.printed)
        if status or status is None or not out.exists():
            raise RecordingFailed(f"timed out\n{printed}" if status is None else printed)
        found = json.loads(out.read_text())
    if metrics is not None and (not launches or len(found["rows"]) != len(launches)):
        raise RecordingFailed(f"{len(found['rows'])} launches made, {len(launches)} profiled\n{printed}")
    return found, launches


def command(options: argparse.Namespace) -> int:
    """`validate record`: status 1 if a result is wrong or something failed."""
    say = partial(print, flush=True)
    document = record(
        options.out, options.only, sizes=options.size, repeats=options.repeats, seconds=options.seconds, say=say
    )
    wrong = [name for name, row in document["points"].items() if not row.get("check", {}).get("ok")]
    return 1 if wrong or document["failures"] else 0
