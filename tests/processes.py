"""Processes that a test has started, and theirs: who they are, and whether they have ended."""

from __future__ import annotations

import time
from pathlib import Path


def descendants(process: int) -> set[int]:
    """Processes that a process has started, and those that these have."""
    found: set[int] = set()
    todo = [process]
    while todo:
        for task in Path(f"/proc/{todo.pop()}/task").glob("*/children"):
            new = {int(each) for each in task.read_text().split()}
            todo += new - found
            found |= new
    return found


def names(processes: set[int]) -> dict[int, str]:
    """Those that live, with their names."""
    found = {}
    for each in processes:
        try:
            state = Path(f"/proc/{each}/stat").read_text()
        except OSError:
            continue
        if state.rpartition(")")[2].split()[0] != "Z":
            found[each] = state.partition("(")[2].rpartition(")")[0]
    return found


def all_gone(processes: set[int], seconds: float = 120) -> bool:
    """Whether processes end in that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not names(processes):
            return True
        time.sleep(0.02)
    return False
