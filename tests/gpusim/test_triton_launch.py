"""`gpusim.integrations.triton`: kernels of Triton on NumPy arrays. Needs Triton's wheel."""

from __future__ import annotations

import numpy as np
import pytest

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

from gpusim.integrations.triton import launch  # noqa: E402

pytestmark = pytest.mark.usefixtures("toolchain")


@triton.jit
def scaled_sum(x, y, out, n, scale, rest, BLOCK: tl.constexpr, TWICE: tl.constexpr = False):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n).to(tl.float32) + scale * tl.load(y + i, mask=i < n).to(tl.float32)
    if TWICE:
        value = value * 2
    if rest is not None:
        value += tl.load(rest)
    tl.store(out + i, value, mask=i < n)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int32])
def test_element_types_and_constants(kind):
    rng = np.random.default_rng(1)
    x, y = ((rng.standard_normal(200) * 9).astype(kind) for _ in range(2))
    out = np.zeros(200, np.float32)
    result = launch(scaled_sum, (2,), x, y, out, 200, 0.5, None, gpu="tiny", BLOCK=128, num_warps=2)
    np.testing.assert_allclose(out, x.astype(np.float32) + 0.5 * y.astype(np.float32), rtol=1e-6)
    assert result.cycles > 0 and result.record.launch.block == (64, 1, 1)
    rest = np.ones(1, np.float32)
    launch(
        scaled_sum,
        2,
        x,
        y,
        out,
        n=100,
        scale=2.0,
        rest=rest,
        gpu="tiny",
        mode="functional",
        BLOCK=64,
        TWICE=True,
    )
    wanted = 2 * (x.astype(np.float32) + 2 * y.astype(np.float32)) + 1
    np.testing.assert_allclose(out[:100], wanted[:100], rtol=1e-5)
    assert not np.allclose(out[100:], wanted[100:])


def test_bfloat16_by_its_name():
    x = np.array([1.0, 2.5, -3], np.float32)
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    out = np.zeros(3, np.float32)
    launch(
        scaled_sum, 1, bits, bits, out, 3, 1.0, None, gpu="tiny", kinds={"x": "bf16", "y": "bf16"}, BLOCK=32
    )
    np.testing.assert_array_equal(out, 2 * x)


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match=r"missing .*'scale'"):
        launch(scaled_sum, 1, np.zeros(1), np.zeros(1), np.zeros(1), 1, gpu="tiny", BLOCK=32)
    with pytest.raises(TypeError, match=r"unknown .*WIDTH"):
        launch(scaled_sum, 1, *[np.zeros(1)] * 3, 1, 1.0, None, gpu="tiny", BLOCK=32, WIDTH=1)
