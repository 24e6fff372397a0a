"""docs/parallel.md does what it says: its programs and its command print what it shows. Run as a script, it
renews it."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import validate.__main__
from validate.node import products

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "parallel.md"
BLOCK = re.compile(r"```(python|sh)\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)


def printed(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each program or command of the document and what it prints; the programs share their names."""
    names: dict[str, object] = {}
    for block in BLOCK.finditer(text):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if block[1] == "python":
                exec(compile(block[2], str(DOCUMENT), "exec"), names)
            else:
                validate.__main__.main(block[2].split()[3:])
        yield block, "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines()) + "\n"


def test_the_document_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for lone products, which take a minute: tests/validate/test_node_training.py has the shortest of them."""
    monkeypatch.setattr(products, "alone", lambda *whats: ())
    blocks = list(printed(DOCUMENT.read_text("utf-8")))
    assert len(blocks) == 4
    for block, output in blocks:
        assert output == re.sub(r"^(product|outside: 1 GPUs).*\n", "", block[3], flags=re.MULTILINE)


def renew() -> None:
    """Write what the programs print now into the document."""
    text = DOCUMENT.read_text("utf-8")
    for block, output in reversed(list(printed(text))):
        text = text[: block.start(3)] + output + text[block.end(3) :]
    DOCUMENT.write_text(text, "utf-8")


if __name__ == "__main__":
    renew()
