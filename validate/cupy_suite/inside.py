"""A plugin of pytest: a line of JSON for each test when it begins and when it ends, and what kind of failure it is.

A test that fails because of a library that is not there is no failure of the simulated GPU: `WITHOUT` says by what its
exception, or one behind it, is known.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from validate.suite.trial import EXCLUDED, FAILED, PASSED, short

SKIPPED = "skipped"
WITHOUT = {
    r'(?:Failure finding "|ImportError: )lib(cu\w+|nccl)': "needs {}",
    r"No module named 'cupy_backends\.cuda\.libs\.(\w+)": "needs {}",
    r"cannot import name '(nccl|cudnn|cutensor|cusparselt)'": "needs {}",
    r"(cuTENSOR|cuSPARSELt|NCCL) is not available": "needs {}",
    r"(?is)(?:texture|surface|cudaarray).*cudaErrorNotSupported": "needs textures",
    r"URLError": "needs the network",
}
"""Reasons of exclusions by the test's name and what its exception says."""
_DIED = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("cupy-suite")
    group.addoption("--cupy-suite", type=Path, metavar="FILE", help="where lines go; tests that it has are left out")
    group.addoption("--cupy-suite-sample", type=int, default=1, metavar="N", help="one test of N, by its name")


def pytest_configure(config: pytest.Config) -> None:
    """Write for the rest of the session."""
    config.pluginmanager.register(_Writer(config.getoption("--cupy-suite"), config.getoption("--cupy-suite-sample")))


class _Writer:
    def __init__(self, path: Path, sample: int):
        self._path, self._sample = path, sample
        self._known = {row["test"] for row in rows(path)}
        self._row: dict[str, Any] = {}

    def _write(self, row: dict[str, Any]) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """The sample without what has been run; CuPy's conftest.py has one of its own, which is not heeded."""
        new = (each for each in items if each.nodeid not in self._known)
        chosen = [each for each in new if zlib.crc32(each.nodeid.encode()) % self._sample == 0]
        yield
        items[:] = chosen

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported counts as one test."""
        if not report.passed and report.nodeid not in self._known:
            told = "\n".join(reversed(str(report.longrepr).splitlines()))  # what is raised comes last
            verdict, reason = judge(report.nodeid, told, SKIPPED if report.skipped else FAILED)
            self._write({"test": report.nodeid, "verdict": verdict, "reason": reason})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._row = {"test": nodeid, "verdict": PASSED, "reason": "", "seconds": 0.0}
        self._write({"test": nodeid})

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """The worst of setting up, calling and taking down."""
        outcome: Any = yield
        report = outcome.get_result()
        self._row["seconds"] = round(self._row["seconds"] + report.duration, 2)
        if report.passed or self._row["verdict"] != PASSED:
            return
        told = call.excinfo.value if call.excinfo is not None else None
        text = "\n".join(_chain(told)) if told is not None else str(report.longrepr)
        self._row["verdict"], self._row["reason"] = judge(item.nodeid, text, SKIPPED if report.skipped else FAILED)

    def pytest_runtest_logfinish(self) -> None:
        """After an error of a kernel nothing works in the process any more: another one goes on."""
        from gpusim.driver.numba_cuda import current

        self._write(self._row)
        driver = current()
        if driver is not None and driver.primary.failed is not None:
            os._exit(_DIED)


def _chain(error: BaseException | None) -> Iterator[str]:
    """What an exception says, and those behind it."""
    while error is not None:
        yield f"{type(error).__name__}: {error}"
        error = error.__cause__ or error.__context__


def judge(test: str, text: str, verdict: str) -> tuple[str, str]:
    """(verdict, reason) of a test that did not pass."""
    for pattern, reason in WITHOUT.items():
        if found := re.search(pattern, f"{test}\n{text}"):
            return EXCLUDED, reason.format(*found.groups())
    lines = [line for line in text.splitlines() if line.strip()] or [""]
    return verdict, short(lines[0])


def rows(path: Path) -> list[dict[str, Any]]:
    """Lines of a file of results, the last of each test; none if it is not there yet."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    found = {}
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue  # a line that was cut off
        found[row["test"]] = row
    return list(found.values())
