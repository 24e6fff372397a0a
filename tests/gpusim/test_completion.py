"""Completion in shells: what is offered at the end of command lines, and how bash asks for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpusim.cli import main
from gpusim.config import describe_keys, shipped_names
from programs import registry

ROOT = Path(__file__).resolve().parents[2]

ASKED = {
    "gpusim ru": ["run"],
    "gpusim config sh": ["show"],
    "gpusim run reduction/": [name for name in registry.names() if name.startswith("reduction/")],
    "gpusim run vector_add --gpu h": [name for name in shipped_names() if name.startswith("h")],
    "gpusim run --gpu=b": ["b200"],
    "gpusim run --gpu=": [*shipped_names(), "kernels.py", "own.toml", "folder"],
    "gpusim run --set sm.c": [f"{key}=" for key in describe_keys() if key.startswith("sm.c")],
    "gpusim run --set=sm.count": ["sm.count="],
    "gpusim run --set sm.count=66 vec": ["vector_add"],
    "gpusim run ker": ["kernels.py"],
    "gpusim run kernels.py:scale --re": ["--report"],
    "gpusim diff vector_add transpose/n": ["transpose/naive"],
    "gpusim figures gemv f": ["folder"],
    "gpusim script --report f": ["folder"],
    "gpusim config check h1": ["h100"],
    "gpusim completion ": ["bash", "zsh", "fish", "powershell"],
}


# In a process of its own, since argcomplete takes the file of number 9 for its own.
ANSWER = """
import io, json, os, sys
from gpusim.cli import make_parser
from gpusim.cli.completion import answer

for line in json.load(sys.stdin):
    os.environ |= {"COMP_LINE": line, "COMP_POINT": str(len(line))}
    stream = io.StringIO()
    answer(make_parser, exit_method=lambda *_: None, output_stream=stream)
    print(json.dumps([word.strip().rstrip("/") for word in stream.getvalue().split("|")]))
"""


def asked(command: list[str], told: str = "", **environment: str) -> str:
    environment |= {"PYTHONPATH": str(ROOT), "COMP_TYPE": "9"}
    how = {"env": os.environ | environment, "capture_output": True, "text": True, "timeout": 120}
    return subprocess.run(command, input=told, check=True, **how).stdout


def test_what_a_command_line_can_go_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kernels.py", "own.toml"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    shell = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "|", "_ARGCOMPLETE_COMP_WORDBREAKS": " \"'><=;|&(:"}
    found = asked([sys.executable, "-c", ANSWER], json.dumps(list(ASKED)), **shell)
    assert [set(json.loads(line)) for line in found.splitlines()] == [set(words) for words in ASKED.values()]


@pytest.mark.skipif(shutil.which("bash") is None or os.name != "posix", reason="there is no bash")
def test_bash_asks_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    (tmp_path / "gpusim").write_text(f"#!/bin/sh\nexec '{sys.executable}' -m gpusim.cli \"$@\"\n")
    (tmp_path / "gpusim").chmod(0o755)
    line = "gpusim run reduction/sh"
    asks = f'COMP_WORDS=({line}) COMP_CWORD=2 COMP_LINE="{line}" COMP_POINT={len(line)}\n'
    script = capsys.readouterr().out + asks + '_python_argcomplete gpusim\necho "${COMPREPLY[*]}"\n'
    offered = asked(["bash", "--norc", "-c", script], PATH=f"{tmp_path}:{os.environ['PATH']}").split()
    assert offered == [name for name in registry.names() if name.startswith("reduction/sh")]
