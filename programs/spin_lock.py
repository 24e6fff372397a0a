"""A lock that the threads of a GPU take from each other: between the lanes of one warp it ends only since Volta.

A thread takes the lock with a compare-and-swap, again and again until it has it; then it adds to a sum, which no atomic
protects, and lets the lock go. With `lanes` all do so at once: in a warp one has the lock, and 31 wait for it in a
loop. Where each lane has a program counter of its own, those in the loop give way now and then to the one behind it,
which lets the lock go. With one program counter for the warp, as GPUs had before Volta, the lane with the lock waits
behind the loop until the 31 come out of it, and they wait in the loop for the lock: it hangs, and the simulator says
so. With `in_turn`, as programs had to be written then, a lane waits only for other warps.

    gpusim run spin_lock/lanes --set issue.reconvergence=stack

In the report, look at the threads active in the critical section, one of 32, and at what waiting costs.

Integers, so bit-exact in whatever order the threads add.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Kernel, Size, ceil_div, ladder, step

BLOCK = 64


def lanes(x, lock, total):
    i = cuda.grid(1)
    if i < x.size:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        total[0] += x[i]
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


def in_turn(x, lock, total):
    i = cuda.grid(1)
    if i < x.size:
        for lane in range(32):
            if lane == cuda.laneid:
                while cuda.atomic.cas(lock, 0, 0, 1) != 0:
                    pass
                cuda.threadfence()
                total[0] += x[i]
                cuda.threadfence()
                cuda.atomic.exch(lock, 0, 0)


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    return (launch.args[0].sum(dtype=np.int32, keepdims=True),)


def make(kernel: Kernel, n: int, rng: np.random.Generator) -> Launch:
    x = rng.integers(1, 100, n, np.int32)
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, (x, np.zeros(1, np.int32), np.zeros(1, np.int32)))


VARIANTS = ladder(
    Size("threads", (32, 256), default=64, test=40, maximum=1 << 12),
    step(lanes, "Lanes of one warp wait for each other's lock: it ends since Volta, and hangs before it."),
    step(in_turn, "Each lane has its turn, and waits for other warps alone: it ends on any GPU."),
    outputs=(2,),
    polls=True,
    recorded=False,
)
