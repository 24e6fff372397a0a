"""Runs one file of numba-cuda's own tests on the simulated GPU, and reports each test as a line of JSON.

    python -m validate.numba_worker RESULTS TIMEOUT_S MODULE

A line is written when a test starts and when it ends, so that a crash is put down to the right test; tests that RESULTS
names already are left out. The process ends early, with EXIT_SPOILED, after a test that leaves a failed context behind
(hardware has no way on from there either) or that took too long (a launch may have been left half done): the next
process takes the rest.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

EXIT_SPOILED = 17
_DETAIL_CHARACTERS = 1500


class Timeout(BaseException):
    """A test took too long; not an Exception, so that no test catches it."""


class SuiteModule(pytest.Module):
    """A file of the suite, imported under the name that numba-cuda gives it: its folder is no package of that name."""

    def _getobj(self) -> Any:
        parts = self.path.with_suffix("").parts
        start = len(parts) - 1 - parts[::-1].index("tests")
        return importlib.import_module(".".join(("numba", "cuda", *parts[start:])))


class OutcomeRecorder:
    """A pytest plugin that writes outcomes as they come, and leaves out the tests that `seen` names."""

    def __init__(self, stream: IO[str], driver: Any, timeout_s: int, seen: set[str]):
        self.lines, self.driver, self.timeout_s, self.seen = stream, driver, timeout_s, seen
        self.outcome, self.detail, self.expired = "passed", "", False

    @pytest.fixture(scope="class")
    def initialize_from_pytest_config(self, request: pytest.FixtureRequest) -> None:
        """What the suite's own conftest.py, which is not installed with it, defines."""
        request.cls._dump_failed_filechecks = False

    def pytest_collect_directory(self, path: Path, parent: Any) -> Any:
        """Folders are folders: their packages are imported with the files."""
        return pytest.Dir.from_parent(parent, path=path)

    def pytest_pycollect_makemodule(self, module_path: Path, parent: Any) -> Any:
        """See SuiteModule."""
        return SuiteModule.from_parent(parent, path=module_path)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave out what an earlier process has done."""
        items[:] = [item for item in items if _name(item.nodeid) not in self.seen]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        """Around a test with its set-up and tear-down."""
        launched, started = self.driver.log.attempts, time.monotonic()
        self.outcome, self.detail = "passed", ""
        self.write(test=_name(item.nodeid), outcome="started")
        signal.alarm(self.timeout_s)
        try:
            return (yield)
        finally:
            signal.alarm(0)
            if self.expired and self.outcome != "passed":
                self.outcome = "timeout"  # raised inside the driver, it reaches the test as an error code
            self.write(
                test=_name(item.nodeid),
                outcome=self.outcome,
                detail=self.detail,
                seconds=round(time.monotonic() - started, 3),
                launches=self.driver.log.attempts - launched,
            )
            if self.spoiled:
                item.session.shouldstop = "what follows needs a process of its own"

    @property
    def spoiled(self) -> bool:
        """Whether the tests that follow need a process of their own."""
        return self.expired or self.driver.primary.failed is not None

    def expire(self, *_: Any) -> None:
        """The handler of the alarm."""
        self.expired = True
        raise Timeout

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[None]:
        """The outcome of one phase; the first that is not a success counts."""
        report: Any = yield
        if self.outcome == "passed" and report.outcome != "passed":
            timeout = call.excinfo is not None and call.excinfo.errisinstance(Timeout)
            if report.outcome == "failed":
                self.outcome = "timeout" if timeout else "failed"
            elif not hasattr(report, "wasxfail"):
                self.outcome = "skipped"
            self.detail = str(report.longreprtext if report.failed else report.longrepr)[-_DETAIL_CHARACTERS:]
        return report

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported."""
        if report.failed:
            self.write(test=_name(report.nodeid), outcome="error", detail=report.longreprtext[-_DETAIL_CHARACTERS:])

    def write(self, **fields: Any) -> None:
        """One line, at once."""
        self.lines.write(json.dumps(fields) + "\n")
        self.lines.flush()


def _name(node: str) -> str:
    """'cudapy/test_sm.py::TestSharedMemory::test_x' for pytest's name of a test, wherever the suite lies."""
    return node.rpartition("/tests/")[2]


def main(arguments: list[str]) -> int:
    """Run the tests; see the top of this file."""
    from gpusim.driver.numba_cuda import install_from_environment

    path, timeout_s, module = arguments
    # A test that wants more memory than the machine has (28 GB for a tenth of an H200's) ends this process, no other.
    Path("/proc/self/oom_score_adj").write_text("1000")
    driver = install_from_environment()
    assert driver is not None
    results = Path(path)
    seen = {json.loads(line)["test"] for line in results.read_text().splitlines()} if results.exists() else set()
    with results.open("a") as stream:
        recorder = OutcomeRecorder(stream, driver, int(timeout_s), seen)
        signal.signal(signal.SIGALRM, recorder.expire)
        options = ["--pyargs", module, "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", os.sep]
        pytest.main(options, plugins=[recorder])
    return EXIT_SPOILED if recorder.spoiled else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
