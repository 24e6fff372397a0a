"""CUDA executables for tests: compiled by the tool chain's nvcc and the machine's C++ compiler, and run under
`gpusim exec`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpusim.exec.libraries import toolkit_folder
from isa.errors import ToolchainMissing
from isa.toolchain import find_tool
from tests import forks

DATA = Path(__file__).parent / "data"
GPU = ("--gpu", "tiny", "--functional")


def require_compiler() -> None:
    """Skips the test where nvcc, a C++ compiler, or Linux is not there."""
    if not sys.platform.startswith("linux") or shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler")
    try:
        find_tool("nvcc")
    except ToolchainMissing as missing:
        pytest.skip(str(missing))


def build(source: Path, made: Path, *options: str, static: bool = False) -> Path:
    """An executable of one source, with the shared runtime library, or with the vendor's static one."""
    require_compiler()
    link = ["--cudart", "static"] if static else []
    command = [toolkit_folder() / "bin" / "nvcc", *link, "-arch=sm_90", "-lineinfo", "-o", made, source, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made


def command(*words: object, options: tuple[str, ...] = ("--no-report",)) -> list[str]:
    """What runs a program."""
    return [sys.executable, "-m", "gpusim.cli", "exec", *GPU, *options, *map(str, words)]


def environment(**changed: str) -> dict[str, str]:
    """For a program in any folder: it is this gpusim that is run."""
    return os.environ | {"PYTHONPATH": str(DATA.parents[2])} | changed


def run(*words: object, options: tuple[str, ...] = ("--no-report",), **how: object) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. how: as subprocess.run takes it; env: what to change of this environment."""
    changed = environment(**how.pop("env", {}))
    return forks.run(*command(*words, options=options)[1:], env=changed, **({"timeout": 120} | how))
