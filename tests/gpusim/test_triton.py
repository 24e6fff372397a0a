"""Kernels that Triton has compiled for a B200 and an RTX 5090, against NumPy: `triton_kernels.py` has their sources."""

from __future__ import annotations

import inspect
import json
import zipfile
from functools import cache

import numpy as np
import pytest

import gpusim
from isa.listing import programs_from_cubin
from tests.gpusim import triton_kernels as T

GPUS = {100: "b200", 120: "rtx5090"}
CASES = [(name, capability) for name in T.KERNELS for capability in GPUS]
F8 = {"e4m3": (3, 7), "e5m2": (2, 15)}  # bits of fraction, and the exponent's bias
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float64)


@cache
def archive(path=T.ARCHIVE):
    with zipfile.ZipFile(path) as held:
        index = json.loads(held.read("index.json"))
        return index, {name: held.read(f"{name}.cubin") for name in index["kernels"]}


def simulate(name, grid, *args, path=T.ARCHIVE, mode="functional"):
    """A kernel by the name of its cubin, at whose end the compute capability stands."""
    index, cubins = archive(path)
    about = index["kernels"][name]
    (program,) = programs_from_cubin(cubins[name], abi="c", path=name).values()
    # Behind a kernel's own arguments Triton has room of the whole grid and of its profiler.
    room = max(about["scratch_bytes"], 1) * int(np.prod(grid))
    given = (*args, np.zeros(room, np.uint8), np.zeros(1, np.uint8))
    assert len(given) == len(program.parameters)
    blocks = grid[0] * about.get("blocks_of_cluster", 1), *grid[1:]
    gpu = GPUS[int(name.rpartition("_")[2])]
    return gpusim.simulate(program, blocks, about["threads"], given, gpu, about["shared_bytes"], mode=mode)


# --- numbers that NumPy has not ---------------------------------------------------------------------------------------
def half_of_single(rng, *shape):
    """bfloat16: its bits and its values."""
    bits = (rng.standard_normal(shape, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return bits, (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def float8(rng, form, *shape, low=0.25, high=4.0):
    fraction, bias = F8[form]
    first, last = (int(np.log2(each) + bias) << fraction for each in (low, high))
    bits = rng.integers(first, last, shape, np.uint8)
    values = np.ldexp(1 + (bits & (1 << fraction) - 1) / (1 << fraction), (bits >> fraction).astype(int) - bias)
    signs = rng.integers(0, 2, shape, np.uint8)
    return bits | signs << 7, np.where(signs, -values, values)


def float4(rng, rows, columns, axis):
    """Two in a byte along an axis."""
    codes = rng.integers(0, 16, (rows, columns), np.uint8)
    low, high = (np.take(codes, range(first, codes.shape[axis], 2), axis) for first in (0, 1))
    return low | high << 4, FP4[codes]


# --- kernels: a name's beginning is its function's -------------------------------------------------------------------
def softmax(rng, run):
    x, out = rng.standard_normal((4, 1000), np.float32), np.full((4, 1024), np.nan, np.float32)
    x = np.pad(x, ((0, 0), (0, 24)), constant_values=99)
    run((4,), out, x, np.int32(1024), np.int32(1000))
    weights = np.exp(x[:, :1000].astype(np.float64))
    return out[:, :1000], weights / weights.sum(1, keepdims=True), 2e-6, 0


def layernorm(rng, run):
    x, weight, bias = (rng.standard_normal(shape).astype(np.float16) for shape in ((4, 1024), 1024, 1024))
    out = np.full_like(x, np.nan)
    run((4,), out, x, weight, bias, np.int32(1024), np.int32(1000), np.float32(1e-5))
    values, scale, offset = (each[..., :1000].astype(np.float64) for each in (x, weight, bias))
    apart = values - values.mean(1, keepdims=True)
    return out[:, :1000], apart / np.sqrt((apart**2).mean(1, keepdims=True) + 1e-5) * scale + offset, 2**-10, 2**-12


def reduction(rng, run):
    x = rng.integers(0, 1000, 5000).astype(np.float32)
    out = np.zeros(7, np.float32)
    run((5,), out, x, np.int32(5000))
    parts = [x[at : at + 1024] for at in range(0, 5000, 1024)]
    return out, np.array([x.sum(), x.max(), *(part.argmax() for part in parts)]), 0, 0


def running_sum(rng, run):
    x = rng.integers(-50, 50, (3, 1024)).astype(np.float32)
    out = np.full_like(x, np.nan)
    run((3,), out, x, np.int32(1024))
    return out, np.cumsum(x, 1), 0, 0


def multiplied(run, tile, a, b, out, exact, m, n, k, *more):
    """A product on a grid of tiles, with the arguments that all of them have."""
    run((m // tile[0], n // tile[1]), out, a, b, *more, *map(np.int32, (m, n, k)))
    return out, exact


def product_f16(rng, run, tile=(128, 128)):
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((256, 192), (192, 256)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return *multiplied(run, tile, a, b, np.full((256, 256), np.nan, np.float16), exact, 256, 256, 192), 2**-10, 1e-4


def product_f16_wide(rng, run):
    return product_f16(rng, run, (128, 256))


def layer(rng, run):
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((128, 128), (128, 128)))
    bias, out = rng.standard_normal(128, np.float32), np.full((128, 128), np.nan, np.float16)
    exact = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)
    return *multiplied(run, (128, 64), a, b, out, exact, 128, 128, 128, bias), 2**-10, 1e-4


def product_bf16(rng, run):
    (a, left), (b, right) = half_of_single(rng, 128, 128), half_of_single(rng, 128, 64)
    return *multiplied(run, (64, 64), a, b, np.full((128, 64), np.nan, np.float32), left @ right, 128, 64, 128), 0, 1e-4


def product_tf32(rng, run):
    """Numbers that 11 bits hold, so that it does not matter how others are cut."""
    a, b = (rng.integers(-1024, 1025, shape).astype(np.float32) / 256 for shape in ((128, 96), (96, 128)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return *multiplied(run, (128, 64), a, b, np.full((128, 128), np.nan, np.float32), exact, 128, 128, 96), 0, 1e-4


def product_e4m3(rng, run, form="e4m3"):
    (a, left), (b, right) = float8(rng, form, 128, 256), float8(rng, form, 256, 128)
    out = np.full((128, 128), np.nan, np.float32)
    return *multiplied(run, (128, 128), a, b, out, left @ right, 128, 128, 256), 0, 1e-3


def product_e5m2(rng, run):
    return product_e4m3(rng, run, "e5m2")


def mxfp8(rng, run):
    return scaled(run, 32, float8(rng, "e4m3", 128, 256), float8(rng, "e4m3", 256, 128), *powers(rng))


def mxfp4(rng, run):
    return scaled(run, 32, float4(rng, 128, 256, 1), float4(rng, 256, 128, 0), *powers(rng))


def nvfp4(rng, run):
    fractions = [float8(rng, "e4m3", 128, 16, low=0.5, high=2) for _ in "ab"]
    scales = [(bits & 127, abs(values)) for bits, values in fractions]
    return scaled(run, 16, float4(rng, 128, 256, 1), float4(rng, 256, 128, 0), *scales)


def powers(rng):
    bits = [rng.integers(122, 132, (128, 8), np.uint8) for _ in "ab"]
    return [(each, np.ldexp(1.0, each.astype(int) - 127)) for each in bits]


def scaled(run, share, a, b, scales_a, scales_b):
    left, right = a[1] * np.repeat(scales_a[1], share, 1), b[1] * np.repeat(scales_b[1], share, 1).T
    out = np.full((128, 128), np.nan, np.float32)
    exact = left @ right
    found = multiplied(run, (128, 128), a[0], b[0], out, exact, 128, 128, 256, scales_a[0], scales_b[0])
    return *found, 0, 2.0**-20 * abs(left).max() * abs(right).max() * 256


def attention(rng, run):
    q, k, v = (rng.standard_normal((256, 64)).astype(np.float16) for _ in "qkv")
    out = np.full_like(q, np.nan)
    run((2,), out, q, k, v, np.float32(0.18), np.int32(256))
    scores = q.astype(np.float64) @ k.T.astype(np.float64) * np.float32(0.18)
    weights = np.exp2(scores - scores.max(1, keepdims=True))
    return out, weights @ v.astype(np.float64) / weights.sum(1, keepdims=True), 2**-10, 2e-3


def persistent(rng, run):
    a, b = (rng.standard_normal((256, 128)).astype(np.float16) for _ in "ab")
    out = np.full((256, 256), np.nan, np.float16)
    run((2,), out, a, b, *map(np.int32, (256, 256, 128)))
    return out, a.astype(np.float64) @ b.T.astype(np.float64), 2**-10, 1e-4


def computed(name, capability, mode="functional"):
    results = []

    def run(grid, *args):
        results.append(simulate(f"{name}_{capability}", grid, *args, mode=mode))

    out, exact, relative, absolute = globals()[name](np.random.default_rng(5), run)
    np.testing.assert_allclose(out.astype(np.float64), exact, rtol=relative, atol=absolute)
    return out, results[0]


@pytest.mark.parametrize(("name", "capability"), CASES)
def test_results(name, capability):
    computed(name, capability)


@pytest.mark.parametrize(
    ("name", "capability"),
    [("product_f16", 100), ("nvfp4", 100), ("attention", 100), ("persistent", 100), ("softmax", 100),
     ("product_e4m3", 120), ("nvfp4", 120)],
)  # fmt: skip
def test_in_time(name, capability):
    """A run that has times gives the same numbers, bit for bit."""
    functional, _ = computed(name, capability)
    detailed, result = computed(name, capability, "detailed")
    assert result.cycles > 0
    np.testing.assert_array_equal(detailed, functional)


def test_the_archive_is_of_these_sources():
    index, cubins = archive()
    sources = {name: inspect.getsource(getattr(row[0], "fn", row[0])) for name, row in T.KERNELS.items()}
    assert {name: about["source"] for name, about in index["kernels"].items()} == {
        f"{name}_{capability}": sources[name] for name in T.KERNELS for capability in T.TARGETS
    }
    assert T.ARCHIVE.stat().st_size < 600_000 and cubins.keys() == index["kernels"].keys()
