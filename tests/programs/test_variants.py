from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from gpusim.launch import Launch, Struct
from gpusim.launch.cuda import array_of
from programs import registry
from programs.rounding import fma32
from programs.variant import MAX_SIZE, Variant, ceil_div, check_size
from tests.gpusim import bundled

VARIANTS = [registry.get(name) for name in registry.names()]
each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=registry.names())


@each_variant
def test_inputs_depend_on_the_seed_alone(variant: Variant) -> None:
    first, again, other = (variant.make(variant.test_size, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in _inputs(variant, first, again))
    assert not all(np.array_equal(a, b, equal_nan=True) for a, b in _inputs(variant, first, other))


def _inputs(variant: Variant, first: Launch, second: Launch) -> list[tuple]:
    """Argument pairs, without outputs that hold nothing but their poison."""
    pairs = [
        (array_of(a), array_of(b))
        for index, (a, b) in enumerate(zip(first.args, second.args, strict=True))
        if index not in variant.outputs or len(np.unique(array_of(a))) > 1
    ]
    structs = [(a.arrays, b.arrays) for a, b in zip(first.args, second.args, strict=True) if isinstance(a, Struct)]
    return pairs + [(a[at], b[at]) for a, b in structs for at in a if len(np.unique(a[at])) > 1]


@each_variant
def test_a_kernel_that_does_nothing_is_noticed(variant: Variant) -> None:
    launch = variant.make(variant.test_size, 0)
    expected = variant.reference(launch)
    for want, got in zip(expected, variant.results(launch), strict=True):
        assert want.shape == got.shape and want.dtype == got.dtype
        # Every element differs from what was there before, save empty bins of a histogram.
        assert (want != got).all() or variant.family.endswith("histogram")
    assert variant.mismatch(expected, expected) is None
    assert variant.name in (variant.mismatch(expected, variant.results(launch)) or "")


@each_variant
def test_metadata(variant: Variant) -> None:
    small, large = variant.sizes
    assert 0 < small < large
    assert small <= variant.default_size <= large
    assert variant.teaches.endswith(".") and "\n" not in variant.teaches
    for size in (variant.default_size, variant.test_size):
        launch = variant.make(size, 0)
        assert launch.kernel is variant.kernel
        assert launch.threads_per_block <= 1024


@each_variant
def test_impossible_sizes_are_refused(variant: Variant) -> None:
    for size in (0, -256, MAX_SIZE + 1, 2.5, True, "16"):
        with pytest.raises(ValueError, match=r"size \("):
            variant.make(size, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in registry.names() if not registry.get(name).recorded])
def test_what_no_gpu_has_run_matches_its_reference(name: str) -> None:
    bundled.checked(name)


@pytest.mark.parametrize("name", ["matmul/naive", "matmul/tiled"])
def test_matmul_takes_whole_tiles_only(name: str) -> None:
    with pytest.raises(ValueError, match=r"multiple of 16.*got 100"):
        registry.get(name).make(100, 0)


def test_a_mismatch_says_where() -> None:
    variant = registry.get("transpose")
    launch = variant.make(5, 0)
    expected = variant.reference(launch)
    actual = expected[0].copy()
    actual[2, 3] = 9
    message = variant.mismatch(expected, (actual,))
    assert message is not None and "1 of 25 elements, first at (2, 3)" in message
    assert "float32[5, 5]" in (variant.mismatch(expected, (actual[1:],)) or "")


def test_tolerance_is_relative_and_bounded() -> None:
    variant = registry.get("saxpy")
    want = np.ones(1, np.float32)
    assert variant.mismatch((want,), (want + np.float32(2.0**-23),)) is None
    assert variant.mismatch((want,), (want + np.float32(2.0**-22),)) is not None
    assert variant.mismatch((want,), (want * np.float32(np.nan),)) is not None


def test_fma32_rounds_once() -> None:
    # (1 + 2**-12)**2 = 1 + 2**-11 + 2**-24: a tie in float32; 2**-60 decides it, and float64 loses that.
    a = np.full(3, 1 + 2.0**-12, np.float32)
    c = np.array([-(2.0**-60), 0, 2.0**-60], np.float32)
    below, above = np.float32(1 + 2.0**-11), np.float32(1 + 2.0**-11 + 2.0**-23)
    assert fma32(a, a, c).tolist() == [below, below, above]
    assert fma32(-a, a, -c).tolist() == [-below, -below, -above]


def test_fma32_agrees_with_exact_arithmetic() -> None:
    rng = np.random.default_rng(1)
    a, b, c = (np.ldexp(rng.standard_normal(500), rng.integers(-9, 9, 500)).astype(np.float32) for _ in "abc")
    for x, y, z, got in zip(a, b, c, fma32(a, b, c), strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        error = abs(Fraction(float(got)) - exact)
        for neighbour in (np.nextafter(got, np.float32(np.inf)), np.nextafter(got, np.float32(-np.inf))):
            assert error <= abs(Fraction(float(neighbour)) - exact)


def test_check_size_and_ceil_div() -> None:
    assert check_size(np.int64(32), "elements", multiple=16) == 32
    with pytest.raises(ValueError, match="at most 64"):
        check_size(65, "elements", maximum=64)
    assert [ceil_div(n, 4) for n in (1, 4, 5)] == [1, 1, 2]
