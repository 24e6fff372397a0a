"""The tutorial's files, commands and outputs, as docs/tutorial.md has them; run as a script, it renews the outputs.

A Python block that begins with `# NAME.py` is a file. A sh block is commands, one a line. A block without a language
shows lines of the output of the commands before it, in order; `...` stands for what is left out.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from gpusim import cli

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
ELSEWHERE = ("make ",)
"""Commands that are not run here: `make demo` sets up what this Python has already."""
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d[\d,.]*")


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, content) of each block."""
    return [(match[1], match[2]) for match in _BLOCK.finditer(text)]


def prose(text: str) -> str:
    """Everything but the blocks."""
    return _BLOCK.sub("", text)


def play(text: str, folder: Path) -> list[tuple[str, str, int, str]]:
    """Do what the tutorial says in an empty folder. Returns (output, errors, worst exit code, block that shows the
    output or '') for each block of commands."""
    played: list[tuple[str, str, int, str]] = []
    for language, content in blocks(text):
        if language == "python" and (name := re.match(r"# (\w+\.py)\n", content)):
            (folder / name[1]).write_text(content, "utf-8")
        elif language == "sh":
            commands = [line for line in content.splitlines() if not line.startswith(ELSEWHERE)]
            done = [_run(each, folder) for each in commands]
            output, errors = ("".join(each[k] for each in done) for k in (0, 1))
            played.append((output, errors, max((code for _, _, code in done), default=0), ""))
        elif not language and played:
            output, errors, code, _ = played[-1]
            played[-1] = (output, errors, code, content)
    return played


def _run(command: str, folder: Path) -> tuple[str, str, int]:
    """Output, errors and exit code of a command: gpusim's in this process, others in a shell."""
    words, _, file = command.partition(" > ")
    if not words.startswith("gpusim "):
        where = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        shell = ["sh", "-c", command]
        done = subprocess.run(shell, cwd=folder, env=os.environ | where, capture_output=True, text=True, timeout=600)
        return done.stdout, done.stderr, done.returncode
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = cli.main(shlex.split(words)[1:])
    if file:
        (folder / file).write_text(output.getvalue(), "utf-8")
    return "" if file else output.getvalue(), errors.getvalue(), code


def missing(shown: str, output: str) -> list[str]:
    """Lines of a block that are not in the output behind the one before them."""
    rest = iter(output.splitlines())
    return [line for line in shown.splitlines() if line not in ("", "...") and line not in rest]


def renewed(shown: str, output: str) -> str:
    """The block with today's numbers: each line gives way to the next of the output that differs in numbers alone."""
    rest = iter(output.splitlines())
    lines = []
    for line in shown.splitlines():
        same = line in ("", "...")
        lines.append(line if same else next((each for each in rest if _bare(each) == _bare(line)), line))
    return "\n".join(lines) + "\n"


def _bare(line: str) -> str:
    return " ".join(_NUMBER.sub("0", line).split())


def main() -> None:
    """Write today's outputs into the page; numbers in the text between them are for a person to look at."""
    text = PAGE.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for output, errors, _, shown in play(text, Path(folder)):
            if shown:
                text = text.replace(shown, renewed(shown, output + errors), 1)
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
