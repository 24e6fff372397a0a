"""Families with kernels of CUDA C++: each against its reference on the simulated GPU, from the source."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.errors import ArgumentError, WorkloadError
from gpusim.launch import CudaSource, Launch, TensorMap
from gpusim.launch.arguments import program_of
from gpusim.workload.request import Request
from gpusim.workload.target import find_target
from isa import SimulationError
from programs import images, matmul_fp4, registry
from programs.variant import Variant

VARIANTS = [
    each
    for ladder in registry.families().values()
    for each in ladder
    if any(isinstance(one.kernel, CudaSource) for one in ladder)
]


def simulated(variant: Variant, size: int, grid: int | None = None) -> gpusim.Result:
    launch = variant.make(size, 3)
    expected = variant.reference(launch)
    blocks = grid or launch.grid
    done = gpusim.simulate(launch.kernel, blocks, launch.block, launch.args, variant.gpu, launch.shared_bytes)
    assert variant.mismatch(expected, variant.results(launch)) is None
    return done


@pytest.mark.usefixtures("toolchain")
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_matches_reference(variant: Variant) -> None:
    assert simulated(variant, variant.test_size).cycles > 0


@pytest.mark.usefixtures("toolchain")
@pytest.mark.parametrize("name", ["matmul_hopper/persistent", "matmul_blackwell/persistent", "matmul_blackwell/pair"])
def test_blocks_that_take_several_tiles(name: str) -> None:
    simulated(registry.get(name), 512, grid=2 if name.endswith("pair") else 3)


def test_a_source_is_named_like_a_function(tmp_path: Path) -> None:
    kernel = CudaSource(__name__, "data/scale.cu", arch="sm_90a")
    assert (kernel.__name__, kernel.__module__, kernel.entry) == ("scale", __name__, "scale")
    assert kernel.path == Path(__file__).parent / "data" / "scale.cu"
    again = pickle.loads(pickle.dumps(kernel))
    assert again == kernel and hash(again) == hash(kernel) and again.__name__ == "scale"
    assert images.kernel_name(kernel) == f"{__name__}.scale"


@pytest.mark.usefixtures("toolchain")
def test_a_device_takes_tensor_maps_of_its_arrays() -> None:
    variant = registry.get("matmul_hopper/tma")
    launch = variant.make(variant.test_size, 1)
    (expected,) = variant.reference(launch)
    a, b, c, n = launch.args
    with gpusim.Device("h200") as device:
        held = [TensorMap(device.to_device(each.array), each.box, each.swizzle) for each in (a, b)]
        out = device.to_device(c)
        device.launch(launch.kernel, launch.grid, launch.block, (*held, out, n), launch.shared_bytes)
        assert variant.mismatch((expected,), (out.copy_to_host(),)) is None


@pytest.mark.usefixtures("toolchain")
@pytest.mark.parametrize(("name", "gpu"), [("matmul_hopper/wgmma", "b200"), ("cluster_reduction", "a100")])
def test_a_gpu_that_lacks_what_a_kernel_needs(name: str, gpu: str) -> None:
    variant = registry.get(name)
    launch = variant.make(variant.test_size, 3)
    with pytest.raises(SimulationError, match=r"for sm_90, which a GPU of sm_100|cluster_dims__ is not supported"):
        gpusim.simulate(launch.kernel, launch.grid, launch.block, launch.args, gpu, launch.shared_bytes)


@pytest.mark.parametrize(
    ("name", "gpu", "arch", "other"),
    [
        ("matmul_blackwell", "h200", "sm_100a, not sm_90", "b200"),
        ("matmul_fp4", "rtx5090", "sm_100a, not sm_120", "b200"),
        ("matmul_hopper", "b200", "sm_90a, not sm_100", "h200"),
    ],
)
def test_a_program_says_which_gpu_it_is_for(name: str, gpu: str, arch: str, other: str) -> None:
    with pytest.raises(WorkloadError, match=rf"{registry.get(name).name} is for {arch}: --gpu {other}"):
        find_target(Request(name), gpusim.load_config(gpu))


def test_scales_are_stored_as_one_copy_takes_them() -> None:
    scales = np.arange(256 * 8).reshape(256, 8)
    tiles = matmul_fp4._tiled(scales)
    assert np.array_equal(matmul_fp4._rows(tiles, 256), scales)
    row, column = 128 + 32 + 5, 6
    assert tiles[512 * (2 * (row // 128) + column // 4) + 16 * 5 + 4 * 1 + column % 4] == scales[row, column]


def test_a_python_kernel_takes_no_tensor_map() -> None:
    program = images.image("vector_add")
    maps = [TensorMap(np.zeros((64, 64), np.float16), (8, 8)) for _ in range(3)]
    with pytest.raises(ArgumentError, match="TensorMap cannot be passed to a kernel"):
        gpusim.simulate(program, 1, 32, maps)


@pytest.mark.usefixtures("toolchain")
def test_a_tensor_map_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="dense in C order"):
        TensorMap(np.zeros((64, 64), np.float16)[:, ::2], (8, 8))
    launch = registry.get("matmul_hopper/tma").make(256, 0)
    wide = TensorMap(launch.args[0].array, (128, 128), "128B")
    with pytest.raises(ArgumentError, match="inner box must fit the swizzled line"):
        gpusim.simulate(launch.kernel, launch.grid, launch.block, (wide, *launch.args[1:]), "h200", 100_000)


def test_an_image_stands_for_the_source() -> None:
    target = find_target(Request("matmul_hopper/tma", size=256), gpusim.load_config("h200"))
    image = target.recorded().launch.kernel
    assert image is images.image("matmul_hopper/tma")
    assert isinstance(target.launch, Launch) and target.launch.kernel != image
    assert program_of(target.launch, "sm_90").code_sha256 == image.code_sha256
