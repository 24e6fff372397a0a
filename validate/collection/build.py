"""Build the listed programs from checkouts of their collections, into a folder that can be carried to a GPU."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from validate.collection.listing import ListedProgram
from validate.collection.worker import FORMAT, MANIFEST
from validate.foreign.launch import NotBuilt

ARCH = "sm_90"
_SECONDS = 300
_MAKEFILE_PROGRAM = re.compile(r"^program\s*:?=\s*(\S+)", re.MULTILINE)


def build(
    programs: Sequence[ListedProgram], checkouts: Sequence[Path], out: Path, jobs: int = 1
) -> Iterator[tuple[ListedProgram, str]]:
    """Build the programs and write the manifest; gives each with '', or with why it is left out.

    checkouts: of HeCBench and of cuda-samples, in any order; HeCBench's makefiles build in place.
    """
    out.mkdir(parents=True, exist_ok=True)
    _copy_runtime(out / "lib")
    path = out / MANIFEST
    built: dict[str, Any] = json.loads(path.read_text())["programs"] if path.exists() else {}

    def one(program: ListedProgram) -> tuple[ListedProgram, str]:
        try:
            built[program.name] = _build(program, checkouts, out)
        except (NotBuilt, OSError, subprocess.SubprocessError) as error:
            built.pop(program.name, None)
            return program, str(error)
        return program, ""

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(one, programs)
    how = {"format": FORMAT, "nvcc": _version(), "commits": [_commit(each) for each in checkouts]}
    order = [program.name for program in programs if program.name in built]
    path.write_text(json.dumps(how | {"programs": {name: built[name] for name in order}}, indent=1))


def _build(program: ListedProgram, checkouts: Sequence[Path], out: Path) -> dict[str, Any]:
    """The program's entry in the manifest."""
    root = next((each for each in checkouts if (each / program.folder).is_dir()), None)
    if root is None:
        raise NotBuilt(f"no checkout has {program.folder}")
    source, home = root / program.folder, out / program.name
    made = _make(source) if (source / "Makefile").exists() else _compile(source, root / "Common")
    home.mkdir(parents=True, exist_ok=True)
    executable = home / source.name.removesuffix("-cuda")
    shutil.copy(made, executable)
    subprocess.run(["strip", str(executable)], check=True)
    for file in program.files:
        shutil.copy(root / file, home / file.name)
    return {
        "folder": program.name,
        "executable": executable.name,
        "arguments": list(program.arguments),
        "sha256": hashlib.sha256(executable.read_bytes()).hexdigest(),
    }


def _make(source: Path) -> Path:
    """What the program's own makefile makes."""
    found = _MAKEFILE_PROGRAM.search((source / "Makefile").read_text(errors="replace"))
    target = found[1] if found else "main"
    _call(["make", "-B", f"ARCH={ARCH}", "CC=nvcc -cudart shared", target], source)
    return source / target


def _compile(source: Path, common: Path) -> Path:
    """A sample, without the build system that it comes with."""
    made = Path(tempfile.mkdtemp()) / source.name
    files = [str(each.name) for each in sorted(source.iterdir()) if each.suffix in (".cu", ".cpp")]
    options = [
        "-cudart",
        "shared",
        f"-arch={ARCH}",
        "-std=c++17",
        "--extended-lambda",
        "-O3",
        f"-I{common.resolve()}",
    ]
    _call(["nvcc", *options, *files, "-o", str(made)], source)
    return made


def _call(line: list[str], folder: Path) -> None:
    done = subprocess.run(
        line, cwd=folder, capture_output=True, text=True, errors="replace", timeout=_SECONDS
    )
    if done.returncode:
        said = [each for each in done.stderr.splitlines() if "error" in each] or done.stderr.splitlines()[-1:]
        raise NotBuilt(" ".join(said[:1])[:160])


def _copy_runtime(folder: Path) -> None:
    """The shared runtime that the programs are linked with, for a machine that has none."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise NotBuilt("there is no nvcc")
    told = subprocess.run([nvcc, "--dryrun", "x.cu"], capture_output=True, text=True).stderr
    folder.mkdir(exist_ok=True)
    for each in re.findall(r"^#\$ LD_LIBRARY_PATH=([^:\n]+)", told, re.MULTILINE):
        for library in Path(each).glob("libcudart.so.*"):
            shutil.copy(library, folder / library.name)


def _version() -> str:
    said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout
    found = re.search(r"\bV([\d.]+)", said)
    return found[1] if found else "?"


def _commit(checkout: Path) -> str:
    """'HeCBench f27000a...': of a checkout, its folder's name alone if it is none of git's."""
    said = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True
    ).stdout
    return f"{checkout.resolve().name} {said.strip()}".strip()
