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

COMMON = ("vector_add", "matmul/tiled", "matmul_tensor/asynchronous", "reduction/shuffle")
SAMPLE = {
    "t4": ("matmul/tiled", "reduction/shuffle", "histogram", "softmax", "double/series", "low_precision", "scan"),
    "v100": ("matmul/tiled", "double/series", "transpose/padded"),
    "b200": ("matmul/tiled", "matmul_tensor/asynchronous"),
    **dict.fromkeys(("rtx3090", "rtx4090"), COMMON),
    **dict.fromkeys(("a10", "l4", "l40s"), COMMON[:1]),  # of the same architectures
    "rtx5090": (*COMMON, "low_precision", "double/series", "cluster_reduction"),
    "orin": (*COMMON, "low_precision"),
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
BFLOAT16 = """extern "C" __global__ void k(float *out) {
    float c = 0, d = 0, e = 0, f = 0;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};"
                 : "+f"(c), "+f"(d), "+f"(e), "+f"(f) : "r"(threadIdx.x));
    out[threadIdx.x] = c;
}"""
GROUP = 'extern "C" __global__ void k(int *out) { asm volatile("wgmma.fence.sync.aligned;"); out[threadIdx.x] = 1; }'


@pytest.mark.parametrize(
    ("source", "arch", "words"),
    [
        (CLUSTER, "sm_80", "__cluster_dims__ is not supported"),
        (BFLOAT16, "sm_75", r"'\.bf16' requires \.target sm_80"),
        (GROUP, "sm_80", r"'wgmma\.fence' not supported on \.target 'sm_80'"),
    ],
)
def test_what_an_architecture_does_not_have_is_named(source, arch, words):
    with pytest.raises(CompileError, match=words):
        compile_cuda(source, arch)


def test_machine_code_of_another_architecture_is_refused():
    program = program_from_cubin(compile_cuda(CLUSTER, "sm_90"), abi="c", path="k")
    with pytest.raises(LaunchError, match="its machine code is for sm_90, which a GPU of sm_75 does not run"):
        gpusim.simulate(program, 2, 32, (np.zeros(32, np.int32),), "t4")
    with pytest.raises(LaunchError, match="and NVIDIA A100 80GB has no clusters"):
        gpusim.simulate(program, 2, 32, (np.zeros(32, np.int32),), "a100", overrides=["gpu.arch=sm_90"])
