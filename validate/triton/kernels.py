"""Kernels in Triton, written for the comparison: what people write in it, from a vector sum to attention.

Only `command.build` imports this module, since it needs the Triton wheel. Names in capitals are constants of the
compilation.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, inside) / (1 - p), 0.0), inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row + at, at < columns, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(out + row + at, value / tl.sum(value, 0), at < columns)


@triton.jit
def layer_norm(x, weight, bias, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    total = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + at, at < columns, other=0.0).to(tl.float32)
        total += value
        squares += value * value
    mean = tl.sum(total, 0) / columns
    scale = tl.rsqrt(tl.sum(squares, 0) / columns - mean * mean + 1e-5)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        value = (tl.load(x + row + at, inside).to(tl.float32) - mean) * scale
        tl.store(out + row + at, value * tl.load(weight + at, inside) + tl.load(bias + at, inside), inside)


@triton.jit
def rms_norm(x, weight, out, columns, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, BLOCK)
    where = rows[:, None] * columns + at[None, :]
    inside = (at < columns)[None, :]
    value = tl.load(x + where, inside, other=0.0).to(tl.float32)
    value *= tl.rsqrt(tl.sum(value * value, 1) / columns + 1e-6)[:, None]
    tl.store(out + where, value * tl.load(weight + at, at < columns)[None, :], inside)


@triton.jit
def cross_entropy(logits, labels, loss, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(logits + row * columns + at, at < columns, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(value, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(value - higher), 0)
        top = higher
    chosen = tl.load(logits + row * columns + tl.load(labels + row)).to(tl.float32)
    tl.store(loss + row, top + tl.log(total) - chosen)


@triton.jit
def cumulative_sum(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    carry = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + at, at < columns, other=0.0)
        tl.store(out + row + at, tl.cumsum(value, 0) + carry, at < columns)
        carry += tl.sum(value, 0)


@triton.jit
def sort_rows(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    found = tl.zeros([BINS], tl.int32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        found += tl.histogram(tl.load(x + start + tl.arange(0, BLOCK)), BINS)
    tl.atomic_add(bins + tl.arange(0, BINS), found)


@triton.jit
def embedding(table, index, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    source = tl.load(index + row)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + row * width + at, tl.load(table + source * width + at, at < width), at < width)


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TURNED: tl.constexpr):
    """TURNED: b is stored by columns, as eight-bit products need it."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    at_a = a + rows[:, None] * k + inner[None, :]
    at_b = b + (columns[None, :] * k + inner[:, None] if TURNED else inner[:, None] * n + columns[None, :])
    total = tl.zeros([BM, BN], tl.float32)
    for _ in range(0, k, BK):
        total = tl.dot(tl.load(at_a), tl.load(at_b), total)
        at_a += BK
        at_b += BK if TURNED else BK * n
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))


@triton.jit
def matmul_split(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    """Parts of the inner dimension by different blocks, which add their sums with atomics."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(tl.program_id(2) * BK, k, BK * SPLIT):
        inner = start + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * k + inner[None, :])
        total = tl.dot(left, tl.load(b + inner[:, None] * n + columns[None, :]), total)
    tl.atomic_add(c + rows[:, None] * n + columns[None, :], total)


@triton.jit
def matmul_host_map(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tensor maps made by the host."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, k, BK):
        total = tl.dot(a.load([row, start]), b.load([start, column]), total)
    c.store([row, column], total.to(c.dtype))


@triton.jit
def matmul_device_map(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tensor maps made by the kernel."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [k, n], [n, 1], [BK, BN])
    out = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BM, BN])
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, k, BK):
        total = tl.dot(left.load([row, start]), right.load([start, column]), total)
    out.store([row, column], total.to(c.dtype.element_ty))


@triton.jit
def matmul_persistent(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One block per SM takes tile after tile; the host's tensor maps."""
    across = tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(m, BM) * across, tl.num_programs(0), flatten=True):
        row, column = tile // across * BM, tile % across * BN
        total = tl.zeros([BM, BN], tl.float32)
        for start in range(0, k, BK):
            total = tl.dot(a.load([row, start]), b.load([start, column]), total)
        c.store([row, column], total.to(c.dtype))


@triton.jit
def gelu_product(x, w, bias, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A layer of a perceptron: product, bias and GELU (by tanh) in one kernel."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, k, BK):
        inner = start + tl.arange(0, BK)
        left = tl.load(x + rows[:, None] * k + inner[None, :])
        total = tl.dot(left, tl.load(w + inner[:, None] * n + columns[None, :]), total)
    total += tl.load(bias + columns)[None, :]
    # tanh(z) = 1 - 2 / (exp(2 z) + 1)
    tanh = 1 - 2 / (tl.exp(1.5957691216 * (total + 0.044715 * total * total * total)) + 1)
    tl.store(out + rows[:, None] * n + columns[None, :], (0.5 * total * (1 + tanh)).to(out.dtype.element_ty))


@triton.jit
def attention(q, k, v, out, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Forward pass with running maximum and sum; a head per program_id(1)."""
    first = tl.program_id(0) * BM
    head = tl.program_id(1) * length * D
    rows, inner, columns = first + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    query = tl.load(q + head + rows[:, None] * D + inner[None, :])
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    result = tl.zeros([BM, D], tl.float32)
    for start in range(0, first + BM if CAUSAL else length, BN):
        at = head + (start + columns)[:, None] * D + inner[None, :]
        score = tl.dot(query, tl.trans(tl.load(k + at))) * (scale * 1.44269504)
        if CAUSAL:
            score = tl.where(rows[:, None] >= (start + columns)[None, :], score, -float("inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp2(score - higher[:, None])
        old = tl.exp2(top - higher)
        total = total * old + tl.sum(weight, 1)
        result = tl.dot(weight.to(tl.float16), tl.load(v + at), result * old[:, None])
        top = higher
    tl.store(out + head + rows[:, None] * D + inner[None, :], (result / total[:, None]).to(tl.float16))
