"""Triton kernels, and what makes `data/triton.zip` of them: `python tests/gpusim/triton_kernels.py`.

The archive has a cubin for each of `KERNELS` and architecture, and `index.json`, which says what they were compiled
with and how they are launched. The tests read it, since Triton is no dependency of theirs; nothing else is in it but
what this file compiles to.
"""

import inspect
import json
import os
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

try:
    import triton
    import triton.language as tl
except ImportError:  # the tests need the sources alone
    triton, tl = None, SimpleNamespace(constexpr=None)

ARCHIVE = Path(__file__).parent / "data/triton.zip"
TARGETS = (100, 120)
TYPES = {"h": "*fp16", "b": "*bf16", "f": "*fp32", "e4": "*fp8e4nv", "e5": "*fp8e5", "u": "*u8", "i*": "*i32"}
TYPES |= {"i": "i32", "x": "fp32"}


def kernel(function):
    return triton.jit(function) if triton else function


@kernel
def softmax(out, x, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    there = offsets < n
    values = tl.load(x + row * stride + offsets, mask=there, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * stride + offsets, weights / tl.sum(weights, 0), mask=there)


@kernel
def layernorm(out, x, weight, bias, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    there = offsets < n
    values = tl.load(x + row * stride + offsets, mask=there, other=0.0).to(tl.float32)
    apart = tl.where(there, values - tl.sum(values, 0) / n, 0.0)
    scaled = apart / tl.sqrt(tl.sum(apart * apart, 0) / n + eps)
    scaled = scaled * tl.load(weight + offsets, mask=there) + tl.load(bias + offsets, mask=there)
    tl.store(out + row * stride + offsets, scaled, mask=there)


@kernel
def reduction(out, x, n, BLOCK: tl.constexpr):
    """Sum, maximum, and where each block's largest is."""
    block = tl.program_id(0)
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets, mask=offsets < n, other=0.0)
    tl.atomic_add(out, tl.sum(values, 0))
    tl.atomic_max(out + 1, tl.max(values, 0))
    tl.store(out + 2 + block, tl.argmax(values, 0))


@kernel
def running_sum(out, x, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * n + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.cumsum(tl.load(x + offsets), 0))


@kernel
def product(c, a, b, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    from_a = a + rows[:, None] * k + inner[None, :]
    from_b = b + inner[:, None] * n + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, tl.cdiv(k, BK)):
        total = tl.dot(tl.load(from_a), tl.load(from_b), total)
        from_a += BK
        from_b += BK * n
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))


@kernel
def layer(c, a, b, bias, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A product whose sums get a bias and lose what is negative."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, k, BK):
        left = tl.load(a + rows[:, None] * k + first + inner[None, :])
        right = tl.load(b + (first + inner[:, None]) * n + columns[None, :])
        total = tl.dot(left, right, total)
    total = tl.maximum(total + tl.load(bias + columns)[None, :], 0.0)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))


@kernel
def scaled_product(
    c, a, b, scales_a, scales_b, m, n, k,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    FORM: tl.constexpr, IN_BYTE: tl.constexpr, SHARE: tl.constexpr,
):  # fmt: skip
    """IN_BYTE: numbers in a byte. SHARE: numbers along K that have a scale together."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK // IN_BYTE)
    groups = tl.arange(0, BK // SHARE)
    from_a = a + rows[:, None] * (k // IN_BYTE) + inner[None, :]
    from_b = b + inner[:, None] * n + columns[None, :]
    of_a = scales_a + rows[:, None] * (k // SHARE) + groups[None, :]
    of_b = scales_b + columns[:, None] * (k // SHARE) + groups[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, tl.cdiv(k, BK)):
        total = tl.dot_scaled(tl.load(from_a), tl.load(of_a), FORM, tl.load(from_b), tl.load(of_b), FORM, total)
        from_a += BK // IN_BYTE
        from_b += BK // IN_BYTE * n
        of_a += BK // SHARE
        of_b += BK // SHARE
    tl.store(c + rows[:, None] * n + columns[None, :], total)


@kernel
def attention(out, q, k, v, scale, n, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inner = tl.arange(0, D)
    columns = tl.arange(0, BN)
    queries = tl.load(q + rows[:, None] * D + inner[None, :])
    largest = tl.zeros((BM,), tl.float32) - float("inf")
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for first in range(0, n, BN):
        keys = tl.load(k + (first + columns)[:, None] * D + inner[None, :])
        scores = tl.dot(queries, keys.T) * scale
        larger = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - larger[:, None])
        less = tl.exp2(largest - larger)
        weight = weight * less + tl.sum(weights, 1)
        values = tl.load(v + (first + columns)[:, None] * D + inner[None, :])
        total = tl.dot(weights.to(tl.float16), values, total * less[:, None])
        largest = larger
    tl.store(out + rows[:, None] * D + inner[None, :], (total / weight[:, None]).to(tl.float16))


@kernel
def persistent(c, a, b, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BLOCKS: tl.constexpr):
    """By TMA, with descriptors that the kernel makes; b by columns."""
    of_a = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    of_b = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[BN, BK])
    of_c = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    down = tl.cdiv(m, BM)
    for tile in tl.range(tl.program_id(0), down * tl.cdiv(n, BN), BLOCKS, flatten=True):
        row = tile % down * BM
        column = tile // down * BN
        total = tl.zeros((BM, BN), tl.float32)
        for first in range(0, k, BK):
            total = tl.dot(of_a.load([row, first]), of_b.load([column, first]).T, total)
        of_c.store([row, column], total.to(tl.float16))


_WHOLE = {"BM": 128, "BN": 128, "BK": 64}
_DEEP = _WHOLE | {"BK": 128}
KERNELS = {
    "softmax": (softmax, "f f i i", {"BLOCK": 1024}, 4),
    "layernorm": (layernorm, "h h h h i i x", {"BLOCK": 1024}, 4),
    "reduction": (reduction, "f f i", {"BLOCK": 1024}, 4),
    "running_sum": (running_sum, "f f i", {"BLOCK": 1024}, 4),
    "product_f16": (product, "h h h i i i", _WHOLE, 4),
    "product_f16_wide": (product, "h h h i i i", _WHOLE | {"BN": 256}, 8),
    "product_bf16": (product, "f b b i i i", {"BM": 64, "BN": 64, "BK": 64}, 4),
    "product_tf32": (product, "f f f i i i", {"BM": 128, "BN": 64, "BK": 32}, 4),
    "product_e4m3": (product, "f e4 e4 i i i", _DEEP, 4),
    "product_e5m2": (product, "f e5 e5 i i i", _DEEP, 4),
    "layer": (layer, "h h h f i i i", _WHOLE | {"BN": 64}, 4),
    "mxfp8": (scaled_product, "f e4 e4 u u i i i", _DEEP | {"FORM": "e4m3", "IN_BYTE": 1, "SHARE": 32}, 4),
    "mxfp4": (scaled_product, "f u u u u i i i", _DEEP | {"FORM": "e2m1", "IN_BYTE": 2, "SHARE": 32}, 4),
    "nvfp4": (scaled_product, "f u u e4 e4 i i i", _DEEP | {"FORM": "e2m1", "IN_BYTE": 2, "SHARE": 16}, 4),
    "attention": (attention, "h h h h x i", {"D": 64, "BM": 128, "BN": 64}, 4),
    "persistent": (persistent, "h h h i i i", _WHOLE | {"BLOCKS": 2}, 4),
}
"""By name: the function, its arguments by the keys of `TYPES`, its constants, and the warps of a block."""


def compiled(row, capability):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    function, types, constants, warps, *blocks = row
    given = [each for each in function.arg_names if each not in constants]
    types = dict(zip(given, (TYPES[each] for each in types.split()), strict=True))
    attributes = {(at,): [["tt.divisibility", 16]] for at, each in enumerate(given) if types[each] != "fp32"}
    places = {(function.arg_names.index(each),): value for each, value in constants.items()}
    signature = {each: types.get(each, "constexpr") for each in function.arg_names}
    kind = GluonASTSource if function.is_gluon() else ASTSource
    source = kind(fn=function, signature=signature, constexprs=places, attrs=attributes)
    options = {"num_warps": warps, "num_stages": 3, "num_ctas": sum(blocks) or 1}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def write(path, rows, about_sources):
    """rows: by name, what to compile and the compute capability. about_sources: the text of a kernel, by its row."""
    from triton.backends.nvidia.compiler import get_ptxas

    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # no path of the machine that compiles them
    tools = {"triton": triton.__version__, "ptxas": get_ptxas(100).version}
    index = {"made by": Path(sys.argv[0]).name, "tools": tools, "kernels": {}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, (row, capability) in rows.items():
            done = compiled(row, capability)
            about = done.metadata
            index["kernels"][name] = {
                "shared_bytes": about.shared,
                "threads": 32 * about.num_warps,
                "blocks_of_cluster": about.num_ctas,
                "scratch_bytes": about.global_scratch_size,
                "source": about_sources(row),
            }
            archive.writestr(f"{name}.cubin", done.asm["cubin"])
            print(name, len(done.asm["cubin"]), about.shared, about.global_scratch_size, flush=True)
        archive.writestr("index.json", json.dumps(index, indent=1))
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    chosen = sys.argv[1:] or KERNELS
    write(
        ARCHIVE,
        {f"{name}_{target}": (KERNELS[name], target) for name in chosen for target in TARGETS},
        lambda row: inspect.getsource(row[0].fn),
    )
