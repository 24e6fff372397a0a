"""Run CuPy's own tests on the simulated GPU folder by folder, and count what passes."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from gpusim.driver.numba_cuda import environment
from validate.cupy_suite.inside import SKIPPED, rows
from validate.suite.trial import EXCLUDED, FAILED, PASSED, TIMEOUT

EXIT_OK, EXIT_WRONG, EXIT_USAGE = 0, 1, 2
_PARTS = "tests/cupy_tests", "tests/cupyx_tests"
_NOT_RUN = {
    r"cupyx_tests/distributed_tests": "needs several GPUs",
    r"/(test_texture|test_cutensor|test_nccl|test_cudnn)\.py": "needs textures, or a library of the vendor's",
    r"/test_(cufft|cusolver|cusparse|cusparselt)\.py": "tests a wrapper of a library of the vendor's",
}
"""Files that are not run, and why; other tests that need what is not there are known by how they fail (`inside.py`)."""
_DONE = PASSED, SKIPPED, EXCLUDED
_COLLECTING_S = 600.0


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    checkout = options.checkout.resolve()
    files = sorted(path.relative_to(checkout) for part in _PARTS for path in (checkout / part).rglob("test_*.py"))
    if not files:
        print(f"validate: error: there are no tests of CuPy in {checkout}", file=sys.stderr)
        return EXIT_USAGE
    results = options.results.resolve()
    if not options.list:
        chosen = [each for each in files if re.search(options.only, each.as_posix()) and not _excluded(each)]
        again = {*chosen, *(each.parent for each in chosen)}
        kept = [row for row in rows(results) if row.get("verdict") in _DONE or _file(row) not in again]
        results.write_text("".join(json.dumps(row) + "\n" for row in kept), "utf-8")
        for folder, inside in groupby(chosen, key=lambda path: path.parent):
            _run(checkout, [*inside], results, options)
            print(_line(str(folder), [row for row in rows(results) if _file(row).parent == folder]), flush=True)
    found = rows(results)
    for row in found:
        if options.list and row["verdict"] in (FAILED, TIMEOUT):
            print(f"{row['test']}  {row['reason']}")
    print(table(found))
    if options.docs:
        from validate.scoring import documents

        documents.put("cupy.md", "table", table(found))
    return EXIT_OK if all(row["verdict"] not in (FAILED, TIMEOUT) for row in found) else EXIT_WRONG


def _file(row: dict[str, Any]) -> Path:
    return Path(row["test"].split("::")[0])


def _excluded(path: Path) -> str:
    return next((why for pattern, why in _NOT_RUN.items() if re.search(pattern, path.as_posix())), "")


def _run(checkout: Path, files: Sequence[Path], results: Path, options: argparse.Namespace) -> None:
    """Run a folder's tests, in another process whenever one has ended the last."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    command += ["-p", "validate.cupy_suite.inside", "--cupy-suite", str(results)]
    command += ["--cupy-suite-sample", str(options.sample), *(str(checkout / each) for each in files)]
    # CuPy's own way to test with one of the many types of numbers instead of with each.
    one = environment({"mode": "functional"}) | {"CUPY_TEST_GPU_LIMIT": "1"}
    few = {"CUPY_TEST_RANDOM_SUBSAMPLE": "1", "_CUPY_TEST_SUBSAMPLE_SEED": "1"} if options.sample > 1 else {}
    while True:
        before = results.stat().st_size
        process = subprocess.Popen(
            command, cwd=checkout / "tests", env=os.environ | few | one,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            status = _wait(process, results, options.timeout)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        why = (FAILED, f"the process ended with status {status}") if status is not None else (TIMEOUT, "")
        unfinished = [row["test"] for row in rows(results) if "verdict" not in row]
        if status not in (0, 1, 5) and results.stat().st_size == before:
            unfinished = [str(files[0].parent)]
        with open(results, "a", encoding="utf-8") as file:
            for test in unfinished:
                file.write(json.dumps({"test": test, "verdict": why[0], "reason": why[1]}) + "\n")
        if status in (0, 1, 5) or results.stat().st_size == before:
            return


def _wait(process: subprocess.Popen[bytes], results: Path, timeout_s: float) -> int | None:
    """The status; None for one whose last line is too old."""
    size, since, limit = results.stat().st_size, time.monotonic(), _COLLECTING_S
    while process.poll() is None:
        time.sleep(0.2)
        if results.stat().st_size != size:
            size, since, limit = results.stat().st_size, time.monotonic(), timeout_s
        elif time.monotonic() - since > limit:
            return None
    return process.returncode


# --- what is printed --------------------------------------------------------------------------------------------------


def _line(name: str, found: Iterable[dict[str, Any]]) -> str:
    counts = Counter(FAILED if row["verdict"] == TIMEOUT else row["verdict"] for row in found)
    passed, failed = counts[PASSED], counts[FAILED]
    rate = f"{passed / (passed + failed):6.1%}" if passed + failed else f"{'':6s}"
    return f"{name:44s} {passed:7,} {failed:7,} {rate} {counts[EXCLUDED]:9,} {counts[SKIPPED]:8,}"


def table(found: Sequence[dict[str, Any]]) -> str:
    """A line for each folder, and why tests are excluded."""
    folders: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        folders.setdefault(str(_file(row).parent), []).append(row)
    lines = [f"{'folder':44s} {'passed':>7s} {'failed':>7s} {'':6s} {'excluded':>9s} {'skipped':>8s}"]
    lines += [_line(name, folders[name]) for name in sorted(folders)]
    why = Counter(row["reason"] for row in found if row["verdict"] == EXCLUDED)
    excluded = [f"{count:9,} excluded: {reason}" for reason, count in why.most_common()]
    return "\n".join([*lines, _line("all", found), "", *excluded])
