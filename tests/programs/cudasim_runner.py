"""Runs programs at their test sizes under Numba's CUDA simulator; prints {variant: what is wrong, or null}.

Run as a script with NUMBA_ENABLE_CUDASIM=1, which Numba reads once, at import; arguments name the variants to
run. The simulator runs each thread as a Python thread and knows no warps, so what programs use of warps is added here:
a barrier of the whole block stands for the barrier of a warp, which is the same for programs in which all threads that
are still alive reach it. Nor does it know the instructions of
`programs.ptx` and the fast functions of libdevice, which get a meaning in Python here.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.simulator import kernel
from numba.cuda.simulator.kernel import BlockManager, BlockThread, _get_kernel_context
from numba.cuda.simulator.kernelapi import FakeCUDAModule

from programs import ptx, registry
from programs.rounding import fma32
from programs.variant import Variant

_exchange: dict[tuple[Any, int], Any] = {}


class _InTurn(BlockThread):
    """A thread that runs while its block waits for it, up to its next barrier or its end."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.turn, self.pause, self.ended = threading.Lock(), threading.Lock(), False
        self.turn.acquire(), self.pause.acquire()

    def run(self) -> None:
        super().run()
        self.ended = True
        self.pause.release()

    def syncthreads(self) -> None:
        self.pause.release()
        self.turn.acquire()

    def go_on(self) -> None:
        if self.ident is None:
            self.start()
        else:
            self.turn.release()
        self.pause.acquire()


def _run_block(self: BlockManager, block: tuple[int, ...], *args: Any) -> None:
    """One thread after the other, each up to its next barrier, until all have ended.

    The simulator's own lets all run at once and polls them: hundreds that want the interpreter keep each other from it.
    """
    points = np.ndindex(*self._block_dim)
    alive = [_InTurn(lambda: self._f(*args), self, block, point, self._debug) for point in points]
    while alive:
        for thread in alive:
            thread.go_on()
            if thread.exception:
                raise thread.exception[0].with_traceback(thread.exception[1])
        alive = [thread for thread in alive if not thread.ended]


BlockManager.run = _run_block


def _swap(module: FakeCUDAModule, value: Any) -> tuple[Any, int]:
    """Show a value to the other threads of the block; returns the block and the number of this thread."""
    block, thread = tuple(module.blockIdx), threading.current_thread().thread_id
    _exchange[block, thread] = value
    module.syncthreads()
    return block, thread


def _syncwarp(module: FakeCUDAModule, mask: int = 0xFFFFFFFF) -> None:
    module.syncthreads()


def _shuffle(module: FakeCUDAModule, value: Any, source_of: Callable[[int], int]) -> Any:
    block, thread = _swap(module, value)
    lane = source_of(thread % 32)
    result = _exchange[block, thread - thread % 32 + lane] if 0 <= lane < 32 else value
    module.syncthreads()
    return result


def _shfl_down_sync(module: FakeCUDAModule, mask: int, value: Any, delta: int) -> Any:
    return _shuffle(module, value, lambda lane: lane + delta)


def _shfl_sync(module: FakeCUDAModule, mask: int, value: Any, source: int) -> Any:
    return _shuffle(module, value, lambda lane: source)


def _shfl_up_sync(module: FakeCUDAModule, mask: int, value: Any, delta: int) -> Any:
    return _shuffle(module, value, lambda lane: lane - delta)


def _shfl_xor_sync(module: FakeCUDAModule, mask: int, value: Any, bits: int) -> Any:
    return _shuffle(module, value, lambda lane: lane ^ bits)


def _ballot_sync(module: FakeCUDAModule, mask: int, predicate: Any) -> int:
    block, thread = _swap(module, predicate)
    first = thread - thread % 32
    result = sum(1 << lane for lane in range(32) if _exchange[block, first + lane])
    module.syncthreads()
    return result


def _match_any_sync(module: FakeCUDAModule, mask: int, value: Any) -> int:
    block, thread = _swap(module, value)
    first = thread - thread % 32
    result = sum(1 << lane for lane in range(32) if _exchange[block, first + lane] == value)
    module.syncthreads()
    return result


def _of_float32(function: Callable[..., Any]) -> Callable[..., np.float32]:
    return lambda *values: np.float32(function(*map(np.float64, values)))


# The simulator's own fma rounds twice. The fast functions of libdevice are the accurate ones here.
_ADDED = {
    "syncwarp": _syncwarp,
    "shfl_down_sync": _shfl_down_sync,
    "shfl_sync": _shfl_sync,
    "shfl_up_sync": _shfl_up_sync,
    "shfl_xor_sync": _shfl_xor_sync,
    "ballot_sync": _ballot_sync,
    "match_any_sync": _match_any_sync,
    "fma": lambda module, a, b, c: fma32(a, b, c)[()],
    "libdevice": SimpleNamespace(
        fast_sinf=_of_float32(np.sin),
        fast_cosf=_of_float32(np.cos),
        fast_expf=_of_float32(np.exp),
        fast_logf=_of_float32(np.log),
        fast_fdividef=_of_float32(np.divide),
    ),
}
for _name, _function in _ADDED.items():
    setattr(FakeCUDAModule, _name, _function)


class _Current:
    """Stands for `cuda` in modules of kernels: the kernel that runs now."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_get_kernel_context(), name)


_current = _Current()
_seen: set[int] = set()


def _stand_in(function: Callable[..., Any], _: FakeCUDAModule) -> nullcontext[None]:
    """For good. The simulator puts the kernel there whenever a thread enters a function, and takes it out when it
    leaves, which is most of the time that a short function takes."""
    names = function.__globals__
    if id(names) not in _seen:
        _seen.add(id(names))
        names.update({name: _current for name, value in names.items() if value is cuda})
    return _NOTHING


_NOTHING = nullcontext()
kernel.swapped_cuda_module = _stand_in


# The instructions of `programs.ptx`, with the meaning that the PTX manual gives them.


def _words(*values: Any) -> np.ndarray:
    return np.array([int(value) for value in values], np.uint32)


def _fma_half2(a: Any, b: Any, c: Any) -> np.uint32:
    # Exact in double precision for halves whose exponents are not far apart, so rounded once.
    x, y, z = (_words(each).view(np.float16).astype(np.float64) for each in (a, b, c))
    return (x * y + z).astype(np.float16).view(np.uint32)[0]


def _dp4a(a: Any, b: Any, c: Any) -> np.int32:
    x, y = (_words(each).view(np.int8).astype(np.int64) for each in (a, b))
    return np.int32(int(c) + int(x @ y))


def _load4(array: Any, index: Any) -> tuple[Any, ...]:
    assert index % 4 == 0
    return tuple(array[int(index) + i] for i in range(4))


def _store4(array: Any, index: Any, *values: Any) -> None:
    assert index % 4 == 0
    for i, value in enumerate(values):
        array[int(index) + i] = value


def _mma_half(*values: Any) -> tuple[np.float32, ...]:
    module = _get_kernel_context()
    block, thread = _swap(module, values)
    lane = thread % 32
    lanes = [_exchange[block, thread - lane + i] for i in range(32)]
    module.syncthreads()
    a, b, c = np.empty((16, 16)), np.empty((16, 8)), np.empty((16, 8))
    for i, (*words, c0, c1, c2, c3) in enumerate(lanes):
        group, pair = i // 4, 2 * (i % 4)
        a0, a1, a2, a3, b0, b1 = _words(*words).view(np.float16).reshape(6, 2)
        a[group, pair : pair + 2], a[group + 8, pair : pair + 2] = a0, a1
        a[group, pair + 8 : pair + 10], a[group + 8, pair + 8 : pair + 10] = a2, a3
        b[pair : pair + 2, group], b[pair + 8 : pair + 10, group] = b0, b1
        c[group, pair : pair + 2], c[group + 8, pair : pair + 2] = (c0, c1), (c2, c3)
    result = (a @ b + c).astype(np.float32)
    group, pair = lane // 4, 2 * (lane % 4)
    return (*result[group, pair : pair + 2], *result[group + 8, pair : pair + 2])


ptx.fma_half2, ptx.dp4a, ptx.mma_half = _fma_half2, _dp4a, _mma_half
ptx.load4, ptx.store4 = _load4, _store4


def run(variant: Variant) -> str | None:
    launch = variant.make(variant.test_size, 7)
    expected = variant.reference(launch)
    try:
        cuda.jit(variant.kernel)[launch.grid, launch.block](*launch.args)
    except Exception as error:  # whatever goes wrong in one kernel must not hide the others
        return f"{type(error).__name__}: {error}"
    return variant.mismatch(expected, variant.results(launch))


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):  # to hand a turn to a thread on another core takes twice as long
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})
    report = {}
    for name in sys.argv[1:]:
        start = time.perf_counter()
        report[name] = run(registry.get(name))
        print(f"{name} {time.perf_counter() - start:.1f} s", file=sys.stderr)
    print(json.dumps(report))
