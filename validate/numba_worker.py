"""Runs one file of numba-cuda's own tests on the simulated GPU, and reports each test as a line of JSON.

    python -m validate.numba_worker RESULTS TIMEOUT_S MODULE

A line is written when a test starts and when it ends, so that a crash is put down to the right test; tests that RESULTS
names already are left out. The process ends early, with EXIT_SPOILED, after a test that leaves a failed context behind:
hardware has no way on from there either, so the next process takes the rest.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

EXIT_SPOILED = 17


class Timeout(BaseException):
    """A test took too long; not an Exception, so that no test catches it."""


class Recorder(unittest.TestResult):
    """Writes outcomes as they come."""

    def __init__(self, stream: IO[str], driver: Any, timeout_s: int):
        super().__init__()
        self.lines, self.driver, self.timeout_s = stream, driver, timeout_s
        self.outcome: tuple[str, str] = ("passed", "")
        self.started = 0.0
        self.launched = 0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.outcome, self.started = ("passed", ""), time.monotonic()
        self.launched = self.driver.log.attempts
        self.write(test=test.id(), outcome="started")
        signal.alarm(self.timeout_s)

    def stopTest(self, test: unittest.TestCase) -> None:
        signal.alarm(0)
        super().stopTest(test)
        outcome, detail = self.outcome
        seconds = round(time.monotonic() - self.started, 3)
        launches = self.driver.log.attempts - self.launched
        self.write(test=test.id(), outcome=outcome, detail=detail, seconds=seconds, launches=launches)
        if self.driver.primary.failed is not None:
            self.stop()

    def write(self, **fields: Any) -> None:
        self.lines.write(json.dumps(fields) + "\n")
        self.lines.flush()

    def addError(self, test: Any, err: Any) -> None:
        super().addError(test, err)
        if isinstance(test, unittest.TestCase):
            self.outcome = ("timeout" if issubclass(err[0], Timeout) else "error", _last_lines(err))
        else:  # setUpClass or the module failed: no test of it ran
            self.write(test=str(test), outcome="error", detail=_last_lines(err), seconds=0, launches=0)

    def addFailure(self, test: Any, err: Any) -> None:
        super().addFailure(test, err)
        self.outcome = ("failed", _last_lines(err))

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            kind = "failed" if issubclass(err[0], test.failureException) else "error"
            self.outcome = (kind, f"{subtest}: {_last_lines(err)}")

    def addSkip(self, test: Any, reason: str) -> None:
        super().addSkip(test, reason)
        self.outcome = ("skipped", reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        super().addExpectedFailure(test, err)
        self.outcome = ("passed", "failed as expected")

    def addUnexpectedSuccess(self, test: Any) -> None:
        super().addUnexpectedSuccess(test)
        self.outcome = ("failed", "passed, which was not expected")


def _last_lines(err: Any) -> str:
    text = "".join(traceback.format_exception(*err)).strip()
    return text[-1500:]


def _alarm(*_: Any) -> None:
    raise Timeout


def _flatten(suite: Any) -> Iterator[Any]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _flatten(each)
        else:
            yield each


def main(arguments: list[str]) -> int:
    """Run the tests; see the top of this file."""
    from gpusim.cuda_driver import install_from_environment

    path, timeout_s, module = arguments
    driver = install_from_environment()
    assert driver is not None
    signal.signal(signal.SIGALRM, _alarm)
    results = Path(path)
    seen = {json.loads(line)["test"] for line in results.read_text().splitlines()} if results.exists() else set()
    tests = [test for test in _flatten(unittest.TestLoader().loadTestsFromName(module)) if test.id() not in seen]
    with results.open("a") as stream:
        recorder = Recorder(stream, driver, int(timeout_s))
        unittest.TestSuite(tests).run(recorder)
    return EXIT_SPOILED if driver.primary.failed is not None else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
