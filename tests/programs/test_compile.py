"""Every kernel compiles for sm_90 without a GPU, and keeps the properties that its program is about."""

from __future__ import annotations

import re
from functools import cache

import numba
import numpy as np
import pytest
from numba import cuda

from isa import CompileError, ToolchainMissing
from isa.numba_code import numba_code
from programs import registry

KERNELS = {registry.get(name).kernel: name for name in reversed(registry.names())}
FIRST_OF_EACH = sorted(KERNELS.values())


@cache
def ptx(name: str) -> str:
    variant = registry.get(name)
    launch = variant.make(variant.test_size, 0)
    signature = tuple(numba.typeof(arg) for arg in launch.args)
    return numba_code(variant.kernel, signature, "sm_90", {}, None).ptx


@pytest.fixture(scope="module", autouse=True)
def _toolchain() -> None:
    if cuda.compile is None:
        pytest.skip("Numba runs its CUDA simulator, which does not compile")
    try:
        numba_code(_nothing, (), "sm_90", {}, None)
    except (ToolchainMissing, CompileError) as error:
        pytest.skip(f"no NVVM to compile with: {error}")


def _nothing() -> None:
    return


@pytest.mark.parametrize("name", FIRST_OF_EACH)
def test_compiles_to_the_precision_of_its_arguments(name: str) -> None:
    code = ptx(name)
    assert re.search(r"\.target\s+sm_90", code)
    assert ".loc" in code
    # A stray Python float would promote single precision to double, an order of magnitude slower on many
    # GPUs.
    args = registry.get(name).make(registry.get(name).test_size, 0).args
    assert (".f64" in code) == any(arg.dtype == np.float64 for arg in args)


def test_divergent_paths_stay_separate_loops() -> None:
    code = ptx("divergence/1")
    constants = re.findall(r"add(?:\.rn)?\.f32\s+%\w+, %\w+, 0f([0-9A-F]{8})", code)
    assert len(set(constants)) == 32


def test_saxpy_is_contracted() -> None:
    assert re.search(r"fma\.rn(?:\.ftz)?\.f32", ptx("saxpy"))
