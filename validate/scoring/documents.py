"""The scores in `docs/`: tables between their marks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from validate import score
from validate.commands import UsageError
from validate.score import Row
from validate.scoring import text

DOCS = Path(__file__).resolve().parents[2] / "docs"


class DocumentError(UsageError):
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
