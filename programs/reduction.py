"""Sum of an array, one partial sum per block: the classic ladder in which each step removes one cost.

1. `interleaved_divergent`: every second, then every fourth thread adds and so on: warps stay half empty.
2. `interleaved_conflicts`: the threads that add are neighbours, so whole warps retire; the strided words
   collide in the banks of shared memory.
3. `sequential`: words next to each other, no conflicts; but half of the threads never add anything.
4. `first_add`: each thread adds two elements while loading, so half as many blocks do the same work.
5. `unrolled_last_warp`: the last 32 threads are one warp and need no barrier of the block.
6. `unrolled`: the block size is a constant, so the loop, its counter and its branches vanish.
7. `multiple`: each thread adds several elements in a grid-stride loop before the tree begins; the tree costs
   the same for eight elements as for one.
8. `shuffle`: lanes exchange registers instead of words in shared memory, and one barrier is enough.

In the report, follow executed instructions, threads per instruction, excess shared-memory wavefronts and
barrier stalls from step to step; the last steps leave only the time of reading the array. After M. Harris,
"Optimizing Parallel Reduction in CUDA" (NVIDIA, 2007), with the synchronisation that independent thread
scheduling needs.

Tolerance: the inputs are positive, so a sum in which each element passes through k additions is within
k * 2**-24 of the exact one, relative (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002,
section 4.2). Here k <= 16: eight levels of the tree and at most eight additions while loading.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Rung, Size, ceil_div, ladder, step

BLOCK = 256
WARP = 32
WARPS = BLOCK // WARP
ITEMS = 8
"""Elements per thread in the grid-stride variants."""
FULL = 0xFFFFFFFF
"""Every lane of the warp takes part."""
RTOL = (8 + ITEMS) * 2.0**-24


def interleaved_divergent(x, partial):
    s = cuda.shared.array(BLOCK, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < x.size else np.float32(0)
    cuda.syncthreads()
    step = np.uint32(1)
    while step < cuda.blockDim.x:
        # Unsigned, since Python's signed modulo costs several times the instructions.
        if np.uint32(t) % np.uint32(2 * step) == 0:
            s[t] += s[t + step]
        cuda.syncthreads()
        step = np.uint32(2 * step)
    if t == 0:
        partial[cuda.blockIdx.x] = s[0]


def interleaved_conflicts(x, partial):
    s = cuda.shared.array(BLOCK, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < x.size else np.float32(0)
    cuda.syncthreads()
    step = 1
    while step < cuda.blockDim.x:
        k = 2 * step * t
        if k < cuda.blockDim.x:
            s[k] += s[k + step]
        cuda.syncthreads()
        step *= 2
    if t == 0:
        partial[cuda.blockIdx.x] = s[0]


def sequential(x, partial):
    s = cuda.shared.array(BLOCK, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < x.size else np.float32(0)
    cuda.syncthreads()
    step = cuda.blockDim.x >> 1
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step >>= 1
    if t == 0:
        partial[cuda.blockIdx.x] = s[0]


def first_add(x, partial):
    s = cuda.shared.array(BLOCK, np.float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * (2 * cuda.blockDim.x) + t
    total = x[i] if i < x.size else np.float32(0)
    if i + cuda.blockDim.x < x.size:
        total += x[i + cuda.blockDim.x]
    s[t] = total
    cuda.syncthreads()
    step = cuda.blockDim.x >> 1
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step >>= 1
    if t == 0:
        partial[cuda.blockIdx.x] = s[0]


# Inlined by Numba itself: without a GPU to compile for, it compiles no separate device functions.
@cuda.jit(device=True, inline="always")
def _add_last_warp(s, t):
    """Add 64 words with one warp; the sum ends in s[0].

    Lanes of a warp may run apart, so each step reads, waits for the warp, writes and waits again. The total
    stays in a register, which saves reading back what the lane wrote itself.
    """
    total = s[t] + s[t + 32]
    cuda.syncwarp()
    s[t] = total
    cuda.syncwarp()
    total += s[t + 16]
    cuda.syncwarp()
    s[t] = total
    cuda.syncwarp()
    total += s[t + 8]
    cuda.syncwarp()
    s[t] = total
    cuda.syncwarp()
    total += s[t + 4]
    cuda.syncwarp()
    s[t] = total
    cuda.syncwarp()
    total += s[t + 2]
    cuda.syncwarp()
    s[t] = total
    cuda.syncwarp()
    return total + s[t + 1]


def unrolled_last_warp(x, partial):
    s = cuda.shared.array(BLOCK, np.float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * (2 * cuda.blockDim.x) + t
    total = x[i] if i < x.size else np.float32(0)
    if i + cuda.blockDim.x < x.size:
        total += x[i + cuda.blockDim.x]
    s[t] = total
    cuda.syncthreads()
    step = cuda.blockDim.x >> 1
    while step > WARP:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step >>= 1
    if t < WARP:
        total = _add_last_warp(s, t)
        if t == 0:
            partial[cuda.blockIdx.x] = total


@cuda.jit(device=True, inline="always")
def _add_block(s, t, partial):
    """Add the BLOCK = 256 words of `s`, fully unrolled, and store the sum."""
    if t < 128:
        s[t] += s[t + 128]
    cuda.syncthreads()
    if t < 64:
        s[t] += s[t + 64]
    cuda.syncthreads()
    if t < WARP:
        total = _add_last_warp(s, t)
        if t == 0:
            partial[cuda.blockIdx.x] = total


def unrolled(x, partial):
    s = cuda.shared.array(BLOCK, np.float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * (2 * BLOCK) + t
    total = x[i] if i < x.size else np.float32(0)
    if i + BLOCK < x.size:
        total += x[i + BLOCK]
    s[t] = total
    cuda.syncthreads()
    _add_block(s, t, partial)


def multiple(x, partial):
    s = cuda.shared.array(BLOCK, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    total = np.float32(0)
    while i < x.size:
        total += x[i]
        i += cuda.gridsize(1)
    s[t] = total
    cuda.syncthreads()
    _add_block(s, t, partial)


def shuffle(x, partial):
    s = cuda.shared.array(WARPS, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    total = np.float32(0)
    while i < x.size:
        total += x[i]
        i += cuda.gridsize(1)
    for k in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(FULL, total, k)
    if cuda.laneid == 0:
        s[t >> 5] = total  # one word per warp; `t // 32` of a signed number costs far more
    cuda.syncthreads()
    if t < WARP:
        total = s[t] if t < WARPS else np.float32(0)
        for k in (4, 2, 1):
            total += cuda.shfl_down_sync(FULL, total, k)
        if t == 0:
            partial[cuda.blockIdx.x] = total


# Elements per thread: up to two from adjacent chunks, more in a grid-stride loop.
_ITEMS = {first_add: 2, unrolled_last_warp: 2, unrolled: 2, multiple: ITEMS, shuffle: ITEMS}


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    blocks = ceil_div(n, _ITEMS.get(kernel, 1) * BLOCK)
    return Launch(kernel, blocks, BLOCK, (rng.random(n, np.float32), np.full(blocks, np.nan, np.float32)))


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    x, partial = launch.args
    chunk, items = np.arange(x.size) // BLOCK, _ITEMS.get(launch.kernel, 1)
    block = chunk // items if items <= 2 else chunk % partial.size
    return (np.bincount(block, weights=x, minlength=partial.size).astype(np.float32),)


def _step(kernel: Callable[..., None], teaches: str) -> Rung:
    return step(kernel, teaches, test_size=2 * _ITEMS.get(kernel, 1) * BLOCK + 88)


VARIANTS = ladder(
    Size("elements", (10_000, 1 << 20), default=1 << 16, test=0),
    _step(interleaved_divergent, "Choosing every second thread with a modulo leaves warps half empty."),
    _step(interleaved_conflicts, "Threads that work side by side fill warps; their words share banks."),
    _step(sequential, "Adding two adjacent halves has neither divergent warps nor bank conflicts."),
    _step(first_add, "Adding while loading puts threads to work that would only have loaded."),
    _step(unrolled_last_warp, "One warp needs no barrier of the block for its last steps."),
    _step(unrolled, "A block size known to the compiler removes the loop and its branches."),
    _step(multiple, "Several elements per thread spread the cost of the tree over more work."),
    _step(shuffle, "Lanes that exchange registers need hardly any shared memory and one barrier."),
    rtol=RTOL,
)
