"""docs/parallel.md does what it says: its programs and commands print what it shows. Run as a script, it renews it."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import validate.__main__
from gpusim import cli

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "parallel.md"
BLOCK = re.compile(r"```(python|sh)\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)
FILE = re.compile(r"```toml\n# (\S+)\n(.*?)```", re.DOTALL)


def printed(text: str, folder: Path) -> Iterator[tuple[re.Match[str], str]]:
    """Each program or command of the document and what it prints; the programs share their names."""
    names: dict[str, object] = {}
    for name, content in FILE.findall(text):
        (folder / name).write_text(content, "utf-8")
    for block in BLOCK.finditer(text):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.chdir(folder):
            words = block[2].split()
            if block[1] == "python":
                exec(compile(block[2], str(DOCUMENT), "exec"), names)
            elif words[0] == "gpusim":
                cli.main(words[1:])
            else:
                validate.__main__.main(words[3:])
        yield block, "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines()) + "\n"


def test_the_document_prints_what_it_shows(tmp_path: Path) -> None:
    blocks = list(printed(DOCUMENT.read_text("utf-8"), tmp_path))
    assert len(blocks) == 5
    for block, output in blocks:
        assert output == block[3]


def renew() -> None:
    """Write what the programs print now into the document."""
    text = DOCUMENT.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for block, output in reversed(list(printed(text, Path(folder)))):
            text = text[: block.start(3)] + output + text[block.end(3) :]
    DOCUMENT.write_text(text, "utf-8")


if __name__ == "__main__":
    renew()
