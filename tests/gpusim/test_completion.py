"""Completion in shells: what bash offers at the end of command lines, and that other shells can read their scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpusim.cli import main
from gpusim.cli.completion import SHELLS
from gpusim.config import describe_keys, shipped_names
from gpusim.node import shipped_nodes
from programs import registry

pytest.importorskip("shtab")

# Bash hands a line over in words, cut at = and : too; an empty one stands for a space at the end.
_LINES = """
for line in "${@:2}"; do
  IFS='|' read -ra COMP_WORDS <<<"$line"
  [[ $line == *'|' ]] && COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
  _gpusim 2>/dev/null
  echo "${COMPREPLY[*]}"
done
"""
ASKED = {
    "gpusim|ru": ["run"],
    "gpusim|config|sh": ["show"],
    "gpusim|run|reduction/": [name for name in registry.names() if name.startswith("reduction/")],
    "gpusim|run|vector_add|--gpu|h": [name for name in shipped_names() if name.startswith("h")],
    "gpusim|run|--gpu|=|b": ["b200"],
    "gpusim|run|--gpu|=": [*shipped_names(), "own.toml", "folder"],
    "gpusim|run|--set|sm.c": [f"{key}=" for key in describe_keys() if key.startswith("sm.c")],
    "gpusim|run|--set|=|sm.count": ["sm.count="],
    "gpusim|run|--set|sm.count|=|66|vec": ["vector_add"],
    "gpusim|run|ker": ["kernels.py"],
    "gpusim|run|kernels.py|:|scale|--re": ["--report"],
    "gpusim|run|kernels.py|:|scale|--mode|": ["detailed", "sampled", "functional"],
    "gpusim|diff|vector_add|transpose/n": ["transpose/naive"],
    "gpusim|figures|gemv|f": ["folder"],
    "gpusim|script|--report|f": ["folder"],
    "gpusim|collective|all_reduce|4K|--node|hg": [name for name in shipped_nodes() if name.startswith("hg")],
    "gpusim|config|keys|dr": ["dram"],
    "gpusim|schema|config|che": ["check"],
    "gpusim|completion|": list(SHELLS),
}


def script(capsys: pytest.CaptureFixture[str], shell: str) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None or os.name != "posix", reason="there is no bash")
def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("kernels.py", "own.toml", "other.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "script").write_text(script(capsys, "bash") + _LINES, "utf-8")
    command = ["bash", "--norc", str(tmp_path / "script"), "", *ASKED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    offered = [line.split() for line in done.stdout.splitlines()]
    assert dict(zip(ASKED, offered, strict=True)) == ASKED


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_theirs(tmp_path: Path, capsys: pytest.CaptureFixture[str], shell: str) -> None:
    text = script(capsys, shell)
    assert all(name in text for name in (*registry.names(), *shipped_names(), "sm.count=", "--shared-bytes"))
    assert " -s std " not in text
    if shutil.which(shell):
        (tmp_path / "script").write_text(text, "utf-8")
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, timeout=60)
