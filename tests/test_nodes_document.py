"""docs/nodes.md and docs/streams.md do what they say: their programs and commands print what they show. Run as a
script, it renews them."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from validate.__main__ import main

DOCS = Path(__file__).resolve().parents[1] / "docs"
DOCUMENTS = {"nodes.md": 6, "streams.md": 2}
"""How many programs and commands each has whose output it shows."""
BLOCK = re.compile(r"```(python|sh)\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)


def printed(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each program or command of the document and what it prints; the programs share their names."""
    names: dict[str, object] = {}
    for block in BLOCK.finditer(text):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), tempfile.TemporaryDirectory() as folder:
            if block[1] == "python":
                file = Path(folder) / "program.py"  # Numba reads a kernel's source
                file.write_text(block[2], "utf-8")
                exec(compile(block[2], str(file), "exec"), names)
            else:
                main(block[2].split()[3:])
        yield block, "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_prints_what_it_shows(name: str) -> None:
    blocks = list(printed((DOCS / name).read_text("utf-8")))
    assert len(blocks) == DOCUMENTS[name]
    for block, output in blocks:
        assert output == block[3]


def renew(document: Path) -> None:
    """Write what the programs print now into a document."""
    text = document.read_text("utf-8")
    for block, output in reversed(list(printed(text))):
        text = text[: block.start(3)] + output + text[block.end(3) :]
    document.write_text(text, "utf-8")


if __name__ == "__main__":
    for each in DOCUMENTS:
        renew(DOCS / each)
