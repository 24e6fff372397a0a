"""Run Nsight Compute's command line and read what it prints.

One `profile` call runs one program under `ncu` and gives one record per kernel launch, in launch order.
Clocks are left as they are (`--clock-control none`) and caches are flushed before every replay pass (ncu's
default), so each launch is measured cold. Values are in base units (ns, bytes, cycles).
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusim.results.profile import ProfiledLaunch, ProfileError, parse_profile

_TABLE = ["--csv", "--page", "raw", "--print-units", "base"]


class NcuError(ProfileError):
    """ncu could not be run, ran out of time, or printed no table. `.output` holds what it printed."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


@dataclass(frozen=True)
class ProfiledProgram:
    """All launches of one profiled program, ncu's own messages, and the wall time in seconds."""

    launches: list[ProfiledLaunch]
    output: str
    seconds: float


def profile(program: Sequence[str], metrics: Sequence[str], *, timeout_s: float, ncu: str = "ncu") -> ProfiledProgram:
    """Run `program` under ncu and read the table of all its launches.

    Raises:
        NcuError: ncu is missing, ran longer than `timeout_s`, or profiled no launch.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.log"
        options = ["--clock-control", "none", *_TABLE, "--metrics", ",".join(metrics), "--log-file", str(log)]
        printed = _run([ncu, *options, *program], timeout_s)
        text = log.read_text(errors="replace") if log.exists() else ""
    launches = parse_profile(text) or parse_profile(printed)
    output = "\n".join(part for part in (printed, _messages(text)) if part)
    if not launches:
        raise NcuError(f"ncu profiled no launch of {' '.join(program)}", output)
    return ProfiledProgram(launches, output, time.monotonic() - started)


def complaints(output: str, metrics: Sequence[str]) -> list[str]:
    """Those of `metrics` that an ==ERROR== or ==WARNING== line of ncu names, in the order of `metrics`."""
    named: set[str] = set()
    for line in output.splitlines():
        if line.startswith(("==ERROR==", "==WARNING==")):
            named.update(line.replace(",", " ").replace("'", " ").replace('"', " ").split())
    named |= {word.rstrip(".:;") for word in named}
    return [metric for metric in metrics if metric in named]


def supported(
    program: Sequence[str], metrics: Sequence[str], *, timeout_s: float, ncu: str = "ncu"
) -> tuple[list[str], list[str]]:
    """Split `metrics` into those that ncu collects for `program` and those that it does not know.

    ncu refuses a whole run for one unknown name. The names it complains about are dropped; where it names
    none, the list is halved until the culprit stands alone. `program` should make one short launch. When
    `timeout_s` is used up, what was not yet tried counts as unknown.
    """
    deadline = time.monotonic() + timeout_s
    known: list[str] = []
    waiting = [list(metrics)]
    while waiting:
        group = waiting.pop(0)
        left = deadline - time.monotonic()
        if not group or left < 1.0:
            continue
        try:
            done = profile(program, group, timeout_s=left, ncu=ncu)
        except NcuError as error:
            bad = complaints(error.output, group)
            if bad:
                waiting.insert(0, [metric for metric in group if metric not in bad])
            elif len(group) > 1:
                half = len(group) // 2
                waiting[:0] = [group[:half], group[half:]]
            continue
        known += [metric for metric in group if metric in done.launches[0].metrics]
    return known, [metric for metric in metrics if metric not in known]


def _run(line: Sequence[str], timeout_s: float) -> str:
    """Standard output and error of a command; the process group it started is ended at the time limit."""
    try:
        process = subprocess.Popen(
            list(line),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise NcuError(f"cannot run {line[0]}: {error}") from error
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise NcuError(f"{line[0]} ran longer than {timeout_s:.0f} s", output) from error
    return output


def _messages(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.startswith("=="))
