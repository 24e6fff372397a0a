"""Folders of cached programs and of the engine's compiled code.

On its own, because what the engine imports counts for the digest of its machine code.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """The folder of cached programs: $GPUSIM_CACHE_DIR, else `gpusim` in the platform's cache folder."""
    chosen = os.environ.get("GPUSIM_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "gpusim"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gpusim"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpusim"


def put_file(path: Path, content: bytes, mode: int = 0o644) -> None:
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
