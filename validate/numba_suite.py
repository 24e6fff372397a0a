"""numba-cuda's own test suite on the simulated GPU: run it, keep what came out, print the score.

Each file of tests runs in a process of its own (`numba_worker.py`), so a crash costs one test, and a run that was
interrupted goes on where it stopped. The score counts the tests whose features exist on one GPU: what
`numba_suite.toml` excludes, with a reason for each, and what the suite itself skips do not count.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from gpusim.driver.numba_cuda import environment
from isa.folders import cache_folder
from validate.numba_worker import EXIT_SPOILED
from validate.pool import compile_engine

FOLDERS = ("doc_examples", "cudadrv", "cudapy", "nrt", "core", "nocuda")
RULES = Path(__file__).with_name("numba_suite.toml")
GRACE_S = 60
"""A process that is silent for longer than a test's limit and this is ended."""
_PASSED, _COUNTED = "passed", ("passed", "failed", "error", "timeout", "crashed")


@dataclass(frozen=True)
class SuiteOutcome:
    """What became of a test. launches: kernels that it launched in its own process. reason: why it does not count, or
    is known to fail."""

    test: str
    outcome: str
    detail: str = ""
    seconds: float = 0.0
    launches: int = 0
    excluded: str | None = None
    known: str | None = None


def test_files(only: Sequence[str] = ()) -> list[str]:
    """Module names of the suite's files, in the order of FOLDERS; those whose name holds one of `only`."""
    found = importlib.util.find_spec("numba_cuda")
    if found is None or found.origin is None:
        raise FileNotFoundError("numba-cuda is not installed")
    root = Path(found.origin).parent / "numba" / "cuda" / "tests"
    names = [
        f"numba.cuda.tests.{folder}.{path.stem}"
        for folder in FOLDERS
        for path in sorted((root / folder).glob("test_*.py"))
    ]
    return [name for name in names if not only or any(part in name for part in only)]


def run(
    only: Sequence[str] = (), *, gpu: str = "h200", timeout_s: int = 60, fresh: bool = False, folder: Path | None = None
) -> Iterator[tuple[str, list[SuiteOutcome]]]:
    """(file, outcomes) of each file of tests, as they are done. What an earlier run has left in `folder` (default: in
    the cache folder) is taken over, unless `fresh`."""
    folder = folder or cache_folder() / "numba-suite"
    folder.mkdir(parents=True, exist_ok=True)
    compile_engine()  # once, before the limit of a test counts the minutes that this takes
    for module in test_files(only):
        results, done = folder / f"{module}.jsonl", folder / f"{module}.done"
        if fresh:
            results.unlink(missing_ok=True)
            done.unlink(missing_ok=True)
        if not done.exists():
            _run_file(module, results, gpu, timeout_s)
            done.touch()
        yield module, outcomes(results)


def _run_file(module: str, results: Path, gpu: str, timeout_s: int) -> None:
    """Run the tests of a file, in as many processes as it takes."""
    while True:
        before = results.stat().st_size if results.exists() else 0
        status = _run_process(module, results, gpu, timeout_s)
        if status == 0:
            return
        open_test = _last_started(results)
        if status != EXIT_SPOILED and open_test is None:
            short = module.removeprefix("numba.cuda.tests.")
            _append(results, test=short, outcome="crashed", detail=f"no test started, status {status}")
            return
        if open_test is not None:
            kind = "timeout" if status is None else "crashed"
            _append(results, test=open_test, outcome=kind, detail=f"the process ended with status {status}")
        if results.stat().st_size == before:
            return


def _run_process(module: str, results: Path, gpu: str, timeout_s: int) -> int | None:
    """Exit status of a process, None if it had to be ended."""
    command = [sys.executable, "-m", "validate.numba_worker", str(results), str(timeout_s), module]
    log = results.with_suffix(".log")
    with log.open("ab") as stream:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=os.environ | environment({"gpu": gpu, "threads": 1}),
        )
        silent_s, size = 0, 0
        while True:
            try:
                return child.wait(1)
            except subprocess.TimeoutExpired:  # counted, not timed: a suspended run is not a silent one
                now = results.stat().st_size if results.exists() else 0
                silent_s, size = (0, now) if now != size else (silent_s + 1, size)
                if silent_s > timeout_s + GRACE_S:
                    child.kill()
                    child.wait()
                    return None


def _lines(results: Path) -> list[dict]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def _last_started(results: Path) -> str | None:
    """The test that was running when the process ended."""
    lines = _lines(results)
    return lines[-1]["test"] if lines and lines[-1]["outcome"] == "started" else None


def _append(results: Path, **fields: object) -> None:
    with results.open("a") as stream:
        stream.write(json.dumps(fields) + "\n")


def outcomes(results: Path) -> list[SuiteOutcome]:
    """Outcomes that a file of results holds, by the rules of numba_suite.toml."""
    rules = tomllib.loads(RULES.read_text())
    latest = {line["test"]: line for line in _lines(results) if line["outcome"] != "started"}
    return [
        SuiteOutcome(**line, excluded=_reason(rules["excluded"], test), known=_reason(rules["failing"], test))
        for test, line in latest.items()
    ]


def _reason(rules: dict[str, str], test: str) -> str | None:
    """Why a rule names a test."""
    return next((reason for pattern, reason in rules.items() if fnmatch.fnmatchcase(test, pattern)), None)


def score(rows: Sequence[SuiteOutcome]) -> dict[str, object]:
    """Counts: how many tests there are, count, pass; the same for those that launch kernels."""
    counted = [row for row in rows if row.excluded is None and row.outcome in _COUNTED]
    launching = [row for row in counted if row.launches]
    passed, passed_launching = ([r for r in part if r.outcome == _PASSED] for part in (counted, launching))
    return {
        "numba_cuda": metadata.version("numba-cuda"),
        "tests": len(rows),
        "excluded": sum(row.excluded is not None for row in rows),
        "skipped": sum(row.outcome == "skipped" and row.excluded is None for row in rows),
        "counted": len(counted),
        "passed": len(passed),
        "launching": len(launching),
        "launching_passed": len(passed_launching),
        "outcomes": dict(Counter(row.outcome for row in counted)),
        "unexpected": [r.test for r in counted if r.outcome != _PASSED and r.known is None],
        "fixed": [r.test for r in counted if r.outcome == _PASSED and r.known is not None],
    }


def score_text(counts: dict) -> str:
    """The score in words."""
    share = 100 * counts["passed"] / max(counts["counted"], 1)
    launching = 100 * counts["launching_passed"] / max(counts["launching"], 1)
    return (
        f"numba-cuda {counts['numba_cuda']}: {counts['passed']:,} of {counts['counted']:,} tests pass ({share:.1f} %); "
        f"of those that launch kernels {counts['launching_passed']:,} of {counts['launching']:,} ({launching:.1f} %). "
        f"{counts['excluded']:,} excluded, {counts['skipped']:,} skipped by the suite itself."
    )
