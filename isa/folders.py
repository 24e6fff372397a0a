"""Folders of cached programs and of the engine's compiled code.

On its own, because what the engine imports counts for the digest of its machine code.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from isa.errors import SimulationError


def cache_folder() -> Path:
    """The folder of cached programs: $GPUSIM_CACHE_DIR, else `gpusim` in the platform's cache folder; where that cannot
    be written, or is full, one among temporary files, with a warning. Raises SimulationError
    if that cannot be written either."""
    chosen = os.environ.get("GPUSIM_CACHE_DIR")
    if chosen:
        return _usable(Path(chosen))
    if sys.platform == "win32":
        return _usable(Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "gpusim")
    if sys.platform == "darwin":
        return _usable(Path.home() / "Library" / "Caches" / "gpusim")
    return _usable(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpusim")


@cache
def _usable(folder: Path) -> Path:
    try:
        put_file(folder / f"probe-{os.getpid()}", bytes(1 << 16)).unlink(missing_ok=True)
    except OSError as error:
        user = getattr(os, "getuid", int)()
        other = Path(tempfile.gettempdir(), f"gpusim-{user}-cache")
        if not other.exists():
            other.mkdir(mode=0o700)
            for file in filter(Path.is_file, folder.rglob("*")):  # what is there can still be read
                link = other / file.relative_to(folder)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(file.absolute())
        why = f"the cache folder {folder} cannot be written: {error.strerror}"
        if folder == other or other.lstat().st_uid != user:  # code from another user's folder would be run
            raise SimulationError(f"{why}; GPUSIM_CACHE_DIR names another") from None
        print(f"gpusim: warning: {why}; {other} is used instead (GPUSIM_CACHE_DIR names another)", file=sys.stderr)
        os.environ["GPUSIM_CACHE_DIR"] = str(other)  # for processes that this one starts
        return _usable(other)
    return folder


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the file to write in place of `path`, which it becomes when all has gone well: a disk that is full then
    costs nothing that was there."""
    target = Path(path).resolve()
    if target.exists() and not target.is_file():  # such as /dev/stdout
        yield target
        return
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(target)
    except OSError as error:
        error.filename = str(path)  # not the part's name, or none
        raise
    finally:
        part.unlink(missing_ok=True)


def put_file(path: Path, content: bytes, mode: int = 0o644) -> Path:
    """Write a file that appears under its name in one step, so that a reader never sees half of it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
