"""Parts of an SM's simulation, as a host profile tells them apart: the engine notes where it is, `PartSampler` looks.

Only an engine compiled for it notes anything (`code_cache.PROFILED`).
"""

from __future__ import annotations

import threading

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.engine.state.arrays import State
from gpusim.engine.state.code_cache import PROFILED
from gpusim.engine.state.jit import compiled

PARTS = ("", "scheduler", "readiness", "executors", "addresses and values", "L1 and queues", "replies")
_, SCHEDULER, READINESS, EXECUTORS, VALUES, L1, REPLIES = range(7)
_SECONDS = 0.0005  # from one look to the next


@compiled
def mark(st, sm, part):
    """The host is at `part` of an SM, 0 for none."""
    if PROFILED:
        st.sm[sm, L.SM_PART] = part


class PartSampler(threading.Thread):
    """Looks again and again where the engine is. `shares`: of the looks that found it within an SM, by part."""

    def __init__(self, state: State):
        super().__init__(daemon=True)
        self._at, self._seen = state.sm[:, L.SM_PART], np.zeros(len(PARTS), np.int64)
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(_SECONDS):
            self._seen += np.bincount(self._at, minlength=len(PARTS))

    def stop(self) -> dict[str, float]:
        """Ends it. Returns the shares by name."""
        self._over.set()
        self.join()
        seen = self._seen[1:]
        return dict(zip(PARTS[1:], (seen / max(seen.sum(), 1)).tolist(), strict=True))
