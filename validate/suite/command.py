"""Run a list of CUDA programs on the simulated GPU and collect their own verdicts."""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from gpusim.host.options import host_threads
from validate.commands import EXIT_OK, EXIT_WRONG
from validate.suite import listing, trial
from validate.suite.listing import Listed
from validate.suite.trial import EXCLUDED, PASSED, Trial

FUNCTIONAL, DETAILED = "functional", "detailed"


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    mode = DETAILED if options.detailed else FUNCTIONAL
    chosen = {
        name: entry
        for name, entry in listing.read(options.suite, options.root).items()
        if options.only.search(name) and (entry.detailed or not options.detailed)
    }
    before = load(options.results)
    known = {} if options.again else {row.name: row for row in before if row.mode == mode and row.verdict == PASSED}
    found = []
    print(HEAD, flush=True)
    for row in _trials(chosen, known, mode, options):
        found.append(row)
        print(line(row), flush=True)
        before = keep(options.results, before, row)
    print(f"\n{summary(found)}")
    if options.docs:
        from validate.scoring import documents

        documents.put("programs.md", "programs", table(before), fence="")
    return EXIT_OK if all(row.verdict in (PASSED, EXCLUDED) for row in found) else EXIT_WRONG


def _trials(
    chosen: dict[str, Listed], known: dict[str, Trial], mode: str, options: argparse.Namespace
) -> Iterator[Trial]:
    """Results in the order of the list."""
    threads = max(1, host_threads(None) // options.jobs)

    def one(item: tuple[str, Listed]) -> Trial:
        name, entry = item
        if name in known and known[name].digest == trial.digest_of(entry):
            return known[name]
        return trial.try_program(name, entry, mode, options.timeout, threads, options.gpu)

    with ThreadPoolExecutor(options.jobs) as pool:
        yield from pool.map(one, chosen.items())


# --- what is kept -----------------------------------------------------------------------------------------------------


def load(path: Path | None) -> list[Trial]:
    """Rows of a file of results, none if it is not there yet. Raises ListError."""
    if path is None or not path.exists():
        return []
    try:
        return [Trial(**row) for row in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise listing.ListError(f"{path} is no file of results: {error}") from None


def keep(path: Path | None, before: Iterable[Trial], row: Trial) -> list[Trial]:
    """All rows with this one in its place, written to the file as a whole."""
    rows = [each for each in before if (each.name, each.mode) != (row.name, row.mode)] + [row]
    if path is not None:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as made:
            json.dump([asdict(each) for each in rows], made, indent=1)
        os.replace(made.name, path)
    return rows


# --- what is printed --------------------------------------------------------------------------------------------------

HEAD = f"{'program':34s} {'verdict':10s} {'launches':>8s} {'instructions':>13s} {'seconds':>8s}"


def line(row: Trial) -> str:
    """A row of the table."""
    counts = f"{row.launches:8,} {row.instructions:13,} {row.seconds:8.1f}"
    return f"{row.name:34s} {row.verdict:10s} {counts}  {row.reason}".rstrip()


def summary(rows: Iterable[Trial]) -> str:
    """How many of each verdict."""
    counts = Counter(row.verdict for row in rows)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()) or "no program of that name"


def table(rows: Iterable[Trial]) -> str:
    """All rows as Markdown: what passes, then the others with their reasons."""
    ordered = sorted(rows, key=lambda row: (row.mode, row.name))
    passed, others = ([r for r in ordered if (r.verdict == PASSED) == wanted] for wanted in (True, False))
    lines = ["| passes | mode | launches | warp instructions |", "|---|---|---:|---:|"]
    lines += [f"| {row.name} | {row.mode} | {row.launches:,} | {row.instructions:,} |" for row in passed]
    lines += ["", "| does not | mode | verdict | reason |", "|---|---|---|---|"]
    lines += [f"| {row.name} | {row.mode} | {row.verdict} | {_cell(row.reason)} |" for row in others]
    return "\n".join([*lines, "", summary(ordered)])


def _cell(text: str) -> str:
    return re.sub(r"([|<>*_`])", r"\\\1", text)
