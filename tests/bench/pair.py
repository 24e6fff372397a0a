"""Is this tree slower than the commit before it? `make bench-pair`, or `make bench-pair BASE=COMMIT`.

The commit before is HEAD while gpusim, isa or programs hold changes that are not committed, else HEAD's first parent.
Two processes run the same workloads in turn, one with the packages of each tree. They share the cache of compiled code,
which is kept by content; what is missing there is compiled by processes of their own, since one that has compiled runs
slower from then on. What seems to have lost is measured again, in new processes and with twice the rounds, and has
lost if that says so too.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tests.bench.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 4
MOST = 1.15
"""Times longer than before that a unit of work may take."""


Run = Callable[[str], float]
"""A side: from a workload's name to the seconds of a unit of work in one round."""


class Lacking(Exception):
    """A tree cannot run a workload."""


class Side:
    """A process that runs workloads with the packages of one tree."""

    def __init__(self, tree: Path):
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "bench" / "workloads.py")],
            cwd=tree,
            env=os.environ | {"PYTHONPATH": str(tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, name: str) -> float:
        """Seconds for a unit of work in one round of a workload. Raises Lacking."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with suppress(BrokenPipeError):
            print(name, file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline() or '{"error": "the process has ended"}')
        if "error" in answer:
            raise Lacking(answer["error"])
        return answer["seconds"]

    def close(self) -> None:
        self.process.communicate()


def compile_all(sides: tuple[Side, Side]) -> None:
    """Run every workload once in both processes at the same time, and end them."""
    for side in sides:
        print(*WORKLOADS, sep="\n", file=side.process.stdin, flush=True)
    for side in sides:
        side.close()


def times_longer(name: str, ours: Run, theirs: Run, rounds: int) -> float:
    """How many times longer a workload takes us, from rounds in turn, each side first in half of them.

    By the least and by the median of each side: a neighbour's burst seldom raises both, so the lower counts.
    """
    seconds: dict[Run, list[float]] = {ours: [], theirs: []}
    for number in range(rounds):
        for side in (theirs, ours) if number % 2 else (ours, theirs):
            seconds[side].append(side(name))
    return min(of(seconds[ours]) / of(seconds[theirs]) for of in (min, statistics.median))


def slower(names: Iterable[str], sides: Callable[[], tuple[Side, Side]]) -> list[str]:
    """The workloads that have lost, confirmed; `sides` starts ours and theirs."""
    for rounds in (ROUNDS, 2 * ROUNDS):
        ours, theirs = sides()
        lost = []
        for name in names:
            try:
                theirs(name)
            except Lacking as why:
                print(f"{name:24} not measured: the commit before cannot run it ({why})", flush=True)
                continue
            ours(name)  # its first round is a warm-up, as theirs was
            longer = times_longer(name, ours, theirs, rounds)
            lost += [name] * (longer > MOST)
            print(f"{name:24} {100 * (longer - 1):+6.1f} %" + " (too much)" * (longer > MOST), flush=True)
        ours.close()
        theirs.close()
        names = lost
        if not lost:
            break
    return lost


def git(*arguments: str, root: Path = ROOT) -> str | None:
    """What git says, None where it fails."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def base_of(root: Path, asked: str | None) -> tuple[str | None, str]:
    """(commit to compare a tree with, or None; that in words)."""
    changed = git("status", "--porcelain", "--", "gpusim", "isa", "programs", root=root)
    name = asked or ("HEAD" if changed else "HEAD^")
    commit = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", root=root)
    if commit is None:
        if asked:
            raise SystemExit(f"there is no commit {asked}")
        return None, "there is no commit before this one here (a shallow clone?): nothing to compare with"
    commit = commit.strip()
    if not git("diff", commit, "--stat", "--", "gpusim", "isa", root=root) and "??" not in (changed or ""):
        return None, f"gpusim and isa are as in {commit[:10]}: nothing to measure"
    return commit, f"this tree against {commit[:10]}; more is slower"


def main() -> int:
    commit, words = base_of(ROOT, os.environ.get("BASE"))
    print(words, flush=True)
    if commit is None:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        compile_all((Side(ROOT), Side(Path(folder))))
        try:
            lost = slower(WORKLOADS, lambda: (Side(ROOT), Side(Path(folder))))
        except Lacking as why:
            print(f"this tree cannot run it: {why}")
            return 1
    if lost:
        print(f"slower than {commit[:10]} by more than {100 * (MOST - 1):.0f} %, twice: {', '.join(lost)}")
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
