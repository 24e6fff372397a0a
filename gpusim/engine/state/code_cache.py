"""The cache of compiled functions, by content.

A file's folder is named after a digest of the file and of everything in `gpusim` and `isa` that it imports. A change
recompiles what uses the changed file, and two checkouts of one version share their code. With GPUSIM_BOUNDS_CHECK=1 in
the environment every index is checked (`bounds`), and the code has folders of its own.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba

from isa.folders import cache_folder

#: Folder of gpusim and isa.
_HOME = Path(__file__).parents[3]
_ROOMS = ("gpusim", "isa")
#: An import statement that is not inside a function, whose names are all that compiled code can refer to.
_IMPORT = re.compile(r"^from ((?:gpusim|isa)[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
#: True if an index out of range ends the run with an IndexError, rather than with what lies at that place of memory.
BOUNDS_CHECK = os.environ.get("GPUSIM_BOUNDS_CHECK") == "1"
#: Called with what is being compiled whenever this process compiles a function, or machine code of an entry.
watchers: list[Callable[[str], None]] = []


def core_folder() -> Path:
    """Folder that says whether all of this version of the core has been compiled; $GPUSIM_CACHE_DIR moves it."""
    return code_folder(_HOME / "gpusim" / "engine" / "warm.py")


@cache
def code_folder(file: Path) -> Path:
    """Folder for the compiled functions of one file."""
    ours = any(file.is_relative_to(_HOME / room) for room in _ROOMS)
    name = _noted().get(file.as_posix()) if ours else None
    if name is None:
        digest = hashlib.sha256(numba.__version__.encode() + b" checked" * BOUNDS_CHECK)
        for path, each in sorted((os.path.relpath(each, _HOME), each) for each in _needed(file)):
            digest.update(path.encode() + b"\0" + each.read_bytes())
        name = f"{file.stem}-{digest.hexdigest()[:16]}"
        if ours:
            _noted()[file.as_posix()] = name
            keep(_notes(), json.dumps(_noted()).encode())
    return _folder() / name


@cache
def _noted() -> dict[str, str]:
    """Names of our files' folders, worked out when every file had the size and the time that it has now."""
    try:
        return json.loads(_notes().read_bytes())
    except (OSError, ValueError):
        return {}


@cache
def _notes() -> Path:
    digest = hashlib.sha256(f"{numba.__version__} {BOUNDS_CHECK}".encode())
    for room in _ROOMS:
        for folder, folders, files in os.walk(_HOME / room):
            folders.sort()
            for file in sorted(files):
                if file.endswith(".py"):
                    stat = os.stat(os.path.join(folder, file))
                    digest.update(f"{folder}/{file} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return _folder() / f"folders-{digest.hexdigest()[:16]}.json"


def _folder() -> Path:
    return cache_folder() / "engine"


def file_of(function: Callable[..., Any], kind: str, arguments: tuple[Any, ...]) -> Path:
    """File for one function, compiled as a `kind` for these types."""
    from numba.core.registry import cpu_target

    processor = cpu_target.target_context.codegen().magic_tuple()
    digest = hashlib.sha256(repr((function.__qualname__, kind, arguments, processor)).encode())
    folder = code_folder(Path(function.__code__.co_filename))
    return folder / f"{function.__name__}-{digest.hexdigest()[:16]}.{kind}"


def keep(file: Path, content: bytes) -> None:
    """Write a file whole or not at all, since others may read it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    own = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    own.write_bytes(content)
    own.replace(file)


def _needed(file: Path) -> set[Path]:
    """A file and all files of gpusim and isa that it imports, directly or not."""
    found: set[Path] = set()
    left = [file]
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            left += _imported(file)
    return found


@cache
def _imported(file: Path) -> tuple[Path, ...]:
    """Files of gpusim and isa that a file imports."""
    found = []
    for module, names in _IMPORT.findall(file.read_text("utf-8")):
        for name in re.findall(r"(\w+)(?: as \w+)?", re.sub(r"#.*", "", names)):
            found.append(_file_of(f"{module}.{name}") or _file_of(module))
    return tuple(path for path in found if path is not None)


@cache
def _file_of(module: str) -> Path | None:
    base = _HOME.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


@contextmanager
def without_collector() -> Iterator[None]:
    """Compile with Python's collector of garbage off: it takes a tenth of the time and finds next to nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
