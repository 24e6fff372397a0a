"""Is the compiled core there? Compiling it takes long enough that a user should be told."""

from __future__ import annotations

import time

from numba.core.event import RecordingListener, install_listener  # noqa: F401

_spent = 0.0


def core_is_cached() -> bool:
    """True if this process or the disk cache has the core's largest function for this machine."""
    from gpusim.engine.sm import advance_range

    if advance_range.signatures:
        return True
    cache = advance_range._cache
    return bool(getattr(cache, "_impl", None)) and _index_exists(cache)


def _index_exists(cache: object) -> bool:
    from pathlib import Path

    file = getattr(cache, "_cache_file", None)
    return file is not None and Path(file._index_path).exists()


def compile_seconds() -> float:
    """Seconds this process has spent compiling the core."""
    return _spent


def now() -> float:
    return time.perf_counter()
