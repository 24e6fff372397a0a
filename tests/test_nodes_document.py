"""docs/nodes.md does what it says: its programs and its command print what it shows. Run as a script, it renews it."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from validate.__main__ import main

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "nodes.md"
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


def test_the_document_prints_what_it_shows() -> None:
    blocks = list(printed(DOCUMENT.read_text("utf-8")))
    assert len(blocks) == 5
    for block, output in blocks:
        assert output == block[3]


def renew() -> None:
    """Write what the programs print now into the document."""
    text = DOCUMENT.read_text("utf-8")
    for block, output in reversed(list(printed(text))):
        text = text[: block.start(3)] + output + text[block.end(3) :]
    DOCUMENT.write_text(text, "utf-8")


if __name__ == "__main__":
    renew()
