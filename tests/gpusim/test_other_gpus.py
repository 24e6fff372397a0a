"""Bundled programs on GPUs of other architectures: the right results, and clear errors for what one does not have."""

import numpy as np
import pytest

import gpusim
from gpusim.config import load_config
from gpusim.errors import LaunchError
from isa import CompileError
from isa.compile import compile_cuda
from isa.listing import program_from_cubin
from programs import registry

SAMPLE = {
    "t4": ("matmul/tiled", "histogram", "low_precision"),
    "v100": ("double/series", "transpose/padded"),
    "b200": ("matmul_tensor/asynchronous", "matmul_blackwell/pair", "matmul_fp4/nvfp4"),
    "rtx3090": ("reduction/shuffle",),
    "rtx4090": ("matmul/tiled",),
    **dict.fromkeys(("a10", "l4", "l40s"), ("vector_add",)),  # of the same architectures
    "rtx5090": ("matmul_tensor/asynchronous", "low_precision", "cluster_reduction"),
    "orin": ("low_precision",),
}


@pytest.mark.parametrize(("gpu", "name"), [(gpu, name) for gpu, names in SAMPLE.items() for name in names])
def test_results(gpu, name):
    program = registry.get(name)
    launch = program.make(program.test_size, 0)
    expected = program.reference(launch)
    result = gpusim.simulate(launch.kernel, launch.grid, launch.block, launch.args, gpu, launch.shared_bytes)
    assert program.mismatch(expected, program.results(launch)) is None
    assert result.cycles > 0


def test_rates_of_double_precision_are_those_of_the_gpus():
    """The T4 has 2 units for double precision where the V100 has 32, the A100 32 and the H200 64."""
    program = registry.get("double/series")
    cycles = {}
    for gpu in ("t4", "v100", "h200"):
        launch = program.make(1 << 13, 0)
        result = gpusim.simulate(launch.kernel, 1, 1024, launch.args, gpu)
        cycles[gpu] = result.cycles - load_config(gpu).launch.overhead_cycles
    assert cycles["t4"] > 8 * cycles["v100"] and cycles["v100"] > cycles["h200"]


def test_products_on_tensor_cores_need_their_architecture():
    program = registry.get("matmul_tensor/direct")
    launch = program.make(program.test_size, 0)
    with pytest.raises(CompileError, match=r"matmul_tensor\.py:\d+: .*m16n8k16.* requires .target sm_80 or higher"):
        gpusim.simulate(launch.kernel, launch.grid, launch.block, launch.args, "t4", launch.shared_bytes)


CLUSTER = 'extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int *out) { out[threadIdx.x] = 1; }'


def test_a_cluster_needs_its_architecture():
    with pytest.raises(CompileError, match="__cluster_dims__ is not supported"):
        compile_cuda(CLUSTER, "sm_80")


def test_machine_code_of_another_architecture_is_refused():
    program = program_from_cubin(compile_cuda(CLUSTER, "sm_90"), abi="c", path="k")
    with pytest.raises(LaunchError, match="its machine code is for sm_90, which a GPU of sm_75 does not run"):
        gpusim.simulate(program, 2, 32, (np.zeros(32, np.int32),), "t4")
    with pytest.raises(LaunchError, match="and NVIDIA A100 80GB has no clusters"):
        gpusim.simulate(program, 2, 32, (np.zeros(32, np.int32),), "a100", overrides=["gpu.arch=sm_90"])
