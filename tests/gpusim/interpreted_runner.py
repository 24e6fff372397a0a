"""Small kernels on the tiny GPU, and all that a run leaves behind as JSON; a script that takes the kernel's name,
and the lanes of a warp if they are not 32.

`test_interpreted.py` runs it with NUMBA_DISABLE_JIT=1, which Numba reads once, at import.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import numpy as np
from numba import cuda, float32

import gpusim
from gpusim.engine.sm.sm import advance_range

BLOCK = 64


def vector_add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def block_sums(x, out, count, largest):
    """Shared memory, barriers, a loop whose trip counts differ, and atomics of three kinds."""
    tile = cuda.shared.array(BLOCK, float32)
    t = cuda.threadIdx.x
    value = float32(0)
    for k in range(t % 5):
        value += x[cuda.grid(1)] / float32(k + 1)
    tile[t] = value
    cuda.syncthreads()
    step = BLOCK // 2
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, tile[0])
    cuda.atomic.max(largest, t % 3, t)
    if cuda.atomic.add(count, 0, 1) % 7 == 0:
        cuda.atomic.add(count, 1, 1)


def _vector_add_arguments() -> tuple[int, tuple[np.ndarray, ...]]:
    x = np.arange(500, dtype=np.float32)
    return 4, (x, 3 * x, np.zeros(500, np.float32))


def _block_sums_arguments() -> tuple[int, tuple[np.ndarray, ...]]:
    x = np.random.default_rng(3).random(3 * BLOCK).astype(np.float32)
    return 3, (x, np.zeros(1, np.float32), np.zeros(2, np.int32), np.zeros(3, np.int64))


KERNELS = {
    "vector_add": (vector_add, 128, _vector_add_arguments),
    "block_sums": (block_sums, BLOCK, _block_sums_arguments),
}


def outcome(name: str) -> dict[str, Any]:
    """Whether the engine is compiled, cycles, digests of all counters, and the arguments after the run."""
    kernel, block, arguments = KERNELS[name]
    grid, args = arguments()
    result = gpusim.simulate(kernel, grid, block, args, gpu="tiny")
    record = result.record
    return {
        "compiled": hasattr(advance_range, "signatures"),
        "cycles": result.cycles,
        "issued": int(record.sm_issued.sum()),
        "counters": hashlib.sha256(record.counters.tobytes()).hexdigest(),
        "memory": record.memory.tolist(),
        "arguments": [array.tobytes().hex() for array in args],
    }


if __name__ == "__main__":
    print(json.dumps(outcome(sys.argv[1])))
