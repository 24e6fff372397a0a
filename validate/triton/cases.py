"""The list of Triton launches: kernel, constants, options of the compiler, inputs from a seed, and NumPy's result.

Needs NumPy alone. A case is a kernel at one size; families, the part of a name before the first '/' or '@', are train
or judge as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from validate.triton.work import SEED, Work, bfloat16, decoded

JUDGE = frozenset(
    (
        *("attention", "cluster", "cross_entropy", "embedding", "gelu", "layer_norm", "low_precision"),
        *("persistent", "rms_norm", "sort", "split_k"),
    )
)
"""Families whose measurements are looked at for the score alone; frozen before any of them had run on the hardware."""


@dataclass(frozen=True)
class TritonCase:
    """kernel: function of `kernels`. arguments: names of `work`'s arrays, and scalars, in the kernel's order.
    boxes: of the arrays that are passed as tensor maps."""

    kernel: str
    grid: tuple[int, ...]
    work: Work
    arguments: dict[str, Any]
    constants: dict[str, int]
    boxes: dict[str, tuple[int, int]] = field(default_factory=dict)
    options: dict[str, int] = field(default_factory=dict)


Maker = Callable[..., TritonCase]
CASES: dict[str, tuple[Maker, tuple[Any, ...]]] = {}
"""By name: who makes it, from what."""


def family(name: str) -> str:
    """The part of a name that is train or judge as a whole."""
    return name.split("@")[0].split("/")[0]


def split(name: str) -> str:
    """'train' or 'judge'."""
    return "judge" if family(name) in JUDGE else "train"


def make(name: str) -> TritonCase:
    """A case with fresh inputs."""
    maker, sizes = CASES[name]
    return maker(np.random.default_rng(SEED), *sizes)


def work_of(name: str) -> Work:
    """Inputs and result of a case."""
    return make(name).work


def _add(family: str, maker: Maker, *sizes: tuple[Any, ...]) -> None:
    CASES.update({f"{family}@{size[0]}": (maker, size) for size in sizes})


def _case(
    kernel: str, grid: tuple[int, ...], work: Work, scalars: dict[str, Any], constants: dict[str, int], **options: int
) -> TritonCase:
    return TritonCase(kernel, grid, work, {**dict.fromkeys(work.arrays), **scalars}, constants, options=options)


def _normal(rng: np.random.Generator, *shape: int, kind: Any = np.float32) -> np.ndarray:
    return rng.standard_normal(shape, np.float32).astype(kind)


def _vector_add(rng: np.random.Generator, n: int) -> TritonCase:
    x, y = _normal(rng, n), _normal(rng, n)
    work = Work({"x": x, "y": y, "out": np.zeros_like(x)}, {"out": x + y})
    return _case("vector_add", (-(-n // 1024),), work, {"n": n}, {"BLOCK": 1024})


def _dropout(rng: np.random.Generator, n: int) -> TritonCase:
    x, seed, p = _normal(rng, n), 1234, np.float32(0.3)
    kept = np.where(_philox(np.arange(n, dtype=np.uint64), seed) > p, x / (1 - p), 0)
    work = Work({"x": x, "out": np.zeros_like(x)}, {"out": kept}, 1e-6)
    return _case("dropout", (-(-n // 1024),), work, {"n": n, "p": p, "seed": seed}, {"BLOCK": 1024})


def _philox(counter: np.ndarray, seed: int) -> np.ndarray:
    """Uniform numbers as Triton's `rand` has them: the first word of Philox 4x32-10."""
    low = np.uint64(0xFFFFFFFF)
    c = [counter, *(np.zeros_like(counter) for _ in range(3))]
    for turn in range(10):
        keys = [np.uint64((key + turn * step) & 0xFFFFFFFF) for key, step in ((seed, 0x9E3779B9), (0, 0xBB67AE85))]
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [b >> np.uint64(32) ^ c[1] ^ keys[0], b & low, a >> np.uint64(32) ^ c[3] ^ keys[1], a & low]
    signed = c[0].astype(np.uint32).view(np.int32)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)


def _softmax(rng: np.random.Generator, rows: int, columns: int, warps: int) -> TritonCase:
    x = _normal(rng, rows, columns)
    power = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    work = Work({"x": x, "out": np.zeros_like(x)}, {"out": power / power.sum(1, keepdims=True)})
    block = 1 << (columns - 1).bit_length()
    return _case("softmax", (rows,), work, {"columns": columns}, {"BLOCK": block}, num_warps=warps)


def _layer_norm(rng: np.random.Generator, rows: int, columns: int, warps: int) -> TritonCase:
    x, weight, bias = _normal(rng, rows, columns, kind=np.float16), _normal(rng, columns), _normal(rng, columns)
    wide = x.astype(np.float64)
    result = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * weight + bias
    work = Work({"x": x, "weight": weight, "bias": bias, "out": np.zeros_like(x)}, {"out": result}, 1e-3)
    return _case("layer_norm", (rows,), work, {"columns": columns}, {"BLOCK": 1024}, num_warps=warps)


def _rms_norm(rng: np.random.Generator, rows: int, columns: int) -> TritonCase:
    x, weight = bfloat16(_normal(rng, rows, columns)), _normal(rng, columns)
    wide = decoded(x, "bf16").astype(np.float64)
    result = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + 1e-6) * weight
    arrays = {"x": x, "weight": weight, "out": np.zeros_like(x)}
    work = Work(arrays, {"out": result}, 5e-3, {"x": "bf16", "out": "bf16"})
    return _case("rms_norm", (rows // 4,), work, {"columns": columns}, {"BLOCK": 512, "ROWS": 4})


def _cross_entropy(rng: np.random.Generator, rows: int, columns: int) -> TritonCase:
    x, labels = _normal(rng, rows, columns, kind=np.float16), rng.integers(0, columns, rows, np.int32)
    wide = x.astype(np.float64)
    loss = np.log(np.exp(wide).sum(1)) - wide[np.arange(rows), labels]
    work = Work({"logits": x, "labels": labels, "loss": np.zeros(rows, np.float32)}, {"loss": loss})
    return _case("cross_entropy", (rows,), work, {"columns": columns}, {"BLOCK": 2048}, num_warps=8)


def _scan(rng: np.random.Generator, rows: int, columns: int) -> TritonCase:
    x = _normal(rng, rows, columns)
    work = Work({"x": x, "out": np.zeros_like(x)}, {"out": np.cumsum(x.astype(np.float64), 1)}, 1e-5)
    return _case("cumulative_sum", (rows,), work, {"columns": columns}, {"BLOCK": 1024})


def _sort(rng: np.random.Generator, rows: int, columns: int) -> TritonCase:
    x = rng.integers(-(1 << 30), 1 << 30, (rows, columns), np.int32)
    work = Work({"x": x, "out": np.zeros_like(x)}, {"out": np.sort(x, 1)}, 0.0)
    return _case("sort_rows", (rows,), work, {}, {"BLOCK": columns})


def _histogram(rng: np.random.Generator, n: int, blocks: int) -> TritonCase:
    x = np.minimum(rng.exponential(20, n), 127).astype(np.int32)
    expected = {"bins": np.bincount(x, minlength=128)}
    work = Work({"x": x, "bins": np.zeros(128, np.int32)}, expected, 0.0)
    return _case("histogram", (blocks,), work, {"n": n}, {"BLOCK": 1024, "BINS": 128})


def _embedding(rng: np.random.Generator, rows: int, width: int) -> TritonCase:
    table, index = _normal(rng, 8192, width, kind=np.float16), rng.integers(0, 8192, rows, np.int32)
    arrays = {"table": table, "index": index, "out": np.zeros((rows, width), np.float16)}
    work = Work(arrays, {"out": table[index]}, 0.0)
    return _case("embedding", (rows,), work, {"width": width}, {"BLOCK": 1024})


# many parameters: what a product is of, how it is cut, and how it is compiled.
def _product(
    rng: np.random.Generator,
    n: int,
    kernel: str,
    kind: str,
    tile: tuple[int, int, int],
    stages: int,
    warps: int,
    k: int = 0,
    split: int = 0,
    maps: bool = False,
    blocks: int = 0,
    ctas: int = 1,
) -> TritonCase:
    """n x k by k x n, half-precision results. blocks: of a persistent kernel. split: parts of k, summed by atomics."""
    k = k or n
    left, right = rng.standard_normal((n, k), np.float32) / 2, rng.standard_normal((k, n), np.float32) / 2
    if kind == "fp8e4nv":
        left, right = (rng.integers(0, 64, shape, np.uint8) | rng.integers(0, 2, shape, np.uint8) << 7
                       for shape in ((n, k), (n, k)))  # fmt: skip
    elif kind == "bf16":
        left, right = bfloat16(left), bfloat16(right)
    else:
        left, right = left.astype(kind), right.astype(kind)
    first, second = decoded(left, kind), decoded(right, kind)
    product = first.astype(np.float32) @ (second.T if kind == "fp8e4nv" else second).astype(np.float32)
    out = np.zeros((n, n), np.float32 if split or kind == "float32" else np.float16)
    kinds = {"a": kind, "b": kind} if kind in ("bf16", "fp8e4nv") else {}
    # float32 inputs are rounded to 11 bits; of eight-bit products sums of 32 keep some 13 bits.
    tolerance = 1e-2 if kind == "fp8e4nv" else 2e-3
    work = Work({"a": left, "b": right, "c": out}, {"c": product}, tolerance, kinds)
    m, across, deep = tile
    grid = (blocks,) if blocks else (n // m, n // across, *([split] if split else []))
    scalars = {"k": k} if kernel == "matmul_host_map" else {"m": n, "n": n, "k": k}
    more = {"SPLIT": split} if split else {"TURNED": int(kind == "fp8e4nv")} if kernel == "matmul" else {}
    case = _case(kernel, grid, work, scalars, {"BM": m, "BN": across, "BK": deep, **more},
                 num_stages=stages, num_warps=warps, num_ctas=ctas)  # fmt: skip
    case.boxes.update({"a": (m, deep), "b": (deep, across), "c": (m, across)} if maps else {})
    return case


def _gelu(rng: np.random.Generator, m: int, n: int, k: int) -> TritonCase:
    x, w = _normal(rng, m, k, kind=np.float16) / 4, _normal(rng, k, n, kind=np.float16) / 4
    x, w, bias = x.astype(np.float16), w.astype(np.float16), _normal(rng, n)
    z = x.astype(np.float32) @ w.astype(np.float32) + bias
    result = 0.5 * z * (1 + np.tanh(0.7978845608 * (z + 0.044715 * z**3)))
    work = Work({"x": x, "w": w, "bias": bias, "out": np.zeros((m, n), np.float16)}, {"out": result}, 2e-3)
    tile = {"BM": 64, "BN": 128, "BK": 64}
    return _case("gelu_product", (m // 64, n // 128), work, {"m": m, "n": n, "k": k}, tile, num_stages=3)


# many parameters: the shape of the problem, its tile and how it is compiled.
def _attention(
    rng: np.random.Generator, length: int, heads: int, d: int, causal: int, rows: int, warps: int, stages: int
) -> TritonCase:
    q, k, v = (_normal(rng, heads, length, d, kind=np.float16) for _ in range(3))
    score = q.astype(np.float32) @ k.astype(np.float32).transpose(0, 2, 1) / np.sqrt(d)
    score = np.where(np.tri(length, dtype=bool), score, -np.inf) if causal else score
    weight = np.exp(score - score.max(2, keepdims=True))
    result = weight / weight.sum(2, keepdims=True) @ v.astype(np.float32)
    work = Work({"q": q, "k": k, "v": v, "out": np.zeros_like(q)}, {"out": result}, 3e-3)
    constants = {"BM": rows, "BN": 64, "D": d, "CAUSAL": causal}
    scalars = {"length": length, "scale": np.float32(1 / np.sqrt(d))}
    return _case("attention", (length // rows, heads), work, scalars, constants, num_warps=warps, num_stages=stages)


_add("vector_add", _vector_add, (10_000,), (1 << 22,))
_add("dropout", _dropout, (1 << 18,))
_add("softmax", _softmax, (128, 781, 4), (2048, 3000, 8))
_add("layer_norm", _layer_norm, (64, 1024, 4), (1024, 4096, 8))
_add("rms_norm", _rms_norm, (2048, 512))
_add("cross_entropy", _cross_entropy, (64, 10_000), (512, 32_000))
_add("scan", _scan, (16, 4096), (256, 8192))
_add("sort", _sort, (16, 256), (256, 1024))
_add("histogram", _histogram, (1 << 19, 132))
_add("embedding", _embedding, (64, 768), (4096, 1024))
_add("matmul/half", _product, (2048, "matmul", "float16", (128, 128, 32), 4, 4))
_add("matmul/tiles64", _product, (256, "matmul", "float16", (64, 64, 64), 2, 4))
_add("matmul/stage1", _product, (512, "matmul", "float16", (64, 128, 32), 1, 4))
_add("low_precision/bf16", _product, (768, "matmul", "bf16", (64, 128, 64), 3, 4))
_add("low_precision/fp8", _product, (1024, "matmul", "fp8e4nv", (128, 128, 64), 3, 8))
_add("tf32", _product, (256, "matmul", "float32", (64, 64, 32), 2, 4))
_add("cluster", _product, (2048, "matmul", "float16", (128, 256, 64), 3, 8, 0, 0, False, 0, 2))
_add("split_k", _product, (256, "matmul_split", "float16", (64, 64, 64), 3, 4, 4096, 8))
_add("host_map", _product, (256, "matmul_host_map", "float16", (64, 64, 64), 4, 4, 0, 0, True),
     (2048, "matmul_host_map", "float16", (128, 256, 64), 3, 8, 0, 0, True))  # fmt: skip
_add("device_map", _product, (1024, "matmul_device_map", "float16", (128, 128, 64), 3, 8))
_add("persistent", _product, (2048, "matmul_persistent", "float16", (128, 128, 64), 3, 8, 0, 0, True, 132))
_add("gelu", _gelu, (256, 512, 512))
_add("attention/full", _attention, (1024, 8, 64, 0, 128, 8, 3))
_add("attention/causal", _attention, (512, 2, 128, 1, 64, 4, 2))
