"""Thirty-two ordinary kernels, small ones of the kind that people write, to compare counters and results on.

Unlike the bundled programs they teach nothing and have one size; there are many of them, and each is different code.
It has over 500 lines because a kernel a file would say no more. `CASES` holds a launch of each;
`python -m validate generated` replays what an H200 made of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda, float32, float64, int32, uint32

Args = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A kernel and its launch. make: arguments from a random generator. close: the outputs go through functions
    that the hardware approximates (`MUFU`), so they agree only to a relative error of 1e-5."""

    kernel: Any
    grid: Any
    block: Any
    make: Callable[[np.random.Generator], Args]
    shared_bytes: int = 0
    close: bool = False

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str(self.kernel.__name__)

    def arguments(self) -> Args:
        """Fresh arguments, always the same."""
        return self.make(np.random.Generator(np.random.PCG64(20261)))


CASES: list[Case] = []


def case(grid: Any, block: Any, make: Callable[[np.random.Generator], Args], **more: Any) -> Any:
    """Decorator: the kernel with its launch goes into `CASES`."""

    def add(kernel: Any) -> Any:
        CASES.append(Case(kernel, grid, block, make, **more))
        return kernel

    return add


def _f32(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.random(shape, np.float32)


def _i32(random: np.random.Generator, high: int, *shape: int) -> np.ndarray:
    return random.integers(0, high, shape, dtype=np.int32)


def _zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


@case(8, 128, lambda r: (_f32(r, 8, 200), _zeros(8, 200)), close=True)
def softmax(x, out):  # type: ignore[no-untyped-def]
    part = cuda.shared.array(128, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    most = float32(-1e30)
    for c in range(t, x.shape[1], cuda.blockDim.x):
        most = max(most, x[row, c])
    part[t] = most
    cuda.syncthreads()
    s = 64
    while s > 0:
        if t < s:
            part[t] = max(part[t], part[t + s])
        cuda.syncthreads()
        s >>= 1
    most = part[0]
    cuda.syncthreads()
    total = float32(0)
    for c in range(t, x.shape[1], cuda.blockDim.x):
        total += math.exp(x[row, c] - most)
    part[t] = total
    cuda.syncthreads()
    s = 64
    while s > 0:
        if t < s:
            part[t] += part[t + s]
        cuda.syncthreads()
        s >>= 1
    for c in range(t, x.shape[1], cuda.blockDim.x):
        out[row, c] = math.exp(x[row, c] - most) / part[0]


@case(6, 64, lambda r: (_f32(r, 6, 100), _f32(r, 100), _zeros(6, 100)), close=True)
def layer_norm(x, gain, out):  # type: ignore[no-untyped-def]
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    sums = cuda.shared.array((2, 2), float32)
    one = two = float32(0)
    for c in range(t, x.shape[1], 64):
        one += x[row, c]
        two += x[row, c] * x[row, c]
    for step in (16, 8, 4, 2, 1):
        one += cuda.shfl_down_sync(0xFFFFFFFF, one, step)
        two += cuda.shfl_down_sync(0xFFFFFFFF, two, step)
    if t % 32 == 0:
        sums[0, t // 32] = one
        sums[1, t // 32] = two
    cuda.syncthreads()
    mean = (sums[0, 0] + sums[0, 1]) / float32(x.shape[1])
    variance = (sums[1, 0] + sums[1, 1]) / float32(x.shape[1]) - mean * mean
    for c in range(t, x.shape[1], 64):
        out[row, c] = (x[row, c] - mean) / math.sqrt(variance + float32(1e-5)) * gain[c]


@case(4, 256, lambda r: (_i32(r, 100, 1024), _zeros(1024, dtype=np.int32)), shared_bytes=1024)
def scan_steps(values, out):  # type: ignore[no-untyped-def]
    s = cuda.shared.array(0, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    s[t] = values[i]
    step = 1
    while step < cuda.blockDim.x:
        cuda.syncthreads()
        v = s[t - step] if t >= step else 0
        cuda.syncthreads()
        s[t] += v
        step *= 2
    out[i] = s[t]


@case(2, 128, lambda r: (_i32(r, 100, 512), _zeros(512, dtype=np.int32)))
def scan_tree(values, out):  # type: ignore[no-untyped-def]
    s = cuda.shared.array(256, int32)
    t, first = cuda.threadIdx.x, 256 * cuda.blockIdx.x
    s[2 * t] = values[first + 2 * t]
    s[2 * t + 1] = values[first + 2 * t + 1]
    offset, d = 1, 128
    while d > 0:
        cuda.syncthreads()
        if t < d:
            s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1]
        offset *= 2
        d >>= 1
    if t == 0:
        s[255] = 0
    d = 1
    while d < 256:
        offset >>= 1
        cuda.syncthreads()
        if t < d:
            a, b = offset * (2 * t + 1) - 1, offset * (2 * t + 2) - 1
            s[a], s[b] = s[b], s[a] + s[b]
        d *= 2
    cuda.syncthreads()
    out[first + 2 * t] = s[2 * t]
    out[first + 2 * t + 1] = s[2 * t + 1]


def _sparse(r: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    starts = np.concatenate([[0], np.cumsum(r.integers(0, 12, rows))]).astype(np.int32)
    return starts, _i32(r, rows, int(starts[-1])), r.random(int(starts[-1]))


@case(3, 64, lambda r: (*_sparse(r, 170), r.random(170), np.zeros(170)))
def spmv_row(starts, columns, values, x, y):  # type: ignore[no-untyped-def]
    row = cuda.grid(1)
    if row < y.size:
        total = 0.0
        for k in range(starts[row], starts[row + 1]):
            total += values[k] * x[columns[k]]
        y[row] = total


@case(11, 128, lambda r: (*_sparse(r, 43), r.random(43), np.zeros(43)))
def spmv_warp(starts, columns, values, x, y):  # type: ignore[no-untyped-def]
    row, lane = cuda.grid(1) // 32, cuda.threadIdx.x % 32
    if row >= y.size:
        return
    total = 0.0
    for k in range(starts[row] + lane, starts[row + 1], 32):
        total += values[k] * x[columns[k]]
    for step in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
    if lane == 0:
        y[row] = total


@case((3, 5), (16, 8), lambda r: (_f32(r, 37, 45), _zeros(37, 45)))
def stencil5(a, out):  # type: ignore[no-untyped-def]
    x, y = cuda.grid(2)
    if 0 < x < a.shape[1] - 1 and 0 < y < a.shape[0] - 1:
        out[y, x] = float32(0.2) * (a[y, x] + a[y - 1, x] + a[y + 1, x] + a[y, x - 1] + a[y, x + 1])


@case((2, 3, 4), (8, 4, 2), lambda r: (_f32(r, 8, 11, 14), _zeros(8, 11, 14)))
def stencil7(a, out):  # type: ignore[no-untyped-def]
    x, y, z = cuda.grid(3)
    if 0 < x < a.shape[2] - 1 and 0 < y < a.shape[1] - 1 and 0 < z < a.shape[0] - 1:
        around = (
            a[z - 1, y, x]
            + a[z + 1, y, x]
            + a[z, y - 1, x]
            + a[z, y + 1, x]
            + a[z, y, x - 1]
            + a[z, y, x + 1]
        )
        out[z, y, x] = a[z, y, x] - around / float32(6)


@case((2, 2), (16, 16), lambda r: (_f32(r, 32, 32), _f32(r, 5, 5), _zeros(32, 32)))
def convolution(a, weights, out):  # type: ignore[no-untyped-def]
    tile = cuda.shared.array((20, 20), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x0, y0 = 16 * cuda.blockIdx.x - 2, 16 * cuda.blockIdx.y - 2
    for j in range(ty, 20, 16):
        for i in range(tx, 20, 16):
            x, y = x0 + i, y0 + j
            tile[j, i] = a[y, x] if 0 <= x < a.shape[1] and 0 <= y < a.shape[0] else float32(0)
    cuda.syncthreads()
    total = float32(0)
    for j in range(5):
        for i in range(5):
            total += weights[j, i] * tile[ty + j, tx + i]
    out[y0 + 2 + ty, x0 + 2 + tx] = total


@case(2, 128, lambda r: (_i32(r, 1000, 512),))
def bitonic_sort(values):  # type: ignore[no-untyped-def]
    s = cuda.shared.array(256, int32)
    t, first = cuda.threadIdx.x, 256 * cuda.blockIdx.x
    s[t], s[t + 128] = values[first + t], values[first + t + 128]
    k = 2
    while k <= 256:
        j = k >> 1
        while j > 0:
            cuda.syncthreads()
            low = 2 * t - (t & (j - 1))
            if (s[low] > s[low + j]) == ((low & k) == 0):
                s[low], s[low + j] = s[low + j], s[low]
            j >>= 1
        k <<= 1
    cuda.syncthreads()
    values[first + t], values[first + t + 128] = s[t], s[t + 128]


@case(4, 128, lambda r: (r.integers(0, 1 << 32, 2000, dtype=np.uint32), np.zeros(16, np.int32), np.uint32(8)))
def radix_histogram(keys, counts, shift):  # type: ignore[no-untyped-def]
    own = cuda.shared.array(16, int32)
    if cuda.threadIdx.x < 16:
        own[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), keys.size, cuda.gridsize(1)):
        cuda.atomic.add(own, (keys[i] >> shift) & uint32(15), 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < 16:
        cuda.atomic.add(counts, cuda.threadIdx.x, own[cuda.threadIdx.x])


@case(2, 64, lambda r: (_f32(r, 100), _f32(r, 100), _zeros(100), np.float32(0.01)), close=True)
def n_body(x, y, force, soft):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i >= x.size:
        return
    total = float32(0)
    for j in range(x.size):
        dx, dy = x[j] - x[i], y[j] - y[i]
        r = dx * dx + dy * dy + soft
        total += dx / (math.sqrt(r) * r)
    force[i] = total


@case((2, 3), (32, 4), lambda r: (_zeros(12, 50, dtype=np.int32), np.float64(0.05), np.int32(60)))
def julia(out, step, limit):  # type: ignore[no-untyped-def]
    x, y = cuda.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        re, im, n = x * step - 1.25, y * step * 4 - 1.2, 0
        while n < limit and re * re + im * im < 4.0:
            re, im = re * re - im * im - 0.4, 2 * re * im + 0.6
            n += 1
        out[y, x] = n


@case(
    5,
    96,
    lambda r: (
        r.integers(97, 101, 450, dtype=np.uint8),
        np.frombuffer(b"abca", np.uint8),
        np.zeros(450, np.int32),
    ),
)
def string_search(text, pattern, found):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i > text.size - pattern.size:
        return
    for k in range(pattern.size):
        if text[i + k] != pattern[k]:
            return
    found[i] = 1


@case(3, 64, lambda r: (_f32(r, 150, 40), _f32(r, 40), _zeros(150)))
def matrix_vector(a, x, y):  # type: ignore[no-untyped-def]
    row = cuda.grid(1)
    if row < a.shape[0]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * x[k]
        y[row] = total


@case(40, 32, lambda r: (_f32(r, 40, 150), _f32(r, 150), _zeros(40)))
def matrix_vector_warp(a, x, y):  # type: ignore[no-untyped-def]
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x
    total = float32(0)
    for k in range(lane, a.shape[1], 32):
        total += a[row, k] * x[k]
    for step in (16, 8, 4, 2, 1):
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, step)
    if lane == 0:
        y[row] = total


@case((2, 2), (32, 8), lambda r: (r.random((50, 60)), np.zeros((60, 50))))
def transpose_double(a, out):  # type: ignore[no-untyped-def]
    tile = cuda.shared.array((32, 33), float64)
    x, y = 32 * cuda.blockIdx.x + cuda.threadIdx.x, 32 * cuda.blockIdx.y + cuda.threadIdx.y
    for j in range(0, 32, 8):
        if x < a.shape[1] and y + j < a.shape[0]:
            tile[cuda.threadIdx.y + j, cuda.threadIdx.x] = a[y + j, x]
    cuda.syncthreads()
    x, y = 32 * cuda.blockIdx.y + cuda.threadIdx.x, 32 * cuda.blockIdx.x + cuda.threadIdx.y
    for j in range(0, 32, 8):
        if x < a.shape[0] and y + j < a.shape[1]:
            out[y + j, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y + j]


@case(4, 128, lambda r: (_f32(r, 500, 4), _zeros(500)))
def array_of_structs(points, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < out.size:
        out[i] = points[i, 0] * points[i, 1] + points[i, 2] - points[i, 3]


@case(4, 128, lambda r: (_f32(r, 4, 500), _zeros(500)))
def struct_of_arrays(points, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < out.size:
        out[i] = points[0, i] * points[1, i] + points[2, i] - points[3, i]


@case(3, 100, lambda r: (r.random(300), r.permutation(300).astype(np.int64), np.zeros(300)))
def gather_scatter(values, order, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    out[order[i]] = values[order[(i * 7) % order.size]]


@case((3, 3), (16, 16), lambda r: (r.integers(0, 2, (40, 40), dtype=np.uint8), np.zeros((40, 40), np.uint8)))
def game_of_life(cells, out):  # type: ignore[no-untyped-def]
    x, y = cuda.grid(2)
    height, width = cells.shape
    if x >= width or y >= height:
        return
    count = 0
    for dy in range(-1, 2):
        for dx in range(-1, 2):
            if dx != 0 or dy != 0:
                count += cells[(y + dy + height) % height, (x + dx + width) % width]
    out[y, x] = 1 if count == 3 or (count == 2 and cells[y, x] == 1) else 0


@case(3, 128, lambda r: (_f32(r, 300) + 1, _f32(r, 300) + 1, _zeros(300), np.float32(0.03)), close=True)
def black_scholes(spot, strike, price, rate):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < spot.size:
        sigma = float32(0.2)
        d1 = (math.log(spot[i] / strike[i]) + (rate + sigma * sigma * float32(0.5))) / sigma
        d2 = d1 - sigma
        half, root = float32(0.5), float32(0.70710678)
        first = half * (float32(1) + math.erf(d1 * root))
        second = half * (float32(1) + math.erf(d2 * root))
        price[i] = spot[i] * first - strike[i] * math.exp(-rate) * second


@case(4, 64, lambda r: (np.zeros(1, np.int32), np.uint32(12345), np.int32(20)))
def monte_carlo_pi(hits, seed, tries):  # type: ignore[no-untyped-def]
    state = uint32(seed + cuda.grid(1) * uint32(747796405))
    inside = 0
    for _ in range(tries):
        state = uint32(state * uint32(1664525) + uint32(1013904223))
        x = float32(state >> uint32(8)) * float32(5.9604645e-08)
        state = uint32(state * uint32(1664525) + uint32(1013904223))
        y = float32(state >> uint32(8)) * float32(5.9604645e-08)
        if x * x + y * y < float32(1):
            inside += 1
    cuda.atomic.add(hits, 0, inside)


def _graph(r: np.random.Generator, nodes: int) -> Args:
    starts = np.concatenate([[0], np.cumsum(r.integers(0, 6, nodes))]).astype(np.int32)
    level = np.where(r.random(nodes) < 0.2, 3, -1).astype(np.int32)
    return starts, _i32(r, nodes, int(starts[-1])), level, np.zeros(nodes, np.int32), np.int32(3)


@case(3, 128, lambda r: _graph(r, 350))
def bfs_step(starts, edges, level, reached, now):  # type: ignore[no-untyped-def]
    node = cuda.grid(1)
    if node < level.size and level[node] == now:
        for k in range(starts[node], starts[node + 1]):
            if level[edges[k]] < 0:
                reached[edges[k]] = 1


@case(3, 96, lambda r: (_f32(r, 250, 2), _f32(r, 7, 2), np.zeros(250, np.int32), np.zeros(7, np.int32)))
def kmeans_assign(points, centres, nearest, sizes):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i >= points.shape[0]:
        return
    best, least = 0, float32(1e30)
    for c in range(centres.shape[0]):
        dx, dy = points[i, 0] - centres[c, 0], points[i, 1] - centres[c, 1]
        distance = dx * dx + dy * dy
        if distance < least:
            best, least = c, distance
    nearest[i] = best
    cuda.atomic.add(sizes, best, 1)


@case(3, 128, lambda r: (_f32(r, 400), _f32(r, 16), _zeros(384)))
def fir_filter(signal, taps, out):  # type: ignore[no-untyped-def]
    window = cuda.shared.array(144, float32)
    t, first = cuda.threadIdx.x, cuda.blockIdx.x * 128
    window[t] = signal[first + t]
    if t < 16:
        window[t + 128] = signal[first + t + 128]
    cuda.syncthreads()
    total = float32(0)
    for k in range(16):
        total += taps[k] * window[t + k]
    out[first + t] = total


@case(2, 100, lambda r: (_i32(r, 50, 200), np.zeros(200, np.int32), np.zeros(1, np.int32)))
def compact(values, out, count):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    keep = values[i] % 3 == 0
    lane = cuda.threadIdx.x & 31
    votes = cuda.ballot_sync(cuda.activemask(), keep)
    if lane == 0:
        cuda.atomic.add(count, 0, cuda.popc(votes))
    if keep:
        out[i] = cuda.popc(uint32(votes) & uint32((1 << lane) - 1)) + 1


@case((2, 2), (16, 16), lambda r: (_f32(r, 32, 48), _f32(r, 48, 32), _zeros(32, 32)))
def matmul_tile(a, b, c):  # type: ignore[no-untyped-def]
    sa, sb = cuda.shared.array((16, 16), float32), cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for tile in range(a.shape[1] // 16):
        sa[ty, tx] = a[y, tile * 16 + tx]
        sb[ty, tx] = b[tile * 16 + ty, x]
        cuda.syncthreads()
        for k in range(16):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    c[y, x] = total


@case(3, 64, lambda r: (_i32(r, 10000, 180), np.zeros(180, np.int32)))
def collatz(start, steps):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < start.size:
        n, count = start[i] + 1, 0
        while n != 1 and count < 200:
            n = 3 * n + 1 if n & 1 else n >> 1
            count += 1
        steps[i] = count


@case(2, 128, lambda r: (_i32(r, 5000, 250), np.zeros(250, np.int32)))
def greatest_divisor(values, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < values.size:
        a, b = values[i] + 1, 360
        while b != 0:
            a, b = b, a % b
        out[i] = a


@case(2, 96, lambda r: (np.sort(_i32(r, 1000, 300)), _i32(r, 1000, 190), np.zeros(190, np.int32)))
def binary_search(table, wanted, places):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < wanted.size:
        low, high = 0, table.size
        while low < high:
            middle = (low + high) // 2
            if table[middle] < wanted[i]:
                low = middle + 1
            else:
                high = middle
        places[i] = low


@case(3, 64, lambda r: (r.integers(0, 256, 1500, dtype=np.uint8), np.zeros(150, np.uint32)))
def checksum(data, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < out.size:
        crc = uint32(0xFFFFFFFF)
        for k in range(10):
            crc ^= uint32(data[10 * i + k])
            for _ in range(8):
                crc = (crc >> uint32(1)) ^ (uint32(0xEDB88320) if crc & uint32(1) else uint32(0))
        out[i] = ~crc
