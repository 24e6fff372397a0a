"""`python -m validate cuda-suite`: other people's CUDA programs under `gpusim exec`, judged by what they say.

A list is a TOML file that says how each program is called, and what its verdict looks like (`suite.toml` is one):

    [programs.saxpy]
    program = "bin/saxpy"         # relative to the list, or to --root
    arguments = ["1000", "3"]

Nothing is built here: programs come from wherever they are made, linked with the shared runtime library.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gpusim
from gpusim.host.options import host_threads
from validate import gpu as gpu_side
from validate.commands import EXIT_OK, EXIT_WRONG, UsageError

PASSED, FAILED, REFUSED, TIMEOUT, SILENT, MISSING = "passed", "failed", "refused", "timeout", "no verdict", "missing"
_NEWS = re.compile(r"gpusim: (compiling|ready|note|[\d,]+ functions, now )")
_MOST_READ = 1 << 20  # bytes at the end of a stream
_MOST_SAID = 160
_MARKDOWN, _ESCAPED = re.compile(r"([|<>*_`])"), r"\\\1"


@dataclass(frozen=True)
class Listed:
    """A program of a list. folder: where it runs, by default an empty one. passes, fails: what it prints, searched in
    each line of both its streams, if all is well, or if something is not; it passes with the first, without the
    second, and with status 0. detailed: small enough to be run with time as well."""

    program: Path
    arguments: Sequence[str] = ()
    folder: Path | None = None
    passes: str = r"(?i)\bpass(ed|es)?\b"
    fails: str = r"(?i)\bfail(s|ed|ure)?\b|\bmismatch"
    detailed: bool = False


@dataclass(frozen=True)
class Trial:
    """Outcome of a program. reason: why it did not pass, in a line. launches, instructions: of all its kernels, warp
    instructions."""

    name: str
    mode: str
    verdict: str
    reason: str = ""
    seconds: float = 0.0
    launches: int = 0
    instructions: int = 0


def read(path: Path, root: Path | None = None) -> dict[str, Listed]:
    """The programs of a list by name, with absolute paths. Raises UsageError."""
    here, where, found = (root or path.parent).resolve(), "", {}
    try:
        for name, entry in tomllib.loads(path.read_text("utf-8"))["programs"].items():
            where = f", program {name}"
            folder = {"folder": here / entry["folder"]} if "folder" in entry else {}
            found[name] = Listed(**entry | {"program": here / entry["program"]} | folder)
            for pattern in (found[name].passes, found[name].fails):
                re.compile(pattern)
    except (OSError, ValueError, re.error, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is no list{where}: {error}") from None
    return found


def command(options: argparse.Namespace) -> int:
    """`validate cuda-suite`: status 1 if a program does not pass. What has passed according to --results is not run."""
    mode = "detailed" if options.detailed else "functional"
    before = _results(options.results)
    passed = {row.name for row in before if (row.mode, row.verdict) == (mode, PASSED)}
    chosen = {name: entry for name, entry in read(options.suite, options.root).items()
              if options.only.search(name) and (entry.detailed or not options.detailed)}  # fmt: skip
    left = {name: entry for name, entry in chosen.items() if options.again or name not in passed}
    threads = max(1, host_threads(None) // options.jobs)
    found = [row for row in before if row.mode == mode and row.name in chosen.keys() - left.keys()]
    print(HEAD, *map(line, found), sep="\n", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        how = mode, options.timeout, threads, options.gpu
        for row in pool.map(lambda name: trial(name, left[name], *how), left):
            found.append(row)
            print(line(row), flush=True)
            before = [each for each in before if (each.name, each.mode) != (row.name, row.mode)] + [row]
            if options.results:
                made = options.results.with_suffix(".new")
                made.write_text(json.dumps([asdict(each) for each in before], indent=1), "utf-8")
                os.replace(made, options.results)
    print(f"\n{summary(found)}")
    if options.docs:
        from validate.scoring import documents

        documents.put("programs.md", "programs", table(before), fence="")
    return EXIT_OK if all(row.verdict == PASSED for row in found) else EXIT_WRONG


def _results(path: Path | None) -> list[Trial]:
    if path is None or not path.exists():
        return []
    try:
        return [Trial(**row) for row in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path} is no file of results: {error}") from None


# --- one program ------------------------------------------------------------------------------------------------------


# many parameters: a program, and how it is run
def trial(name: str, entry: Listed, mode: str, timeout_s: float, threads: int, gpu: str) -> Trial:
    """Run a program. mode: as `gpusim exec` takes it."""
    if not entry.program.is_file() or not os.access(entry.program, os.X_OK):
        return Trial(name, mode, MISSING, "there is no such executable")
    with tempfile.TemporaryDirectory(prefix="gpusim-suite-", ignore_cleanup_errors=True) as made:
        scratch = Path(made)
        report, folder = scratch / "launches.json", entry.folder or scratch / "empty"
        (scratch / "empty").mkdir()
        words = [sys.executable, "-m", "gpusim.cli", "exec", "--json", "--output", str(report), "--gpu", gpu]
        words += ["--threads", str(threads), *(["--functional"] if mode == "functional" else [])]
        words += [str(entry.program), *entry.arguments]
        began = time.monotonic()
        here = {"PYTHONPATH": str(Path(gpusim.__file__).parents[1])}  # the folder may hold another one
        with open(scratch / "stdout", "w+b") as out, open(scratch / "stderr", "w+b") as err:
            status = gpu_side.run_into(words, timeout_s, out, err, folder, here)
        verdict, reason = TIMEOUT, f"over {timeout_s:,.0f} s"
        if status is not None:
            verdict, reason = judge(entry, status, *(_lines(scratch / each) for each in ("stdout", "stderr")))
        return Trial(name, mode, verdict, reason, time.monotonic() - began, *_counts(report))


def judge(entry: Listed, status: int, said: list[str], complaints: list[str]) -> tuple[str, str]:
    """(verdict, reason). said, complaints: lines of standard output and error."""
    lines = [*said, *complaints]
    wrong = next((line for line in lines if re.search(entry.fails, line)), None)
    if status == 0 and wrong is None:
        if any(re.search(entry.passes, line) for line in lines):
            return PASSED, ""
        return SILENT, short(said[-1] if said else "it prints nothing")
    ours = [line for line in complaints if line.startswith("gpusim: ") and not _NEWS.match(line)]
    if ours:
        return REFUSED, short(ours[0].removeprefix("gpusim: "))
    what = wrong or next((line for line in reversed(lines) if line.strip()), "")
    return FAILED, short(f"status {status}: {what}" if status else what)


def short(text: str) -> str:
    """A line of it."""
    text = " ".join(text.split())
    return text if len(text) <= _MOST_SAID else text[: _MOST_SAID - 3] + "..."


def _lines(path: Path) -> list[str]:
    with open(path, "rb") as stream:
        stream.seek(max(0, path.stat().st_size - _MOST_READ))
        return stream.read().decode(errors="replace").splitlines()


def _counts(report: Path) -> tuple[int, int]:
    """Launches and warp instructions of all processes."""
    try:
        told: Any = json.loads(report.read_text())
    except (OSError, ValueError):
        return 0, 0
    rows = [row for each in (told if isinstance(told, list) else [told]) for row in each["launches"]]
    return sum(row["calls"] for row in rows), sum(row["instructions"] for row in rows)


# --- what is printed --------------------------------------------------------------------------------------------------

HEAD = f"{'program':34s} {'verdict':10s} {'launches':>8s} {'instructions':>13s} {'seconds':>8s}"


def line(row: Trial) -> str:
    """A row of the table."""
    counts = f"{row.launches:8,} {row.instructions:13,} {row.seconds:8.1f}"
    return f"{row.name:34s} {row.verdict:10s} {counts}  {row.reason}".rstrip()


def summary(rows: Iterable[Trial]) -> str:
    """Return how many of each verdict."""
    counts = Counter(row.verdict for row in rows)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()) or "no program of that name"


def table(rows: Iterable[Trial]) -> str:
    """All rows as Markdown: what passes, then the others with their reasons."""
    ordered = sorted(rows, key=lambda row: (row.mode, row.name))
    lines = ["| passes | mode | launches | warp instructions |", "|---|---|---:|---:|"]
    lines += [f"| {row.name} | {row.mode} | {row.launches:,} | {row.instructions:,} |"
              for row in ordered if row.verdict == PASSED]  # fmt: skip
    lines += ["", "| does not | mode | verdict | reason |", "|---|---|---|---|"]
    lines += [f"| {row.name} | {row.mode} | {row.verdict} | {_MARKDOWN.sub(_ESCAPED, row.reason)} |"
              for row in ordered if row.verdict != PASSED]  # fmt: skip
    return "\n".join([*lines, "", summary(ordered)])
