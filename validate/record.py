"""Record what a real GPU does with the bundled programs: results, times by events, counters by ncu.

Needs a GPU, CuPy and Nsight Compute; compiles nothing, since it runs the cubins of the program images. Each
family is profiled by a run of ncu of its own, so that a failure costs one family, not the recording.
"""

from __future__ import annotations

import datetime
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpusim.results.profile import ProfileError
from validate import ncu
from validate.metrics import CYCLES, RECORDED
from validate.points import ProgramPoint, select

FORMAT = 1
RAW_NAME = "recording.json.gz"
TIME_REPEATS = 31
_DEVICE_FACTS = (
    "device__attribute_clock_rate",
    "device__attribute_memory_clock_rate",
    "device__attribute_l2_cache_size",
    "device__attribute_ecc_enabled",
)
SMI_FIELDS = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,temperature.gpu"
_LAUNCH_FACTS = (
    "launch__occupancy_limit",
    "launch__waves",
    "launch__shared_mem_",
    "profiler__replayer_passes",
)


def record(
    out: Path,
    only: Sequence[str] = (),
    *,
    sizes: str = "all",
    repeats: int = 3,
    seconds: float = 480.0,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Record the chosen points into `out`/recording.json.gz and return the document.

    repeats: launches of each point under ncu. seconds: limit of the whole recording; what was not reached in
    time is listed under 'failures'.
    """
    started = time.monotonic()

    def left() -> float:
        return seconds - (time.monotonic() - started)

    def note(text: str) -> None:
        say(f"[{time.monotonic() - started:6.1f} s] {text}")

    out.mkdir(parents=True, exist_ok=True)
    points = select(only, sizes)
    document: dict[str, Any] = {
        "format": FORMAT,
        "provenance": {
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "ncu": _first_line_with("Version", ["ncu", "--version"]),
            "smi_before": _smi(),
            "cache_control": "all (ncu flushes before every pass)",
            "clock_control": "none",
        },
        "points": {},
        "failures": {},
    }

    def keep() -> None:
        with gzip.open(out / RAW_NAME, "wt") as file:
            json.dump(document, file)

    note(f"{len(points)} points, {repeats} profiled launches each")
    _record_times(document, points, min(left(), 150.0), note)
    document["provenance"]["smi_after_times"] = _smi()
    keep()
    with tempfile.TemporaryDirectory() as folder:
        pilot = _worker("counters", Path(folder, "pilot.json"), 1, 60.0, points[:1])
        known, unknown = ncu.supported(pilot, RECORDED, timeout_s=max(10.0, min(90.0, left())))
    document["unknown_metrics"] = unknown
    note(f"{len(known)} metrics known, not known: {', '.join(unknown) or 'none'}")
    if not known:
        document["failures"]["ncu"] = "ncu collected none of the metrics"
        keep()
        return document
    families: dict[str, list[ProgramPoint]] = {}
    for point in points:
        families.setdefault(point.program.family, []).append(point)
    for family, members in families.items():
        _record_counters(document, family, members, known, repeats, left() - 5.0, note)
        keep()
    note("done")
    return document


def _record_times(
    document: dict[str, Any], points: list[ProgramPoint], seconds: float, note: Callable[[str], None]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "times.json")
        line = _worker("times", out, TIME_REPEATS, seconds - 10.0, points)
        try:
            done = subprocess.run(line, capture_output=True, text=True, timeout=max(seconds, 10.0))
        except subprocess.TimeoutExpired:
            document["failures"]["times"] = "timed out"
            note("times: timed out")
            return
        if done.returncode:
            document["failures"]["times"] = done.stderr[-4000:]
            note(f"times failed: {done.stderr[-1500:]}")
            return
        found = json.loads(out.read_text())
    document["provenance"].update(found["device"], event_overhead_us=found["event_overhead_us"])
    for row in found["rows"]:
        document["points"].setdefault(row.pop("point"), {}).update(row)
    bad = [name for name, row in document["points"].items() if not row["check"]["ok"]]
    note(f"times of {len(found['rows'])} points; wrong outputs: {', '.join(bad) or 'none'}")


def _record_counters(
    document: dict[str, Any],
    family: str,
    points: list[ProgramPoint],
    metrics: Sequence[str],
    repeats: int,
    seconds: float,
    note: Callable[[str], None],
) -> None:
    if seconds < 15.0:
        document["failures"][family] = "no time left"
        note(f"{family}: no time left")
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "counters.json")
        line = _worker("counters", out, repeats, seconds - 10.0, points)
        try:
            done = ncu.profile(line, metrics, timeout_s=seconds)
            labels = json.loads(out.read_text())["rows"]
        except (ProfileError, OSError) as error:
            output = getattr(error, "output", "")
            document["failures"][family] = f"{error}\n{output[-6000:]}"
            note(f"{family} failed: {error}\n{output[-1500:]}")
            return
    if len(labels) != len(done.launches):
        document["failures"][family] = f"{len(labels)} launches made, {len(done.launches)} profiled"
        note(f"{family}: {document['failures'][family]}")
        return
    document["provenance"].setdefault("device_facts", _device_facts(done.launches[0].metrics))
    for label, launch in zip(labels, done.launches, strict=True):
        row = document["points"].setdefault(label["point"], {})
        if label.get("check", {}).get("ok") is False:
            document["failures"][label["point"]] = f"under ncu: {label['check']['mismatch']}"
        row.setdefault("profiles", []).append(
            {
                "kernel": launch.kernel,
                "grid": list(launch.grid),
                "block": list(launch.block),
                "metrics": _wanted(launch.metrics, metrics),
            }
        )
    passes = done.launches[0].metrics.get("profiler__replayer_passes", 0.0)
    note(f"{family}: {len(labels)} launches in {done.seconds:.1f} s, {passes:.0f} passes each")


def _wanted(found: dict[str, float], metrics: Sequence[str]) -> dict[str, float]:
    """What was asked for, and facts of the launch; ncu also prints hundreds of device attributes."""
    names = set(metrics)
    return {name: value for name, value in found.items() if name in names or name.startswith(_LAUNCH_FACTS)}


def _device_facts(found: dict[str, float]) -> dict[str, float]:
    return {name: found[name] for name in _DEVICE_FACTS if name in found}


def _worker(task: str, out: Path, repeats: int, seconds: float, points: Sequence[ProgramPoint]) -> list[str]:
    names = [str(point) for point in points]
    return [sys.executable, "-m", "validate.worker", task, str(out), str(repeats), f"{seconds:.0f}", *names]


def _smi() -> str:
    return _first_line_with("", ["nvidia-smi", f"--query-gpu={SMI_FIELDS}", "--format=csv,noheader"])


def _first_line_with(word: str, line: Sequence[str]) -> str:
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"failed: {error}"
    return next((text.strip() for text in done.stdout.splitlines() if word in text), "")


def table(document: dict[str, Any]) -> str:
    """A line for each point: result, median cycles and their spread over the repeats, times, instructions."""
    heads = ("cycles", 9), ("spread", 7), ("cold us", 8), ("warm us", 8), ("inst", 9)
    lines = [f"{'point':38s} {'result':>8s} " + " ".join(f"{head:>{width}s}" for head, width in heads)]
    for name, row in document["points"].items():
        check = row.get("check")
        result = "-" if check is None else "exact" if check["exact"] else "ok" if check["ok"] else "WRONG"
        cycles = [each["metrics"][CYCLES] for each in row.get("profiles", []) if CYCLES in each["metrics"]]
        middle = statistics.median(cycles) if cycles else float("nan")
        spread = 100 * (max(cycles) - min(cycles)) / middle if cycles else float("nan")
        cold, warm = (statistics.median(row.get(key) or [float("nan")]) for key in ("cold_us", "warm_us"))
        profiles = row.get("profiles") or [{"metrics": {}}]
        executed = profiles[0]["metrics"].get("smsp__inst_executed.sum", float("nan"))
        lines.append(
            f"{name:38s} {result:>8s} {middle:9.0f} {spread:6.1f}% {cold:8.2f} {warm:8.2f} {executed:9.0f}"
        )
    lines += [f"FAILED {name}: {reason.splitlines()[0]}" for name, reason in document["failures"].items()]
    return "\n".join(lines)
