"""Where cached programs and compiled code of the engine lie.

On its own, because what the engine imports counts for the digest of its machine code.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """Where cached programs lie: $GPUSIM_CACHE_DIR, else `gpusim` in the platform's cache folder."""
    chosen = os.environ.get("GPUSIM_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "gpusim"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gpusim"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpusim"
