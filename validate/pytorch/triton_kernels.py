"""`@triton.jit` kernels on PyTorch's tensors: element types, products on tensor cores, autotune, descriptors, print."""

import torch
import triton
import triton.language as tl
from compared import agree, finish, random
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


def added(device, dtype):
    x, y = ((random(device, 1000, seed=each) * 9).to(dtype) for each in (0, 1))
    if device == "cpu":
        return x + y
    out = torch.empty_like(x)
    add[(4,)](x, y, out, 1000, BLOCK=256)
    return out


@triton.jit
def product(a, b, c, N, K, M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    total = tl.zeros((M, BLOCK_N), tl.float32)
    for first in range(0, K, BLOCK_K):
        left = tl.load(a + i[:, None] * K + (first + k)[None, :])
        total = tl.dot(left, tl.load(b + (first + k)[:, None] * N + j[None, :]), total)
    tl.store(c + i[:, None] * N + j[None, :], total)


def multiplied(device, dtype, **options):
    a, b = random(device, 64, 64, dtype=dtype), random(device, 64, 128, dtype=dtype)
    if device == "cpu":
        return a.float() @ b.float()
    c = torch.empty(64, 128, device=device)
    product[(2,)](a, b, c, 128, 64, M=64, BLOCK_N=64, BLOCK_K=32, **options)
    return c


tuned = triton.autotune([triton.Config({"BLOCK": block}, num_warps=4) for block in (128, 512)], key=["n"])(add)


def autotuned(device):
    x, out = random(device, 2000), torch.empty(2000, device=device)
    if device == "cpu":
        return 2 * x
    tuned[lambda meta: (triton.cdiv(2000, meta["BLOCK"]),)](x, x, out, 2000)
    return out


@triton.jit
def transpose(source, target, BLOCK: tl.constexpr):
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    target.store([column, row], source.load([row, column]).T)


def transposed(device):
    x, out = random(device, 64, 32), torch.empty(32, 64, device=device)
    if device == "cpu":
        return x.T
    blocks = [TensorDescriptor.from_tensor(each, [32, 32]) for each in (x, out)]
    transpose[(2, 1)](*blocks, BLOCK=32)
    return out


@triton.jit
def doubled_rows(x, out, rows, columns: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [16, columns])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [16, columns])
    first = tl.program_id(0) * 16
    target.store([first, 0], source.load([first, 0]) * 2)


def doubled(device):
    x, out = random(device, 40, 32), torch.empty(40, 32, device=device)
    if device == "cpu":
        return 2 * x
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device=device, dtype=torch.int8))
    doubled_rows[(3,)](x, out, 40, columns=32)
    return out


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + i, mask=i < columns, other=-float("inf"))
    if tl.program_id(0) == 0:
        tl.device_print("columns", columns)
    powers = tl.exp(row - tl.max(row))
    tl.store(out + tl.program_id(0) * columns + i, powers / tl.sum(powers), mask=i < columns)


def normalized(device):
    x, out = random(device, 5, 100), torch.empty(5, 100, device=device)
    if device == "cpu":
        return x.softmax(1)
    softmax[(5,)](x, out, 100, BLOCK=128)
    torch.cuda.synchronize()
    return out


for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int64):
    agree(f"add, {dtype}", lambda d, dtype=dtype: added(d, dtype), 2e-2)
for dtype in (torch.float16, torch.bfloat16, torch.float32):
    agree(f"product, {dtype}", lambda d, dtype=dtype: multiplied(d, dtype), 1e-1)
agree(
    "product, clusters of 2", lambda d: multiplied(d, torch.float16, **({"num_ctas": 2} if d == "cuda" else {})), 1e-2
)
agree("autotune", autotuned)
agree("softmax, device_print", normalized)
agree("descriptors of the host", transposed)
agree("descriptors of the device", doubled)
finish()
