"""Fuzz the readers: `python -m tests.fuzz.fuzz [--count N] [--seed S] [TARGET ...]`.

Every input is run in this process under a deadline, and the process under a limit of memory. A finding is printed,
written to `--findings` and does not stop the run. The same seed gives the same inputs.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.fuzz.targets import CORPUS, TARGETS, Target

MEMORY_BYTES = 4 << 30


class OutOfTime(BaseException):
    """An input took longer than its deadline; no reader may catch it."""


def main() -> int:
    """Run the command; the exit code says whether there was a finding."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"any of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--count", type=int, default=1000, help="inputs for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="folder for inputs that fail")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    found = 0
    for name in options.targets or TARGETS:
        started = time.monotonic()
        findings = 0
        for data, words in fuzz(name, options.count, options.seed):
            findings += 1
            if findings <= 20:
                options.findings.mkdir(exist_ok=True)
                (options.findings / f"{name}-{options.seed}-{findings}").write_bytes(data)
                print(f"{name}: {words}", flush=True)
        seconds = time.monotonic() - started
        print(f"{name}: {options.count:,} inputs, {findings} findings, {seconds:.0f} s", flush=True)
        found += findings
    return min(found, 1)


def fuzz(name: str, count: int, seed: int) -> Iterator[tuple[bytes, str]]:
    """Run the corpus and `count` new inputs of a target; yields every input that is a finding, and what happened."""
    target = TARGETS[name]
    rng = random.Random(f"{name} {seed}")
    for path in sorted(CORPUS.glob(f"{name}-*")):
        words = attempt(target, path.read_bytes())
        if words:
            yield path.read_bytes(), f"{path.name}: {words}"
    for _ in range(count):
        data = target.make(rng)
        words = attempt(target, data)
        if words:
            yield data, words


def attempt(target: Target, data: bytes) -> str | None:
    """What is wrong with how a target took an input; None if it read it or refused it with a message."""
    try:
        with deadline(target.seconds):
            target.run(data)
    except target.allowed as error:
        return None if str(error).strip() else f"{type(error).__name__} without a message"
    except OutOfTime:
        return f"took more than {target.seconds} seconds"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:200]} ({place.filename}:{place.lineno})"
    return None


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the main thread after so many seconds."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main())
