"""Kernels with explicit layouts, tensor memory and barriers, compiled by Gluon, against NumPy: `gluon_kernels.py`.

What these reach beside Triton's own: products that complete on the barriers for which rings of copies wait, a first
factor in tensor memory, every shape of its loads and stores, scales by `tcgen05.cp`, rows that TMA gathers, warps with
roles, and products of a pair of blocks.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpusim import gluon_kernels as G
from tests.gpusim import test_triton as triton


def pipelined_f16(rng, run):
    return product(rng, run, "f16", 256, 256, 448)


def pipelined_e4m3(rng, run):
    return product(rng, run, "e4m3", 128, 128, 384, (128, 64))


def pipelined_bf16(rng, run):
    return product(rng, run, "bf16", 128, 128, 192, (64, 128))


def product(rng, run, form, m, n, k, tile=(128, 128), result=np.float32):
    """b by columns."""
    (a, left), (b, right) = numbers(rng, form, m, k), numbers(rng, form, n, k)
    out = np.full((m, n), np.nan, result)
    run((m // tile[0], n // tile[1]), out, a, b, *map(np.int32, (m, n, k)))
    return out, left @ right.T, 0 if result is np.float32 else 2**-10, 1e-3


def numbers(rng, form, *shape):
    if form == "bf16":
        return triton.half_of_single(rng, *shape)
    if form == "f16":
        drawn = rng.standard_normal(shape).astype(np.float16)
        return drawn, drawn.astype(np.float64)
    return triton.float8(rng, form, *shape)


def chained(rng, run):
    """Whole numbers, whose products halves hold."""
    a, b, c = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((128, 64), (64, 128), (128, 128)))
    out = np.full((128, 128), np.nan, np.float32)
    run((1,), out, a, b, c)
    return out, a.astype(np.float64) @ b.astype(np.float64) @ c.astype(np.float64), 0, 0


def exchanged(rng, run, rows=128, columns=64):
    x, out = rng.standard_normal((rows, columns), np.float32), np.full((rows, columns), np.nan, np.float32)
    run((1,), out, x)
    return out, np.where(np.arange(columns) < columns // 2, x, -x), 0, 0


def exchanged_128b(rng, run):
    return exchanged(rng, run)


def exchanged_low(rng, run):
    return exchanged(rng, run, 64, 128)


def scaled_mxfp8(rng, run):
    return scaled(rng, run, triton.float8(rng, "e4m3", 128, 512), triton.float8(rng, "e4m3", 128, 512))


def scaled_mxfp4(rng, run):
    return scaled(rng, run, triton.float4(rng, 128, 512, 1), triton.float4(rng, 128, 512, 1))


def scaled(rng, run, a, b):
    """A scale for each 32 numbers along K; of 128 rows and 128 numbers along K they lie as the manual draws them."""
    codes = [rng.integers(122, 132, (128, 16), np.uint8) for _ in "ab"]
    lying = [each.reshape(4, 32, 4, 4).transpose(2, 1, 0, 3) for each in codes]
    left, right = (
        each[1] * np.repeat(np.ldexp(1.0, scale.astype(int) - 127), 32, 1)
        for each, scale in zip((a, b), codes, strict=True)
    )
    out = np.full((128, 128), np.nan, np.float32)
    run((1, 1), out, a[0], b[0], *map(np.ascontiguousarray, lying), *map(np.int32, (128, 128, 512)))
    return out, left @ right.T, 0, 2.0**-20 * abs(left).max() * abs(right).max() * 512


def scaled_mixed(rng, run):
    """Numbers of eight bits times numbers of four, of which 16 have 16 bytes of shared memory."""
    return scaled(rng, run, triton.float8(rng, "e4m3", 128, 512), triton.float4(rng, 128, 512, 1))


def gathered(rng, run):
    x, places = rng.standard_normal((40, 64)).astype(np.float16), rng.integers(0, 40, 32).astype(np.int32)
    out = np.zeros_like(x)
    run((1,), out, x, places, np.int32(40), np.int32(64))
    exact = np.zeros_like(x)
    exact[39 - np.arange(32)] = x[places]
    return out, exact, 0, 0


def specialised(rng, run):
    return product(rng, run, "f16", 128, 256, 448, result=np.float16)


def paired(rng, run):
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((256, 64), (64, 128)))
    out = np.full((256, 128), np.nan, np.float32)
    run((1,), out, a, b)
    return out, a.astype(np.float64) @ b.astype(np.float64), 0, 1e-4


def in_registers(rng, run, result=np.float32):
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((128, 320), (320, 64)))
    out = np.full((128, 64), np.nan, result)
    run((2, 1), out, a, b, *map(np.int32, (128, 64, 320)))
    return out, a.astype(np.float64) @ b.astype(np.float64), 0 if result is np.float32 else 2**-10, 1e-3


def by_tma(rng, run):
    return in_registers(rng, run, np.float16)


def computed(name, mode="functional"):
    results = []

    def run(grid, *args):
        results.append(triton.simulate(name, grid, *args, path=G.ARCHIVE, mode=mode))

    out, exact, relative, absolute = globals()[name.rpartition("_")[0]](np.random.default_rng(5), run)
    np.testing.assert_allclose(out.astype(np.float64), exact, rtol=relative, atol=absolute)
    return out, results[0]


@pytest.mark.parametrize("name", G.KERNELS)
def test_results(name):
    computed(name)


@pytest.mark.parametrize("name", ["pipelined_f16_100", "specialised_100", "paired_100", "scaled_mxfp8_100"])
def test_in_time(name):
    """A run that has times gives the same numbers, bit for bit."""
    functional, _ = computed(name)
    detailed, result = computed(name, "detailed")
    assert result.cycles > 0
    np.testing.assert_array_equal(detailed, functional)


def test_the_archive_is_of_these_sources():
    index, cubins = triton.archive(G.ARCHIVE)
    assert {name: about["source"] for name, about in index["kernels"].items()} == {
        name: G.source(row) for name, row in G.KERNELS.items()
    }
    assert G.ARCHIVE.stat().st_size < 100_000 and cubins.keys() == index["kernels"].keys()
