"""Attention `softmax(q @ k.T / sqrt(d)) @ v` for a few heads: the kernels that store the matrix of scores, and one
that does not.

With n keys, a head's scores are an n x n matrix, while `q`, `k`, `v` and the result have n x 64 elements. Unfused, a
kernel computes the scores and stores them (`scores`), a second turns each row into weights (`softmax`), a third adds
up the values by their weights (`values`): four times n x n elements cross the L2 cache, and HBM once they no longer
fit. `fused` never stores them (T. Dao, D. Fu, S. Ermon, A. Rudra and C. Re, "FlashAttention", NeurIPS 2022): a block
takes 64 queries and goes over the keys in tiles of 32, with the online softmax of M. Milakov and N. Gimelshein
(2018); whenever a row's maximum grows, its sum and its outputs so far are scaled down.

In the report, compare the bytes written to L2 and DRAM by `scores`, and read by `values`, with those of `fused`, and
the registers and shared memory per block that `fused` needs. The arithmetic is that of both products together.

Tolerance: inputs lie in [0, 1), so a score is below 8 and its sum of 64 positive products within 66 * 2**-24 of it,
relative (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1): 528 * 2**-24 absolute,
which `exp` turns into a relative error, in the weight and in the sum that it is divided by. Each exponential is good
to 2**-22, sums over at most 512 keys to 512 * 2**-24 each, and 16 tiles scale down with 9 * 2**-24 at most:
2,300 * 2**-24 together.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ladder, step
from programs.warp import FULL

HEADS = 4
"""Heads from 128 queries on; two for fewer."""
DIM = 64
"""Elements of a query, a key and a value."""
BLOCK = 256
"""Threads per block, in 16 rows of 16."""
TILE = 64
"""Queries of a block."""
KEYS = 32
"""Keys in a tile of `values` and `fused`."""
PITCH = DIM + 1
"""Words from row to row of a tile whose rows lanes read side by side: odd, so they lie in different banks."""
WEIGHTS_PITCH = KEYS + 1
Q_WORDS = TILE * PITCH
KEY_WORDS = KEYS * PITCH
V_WORDS = KEYS * DIM
WEIGHTS = TILE * WEIGHTS_PITCH
SCALE = np.float32(1 / 8)
"""1 / sqrt(DIM)."""
LOWEST = np.float32(-1e30)
RTOL = 2300 * 2.0**-24

# Indices are unsigned, which spares the test for a negative one that Python's indexing would need. Steps are
# written out two at a time: NVVM leaves a `range` loop with so large a body as it is.


@cuda.jit(device=True)
def _fill(tile, pitch, source, head, first, rows, t):
    """Copy `rows` rows of 64 elements of a head to a tile, a warp for half a row."""
    i = t
    while i < np.uint32(rows * DIM):
        row = i >> np.uint32(6)
        tile[row * np.uint32(pitch) + (i & np.uint32(63))] = source[head, first + row, i & np.uint32(63)]
        i += np.uint32(BLOCK)


@cuda.jit(device=True)
def _score_step(q_tile, k_tile, q_at, k_at, total, columns):
    """Add one product to each of four rows' sums for `columns` keys, 16 keys apart."""
    for i in range(4):
        left = q_tile[q_at + np.uint32(i * PITCH)]
        for j in range(columns):
            total[columns * i + j] += left * k_tile[k_at + np.uint32(16 * j * PITCH)]


def scores(q, k, s):
    q_tile = cuda.shared.array(Q_WORDS, np.float32)
    k_tile = cuda.shared.array(Q_WORDS, np.float32)
    total = cuda.local.array(16, np.float32)
    for i in range(16):
        total[i] = np.float32(0)
    t = np.uint32(cuda.threadIdx.x)
    tx = t & np.uint32(15)
    ty = np.uint32(4) * (t >> np.uint32(4))
    head = np.uint32(cuda.blockIdx.z)
    query = np.uint32(cuda.blockIdx.y * TILE)
    key = np.uint32(cuda.blockIdx.x * TILE)
    _fill(q_tile, PITCH, q, head, query, TILE, t)
    _fill(k_tile, PITCH, k, head, key, TILE, t)
    cuda.syncthreads()
    q_at = ty * np.uint32(PITCH)
    k_at = tx * np.uint32(PITCH)
    d = np.uint32(0)
    while d < np.uint32(DIM):
        _score_step(q_tile, k_tile, q_at + d, k_at + d, total, 4)
        _score_step(q_tile, k_tile, q_at + d + np.uint32(1), k_at + d + np.uint32(1), total, 4)
        d += np.uint32(2)
    for i in range(4):
        for j in range(4):
            s[head, query + ty + np.uint32(i), key + tx + np.uint32(16 * j)] = total[4 * i + j] * SCALE


@cuda.jit(device=True)
def _value_step(weights, v_tile, w_at, v_at, total):
    """Add one key's weighted value to four rows of the result, in four columns 16 apart."""
    for i in range(4):
        weight = weights[w_at + np.uint32(i * WEIGHTS_PITCH)]
        for j in range(4):
            total[4 * i + j] += weight * v_tile[v_at + np.uint32(16 * j)]


@cuda.jit(device=True)
def _add_values(weights, v_tile, tx, ty, total):
    key = np.uint32(0)
    w_at = ty * np.uint32(WEIGHTS_PITCH)
    while key < np.uint32(KEYS):
        v_at = key * np.uint32(DIM) + tx
        _value_step(weights, v_tile, w_at + key, v_at, total)
        _value_step(weights, v_tile, w_at + key + np.uint32(1), v_at + np.uint32(DIM), total)
        key += np.uint32(2)


def values(p, v, out):
    weights = cuda.shared.array(WEIGHTS, np.float32)
    v_tile = cuda.shared.array(V_WORDS, np.float32)
    total = cuda.local.array(16, np.float32)
    for i in range(16):
        total[i] = np.float32(0)
    t = np.uint32(cuda.threadIdx.x)
    tx = t & np.uint32(15)
    ty = np.uint32(4) * (t >> np.uint32(4))
    head = np.uint32(cuda.blockIdx.y)
    query = np.uint32(cuda.blockIdx.x * TILE)
    n = np.uint32(v.shape[1])
    key = np.uint32(0)
    while key < n:
        _fill(v_tile, DIM, v, head, key, KEYS, t)
        for i in range(8):
            row = (t >> np.uint32(5)) + np.uint32(8 * i)
            column = t & np.uint32(31)
            weights[row * np.uint32(WEIGHTS_PITCH) + column] = p[head, query + row, key + column]
        cuda.syncthreads()
        _add_values(weights, v_tile, tx, ty, total)
        # The next tile must not overwrite this one while a slower warp still reads it.
        cuda.syncthreads()
        key += np.uint32(KEYS)
    for i in range(4):
        for j in range(4):
            out[head, query + ty + np.uint32(i), tx + np.uint32(16 * j)] = total[4 * i + j]


@cuda.jit(device=True)
def _online_row(weights, at, i, score, greatest, part, total):
    """Turn row i of a tile's scores into weights, and scale down what came before if its maximum grew.

    The 16 lanes of a row each hold two of its 32 scores; the others are in their registers.
    """
    near = score[2 * i] * SCALE
    far = score[2 * i + 1] * SCALE
    top = max(greatest[i], max(near, far))
    for k in (8, 4, 2, 1):
        top = max(top, cuda.shfl_xor_sync(FULL, top, k))
    near = math.exp(near - top)
    far = math.exp(far - top)
    weights[at] = near
    weights[at + np.uint32(16)] = far
    shrink = math.exp(greatest[i] - top)
    # Each lane adds up its own columns; the lanes' sums meet once, at the end.
    part[i] = part[i] * shrink + (near + far)
    greatest[i] = top
    for j in range(4):
        total[4 * i + j] *= shrink


@cuda.jit(device=True)
def _store_row(out, head, row, tx, i, part, total):
    length = part[i]
    for k in (8, 4, 2, 1):
        length += cuda.shfl_xor_sync(FULL, length, k)
    scale = np.float32(1) / length
    for j in range(4):
        out[head, row + np.uint32(i), tx + np.uint32(16 * j)] = total[4 * i + j] * scale


def fused(q, k, v, out):
    q_tile = cuda.shared.array(Q_WORDS, np.float32)
    k_tile = cuda.shared.array(KEY_WORDS, np.float32)
    v_tile = cuda.shared.array(V_WORDS, np.float32)
    weights = cuda.shared.array(WEIGHTS, np.float32)
    score = cuda.local.array(8, np.float32)
    greatest = cuda.local.array(4, np.float32)
    part = cuda.local.array(4, np.float32)
    total = cuda.local.array(16, np.float32)
    for i in range(4):
        greatest[i] = LOWEST
        part[i] = np.float32(0)
    for i in range(16):
        total[i] = np.float32(0)
    t = np.uint32(cuda.threadIdx.x)
    tx = t & np.uint32(15)
    ty = np.uint32(4) * (t >> np.uint32(4))
    head = np.uint32(cuda.blockIdx.y)
    query = np.uint32(cuda.blockIdx.x * TILE)
    n = np.uint32(k.shape[1])
    _fill(q_tile, PITCH, q, head, query, TILE, t)
    q_at = ty * np.uint32(PITCH)
    k_at = tx * np.uint32(PITCH)
    w_at = ty * np.uint32(WEIGHTS_PITCH) + tx
    key = np.uint32(0)
    while key < n:
        _fill(k_tile, PITCH, k, head, key, KEYS, t)
        _fill(v_tile, DIM, v, head, key, KEYS, t)
        cuda.syncthreads()
        for i in range(8):
            score[i] = np.float32(0)
        d = np.uint32(0)
        while d < np.uint32(DIM):
            _score_step(q_tile, k_tile, q_at + d, k_at + d, score, 2)
            _score_step(q_tile, k_tile, q_at + d + np.uint32(1), k_at + d + np.uint32(1), score, 2)
            d += np.uint32(2)
        _online_row(weights, w_at, 0, score, greatest, part, total)
        _online_row(weights, w_at + np.uint32(WEIGHTS_PITCH), 1, score, greatest, part, total)
        _online_row(weights, w_at + np.uint32(2 * WEIGHTS_PITCH), 2, score, greatest, part, total)
        _online_row(weights, w_at + np.uint32(3 * WEIGHTS_PITCH), 3, score, greatest, part, total)
        # A row's weights are written and read by the same half of a warp.
        cuda.syncwarp()
        _add_values(weights, v_tile, tx, ty, total)
        cuda.syncthreads()
        key += np.uint32(KEYS)
    _store_row(out, head, query + ty, tx, 0, part, total)
    _store_row(out, head, query + ty, tx, 1, part, total)
    _store_row(out, head, query + ty, tx, 2, part, total)
    _store_row(out, head, query + ty, tx, 3, part, total)


def _softmax(s: np.ndarray) -> np.ndarray:
    power = np.exp(s - s.max(axis=2, keepdims=True))
    return power / power.sum(axis=2, keepdims=True)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    heads, tiles = min(HEADS, n // 32), n // TILE
    # Queries, keys and values in [0, 1), as far as the kernel takes them.
    args = [rng.random((heads, n, DIM), np.float32) for _ in range({scores: 2, values: 1, fused: 3}[kernel])]
    if kernel is scores:
        return Launch(kernel, (tiles, tiles, heads), BLOCK, (*args, np.full((heads, n, n), np.nan, np.float32)))
    if kernel is values:
        # Weights that add up to about one, in steps that every NumPy draws alike, which exponentials are not.
        apart = np.random.default_rng(rng.bit_generator.seed_seq.entropy + 1)  # type: ignore[attr-defined]
        p = apart.integers(0, 1 << 12, (heads, n, n)) / np.float32(n << 11)
        args.insert(0, p.astype(np.float32))
    return Launch(kernel, (tiles, heads), BLOCK, (*args, np.full_like(args[-1], np.nan)))


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    first, second, *rest = (each.astype(np.float64) for each in launch.args[:-1])
    if launch.kernel is values:
        return ((first @ second).astype(np.float32),)
    s = first @ second.transpose(0, 2, 1) * float(SCALE)
    return ((_softmax(s) @ rest[0] if rest else s).astype(np.float32),)


VARIANTS = ladder(
    Size("n (queries and keys)", (128, 512), default=256, test=TILE, multiple=TILE, maximum=1 << 12),
    step(scores, "Unfused, a kernel stores the score of every query with every key.", outputs=(2,)),
    step(values, "Unfused, another reads the weights back to add up the values.", outputs=(2,)),
    step(fused, "An online softmax keeps scores in registers and shared memory, never in HBM.", outputs=(3,)),
    rtol=RTOL,
)
