"""`python -m validate score`: scores of a comparison that has been made, and what the repository keeps of them: what is
accepted, and tables in `docs/` between their marks."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from gpusim.cli.parser import UserError
from validate import baseline, journal, score
from validate.comparing import points_of
from validate.points import select
from validate.score import Row
from validate.scoring import accepted, text

DOCS = Path(__file__).resolve().parents[2] / "docs"


class DocumentError(UserError):
    """A document, or the place in it that is to be renewed, is not there."""


def accuracy(rows: Sequence[Row], gpu: str = "h200", docs: Path | None = None) -> Path:
    """Renew `accuracy.md`, of any GPU but the H200 its scores alone; returns its path. Raises DocumentError."""
    if gpu != "h200":
        return put("accuracy.md", f"scores {gpu}", text.report(rows), docs)
    put("accuracy.md", "scores", text.report(rows, full=True), docs)
    return put("accuracy.md", "points", "\n".join([score.HEAD, *map(score.line, rows)]), docs)


def put(name: str, mark: str, content: str, docs: Path | None = None, *, fence: str = "```\n") -> Path:
    """Replace what stands between `<!-- mark -->` and `<!-- /mark -->` in a document by a block of plain text, or with
    `fence=""` by Markdown.

    Raises DocumentError.
    """
    path = (docs or DOCS) / name
    try:
        before = path.read_text("utf-8")
    except OSError as error:
        raise DocumentError(f"{path} cannot be read: {error.strerror}") from None
    pattern = rf"(<!-- {re.escape(mark)} -->\n).*?(<!-- /{re.escape(mark)} -->)"
    lines = "\n".join(line.rstrip() for line in content.splitlines())
    after, count = re.subn(pattern, lambda m: f"{m[1]}{fence}{lines}\n{fence}{m[2]}", before, flags=re.DOTALL)
    if count != 1:
        raise DocumentError(f"{path} does not have one place marked {mark}")
    path.write_text(after, "utf-8")
    return path


def command(options: argparse.Namespace) -> int:
    """`validate score`: status 1 if an exact counter differs or a point is missing. Raises UserError if there is not
    enough to write, or it is not right."""
    found, note = journal.rows_of(options.file, options.gpu)
    if note:
        print(f"validate: note: {note}", file=sys.stderr)
    rows = score.complete({row.point: row for row in found}, points_of(options))
    if options.points:
        print("\n".join([score.HEAD, *map(score.line, rows), ""]))
    print(text.report(rows, full=options.full))
    if options.accept or options.docs:
        _renew(rows, options)
    return 0 if score.ok(rows) else 1


def _renew(rows: Sequence[score.Row], options: argparse.Namespace) -> None:
    """Renew what the repository keeps of the score. Raises UserError."""
    found = text.done(rows)
    missing = {*select()} - {row.point for row in found}
    if missing:
        raise UserError(f"{len(missing)} points are missing, {min(map(str, missing))} for one")
    gpu = options.gpu
    other = [row.point for row in found if row.cycles.measured != baseline.measured(row.point, gpu).cycles.median]
    if other:
        raise UserError(f"{other[0]} was compared with another measurement than {gpu}'s")
    if options.accept:
        file, entries = accepted.path_of(gpu), [accepted.Entry.of(row) for row in found]
        worse = accepted.worse_score(entries, accepted.load(file)) if file.exists() else []
        if worse and not options.because:
            raise UserError("\n  ".join(["worse than what was accepted; say why with --because:", *worse]))
        file.write_text(accepted.text_of(entries, options.because), "utf-8")
        print(f"wrote {file}", file=sys.stderr)
    if options.docs:
        print(f"wrote {accuracy(rows, gpu)}", file=sys.stderr)
