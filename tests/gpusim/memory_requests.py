"""Requests to the memory system by themselves, without SMs: all are answered at once."""

import numpy as np

from gpusim.engine.memory.system import process_window
from gpusim.engine.state import ms

_UNTIL = 1 << 40


def answer(state: np.ndarray, req: np.ndarray, counts: np.ndarray, order: np.ndarray) -> int:
    """`process_window`, and the answers of the reads that it has deferred. Returns how many requests there were."""
    req[:, :, ms.REQ_TOKEN] = np.arange(req.shape[1])
    served = process_window(state, req, counts, order, _UNTIL)
    late = int(state[ms.P_LATE])
    entry = int(state[late + ms.LATE_DONE])
    while entry:
        whose = int(state[entry + 5])
        req[whose >> 32, whose & 0xFFFFFFFF, ms.REQ_REPLY] = -(-int(state[entry + 4]) // ms.TICKS)
        following, state[entry] = int(state[entry]), state[late + ms.LATE_FREE]
        state[late + ms.LATE_FREE], entry = entry, following
    state[late + ms.LATE_DONE] = state[late + ms.LATE_SLOT] = 0
    return served
