"""Runs every program at its test size under Numba's CUDA simulator; prints {variant: what is wrong, or null}.

Run as a script with NUMBA_ENABLE_CUDASIM=1, which Numba reads once, at import. The simulator runs each thread
as a Python thread and knows no warps, so what programs use of warps is added here: a barrier of the whole
block stands for the barrier of a warp, which is the same for programs in which all threads that are still
alive reach it.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from numba import cuda
from numba.cuda.simulator.kernelapi import FakeCUDAModule

from programs import registry
from programs.rounding import fma32
from programs.variant import Variant

_exchange: dict[tuple[int, int], Any] = {}


def _thread(module: FakeCUDAModule) -> tuple[int, int]:
    """(block, thread) for the one-dimensional launches that use warp operations."""
    return module.blockIdx.x, module.threadIdx.x


def _syncwarp(module: FakeCUDAModule, mask: int = 0xFFFFFFFF) -> None:
    module.syncthreads()


def _shfl_down_sync(module: FakeCUDAModule, mask: int, value: Any, delta: int) -> Any:
    block, thread = _thread(module)
    _exchange[block, thread] = value
    module.syncthreads()
    source = thread + delta if thread % 32 + delta < 32 else thread
    result = _exchange[block, source]
    module.syncthreads()
    return result


# The simulator's own fma rounds twice.
_ADDED = {
    "syncwarp": _syncwarp,
    "shfl_down_sync": _shfl_down_sync,
    "fma": lambda module, a, b, c: fma32(a, b, c)[()],
}
for _name, _function in _ADDED.items():
    setattr(FakeCUDAModule, _name, _function)


def run(variant: Variant) -> str | None:
    launch = variant.make(variant.test_size, 7)
    expected = variant.reference(launch)
    try:
        cuda.jit(variant.kernel)[launch.grid, launch.block](*launch.args)
    except Exception as error:  # whatever goes wrong in one kernel must not hide the others
        return f"{type(error).__name__}: {error}"
    return variant.mismatch(expected, variant.results(launch))


if __name__ == "__main__":
    report = {}
    for name in registry.names():
        start = time.perf_counter()
        report[name] = run(registry.get(name))
        print(f"{name} {time.perf_counter() - start:.1f} s", file=sys.stderr)
    print(json.dumps(report))
