"""One program under `gpusim exec`, with a limit on its time, and what is to be made of what it said."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gpusim
from validate import gpu as gpu_side
from validate.suite.listing import Listed

PASSED, FAILED, REFUSED, TIMEOUT, SILENT, MISSING, EXCLUDED = (
    "passed", "failed", "refused", "timeout", "no verdict", "missing", "excluded",
)  # fmt: skip
_NEWS = ("gpusim: compiling", "gpusim: ready", "gpusim: note")
_FUNCTIONS_COMPILED = re.compile(r"gpusim: [\d,]+ functions, now ")
_MOST_READ = 1 << 20  # bytes at the end of a stream
_MOST_SAID = 160


@dataclass(frozen=True)
class Trial:
    """What came out. reason: why it did not pass, in a line. launches, instructions: of all its kernels, warp
    instructions. digest: of executable and arguments."""

    name: str
    mode: str
    verdict: str
    reason: str = ""
    seconds: float = 0.0
    launches: int = 0
    instructions: int = 0
    digest: str = ""


def digest_of(entry: Listed) -> str:
    """What tells whether a program is still the one that was tried."""
    made = hashlib.blake2b(repr(entry.arguments).encode(), digest_size=12)
    with contextlib.suppress(OSError):
        made.update(entry.program.read_bytes())
    return made.hexdigest()


def try_program(name: str, entry: Listed, mode: str, timeout_s: float, threads: int | None, gpu: str) -> Trial:
    """Run a program. mode: as `gpusim exec` takes it."""
    if entry.excluded:
        return Trial(name, mode, EXCLUDED, entry.excluded)
    if not os.access(entry.program, os.X_OK) or not entry.program.is_file():
        return Trial(name, mode, MISSING, "there is no such executable")
    with tempfile.TemporaryDirectory(prefix="gpusim-suite-", ignore_cleanup_errors=True) as made:
        scratch = Path(made)
        report, folder = scratch / "launches.json", entry.folder or scratch / "empty"
        (scratch / "empty").mkdir()
        if not folder.is_dir():
            return Trial(name, mode, MISSING, f"there is no folder {folder.name}")
        command = [sys.executable, "-m", "gpusim.cli", "exec", "--json", "--output", str(report), "--gpu", gpu]
        command += [f"--{mode}"] if mode != "detailed" else []
        command += ["--threads", str(threads)] if threads else []
        began = time.monotonic()
        here = {"PYTHONPATH": str(Path(gpusim.__file__).parents[1])}  # the folder may hold another one
        with open(scratch / "stdout", "w+b") as out, open(scratch / "stderr", "w+b") as err:
            line = [*command, str(entry.program), *entry.arguments]
            status = gpu_side.run_into(line, timeout_s, out, err, folder, here)
        seconds = time.monotonic() - began
        said, complaints = (list(_lines(scratch / each)) for each in ("stdout", "stderr"))
        verdict, reason = TIMEOUT, f"over {timeout_s:,.0f} s"
        if status is not None:
            verdict, reason = judge(entry, status, said, complaints)
        launches, instructions = _counts(report)
    return Trial(name, mode, verdict, reason, seconds, launches, instructions, digest_of(entry))


def judge(entry: Listed, status: int, said: list[str], complaints: list[str]) -> tuple[str, str]:
    """(verdict, reason). said, complaints: lines of standard output and error."""
    lines = [*said, *complaints]
    wrong = next((line for line in lines if re.search(entry.fails, line)), None)
    if status == 0 and wrong is None:
        if any(re.search(entry.passes, line) for line in lines):
            return PASSED, ""
        return SILENT, short(said[-1] if said else "it prints nothing")
    ours = [line for line in complaints if line.startswith("gpusim: ") and not _is_news(line)]
    if ours:
        return REFUSED, short(ours[0].removeprefix("gpusim: "))
    what = wrong or next((line for line in reversed([*said, *complaints]) if line.strip()), "")
    return FAILED, short(f"status {status}: {what}" if status else what)


def _is_news(line: str) -> bool:
    return line.startswith(_NEWS) or _FUNCTIONS_COMPILED.match(line) is not None


def short(text: str) -> str:
    """A line of it."""
    text = " ".join(text.split())
    return text if len(text) <= _MOST_SAID else text[: _MOST_SAID - 3] + "..."


def _lines(path: Path) -> Iterator[str]:
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _MOST_READ))
        yield from stream.read().decode(errors="replace").splitlines()


def _counts(report: Path) -> tuple[int, int]:
    """Launches and warp instructions of all processes."""
    try:
        told = json.loads(report.read_text())
    except (OSError, ValueError):
        return 0, 0
    rows = [row for each in (told if isinstance(told, list) else [told]) for row in each["launches"]]
    return sum(row["calls"] for row in rows), sum(row["instructions"] for row in rows)
