"""docs/nodes.md, docs/streams.md and docs/parallel.md do what they say: their programs and commands print what they
show. Run as a script, it renews them."""

from __future__ import annotations

import contextlib
import gc
import io
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from validate.__main__ import main
from validate.node import products

DOCS = Path(__file__).resolve().parents[1] / "docs"
DOCUMENTS = {"nodes.md": 6, "streams.md": 2, "parallel.md": 4}
"""How many programs and commands each has whose output it shows."""
BLOCK = re.compile(r"```(python|sh)\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)
LONE = re.compile(r"^(product|outside: 1 GPUs).*\n", re.MULTILINE)


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
        yield block, "\n".join(line.rstrip() for line in out.getvalue().strip("\n").splitlines()) + "\n"
    names.clear()
    gc.collect()  # GPUs that a program leaves open hold a third of a gigabyte each


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_prints_what_it_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for lone products, which take a minute: tests/validate/test_node_training.py has the shortest of them."""
    monkeypatch.setattr(products, "alone", lambda *whats: ())
    blocks = list(printed((DOCS / name).read_text("utf-8")))
    assert len(blocks) == DOCUMENTS[name]
    for block, output in blocks:
        assert output == (LONE.sub("", block[3]) if name == "parallel.md" else block[3])


def renew(document: Path) -> None:
    """Write what the programs print now into a document."""
    text = document.read_text("utf-8")
    for block, output in reversed(list(printed(text))):
        text = text[: block.start(3)] + output + text[block.end(3) :]
    document.write_text(text, "utf-8")


if __name__ == "__main__":
    for each in DOCUMENTS:
        renew(DOCS / each)
