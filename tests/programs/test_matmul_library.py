"""The top of the ladder of matrix products is what the library launches, not something like it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.driver.libraries.blas import choice, kernels
from gpusim.driver.libraries.blas.product import F16, F32
from gpusim.errors import ArgumentError
from gpusim.launch import CudaSource, Struct
from gpusim.launch.arguments import program_of
from isa import load
from programs import images, matmul_library, registry
from tests.gpusim.kernels import Kernels

CHOSEN = [
    ("thin", 2048, F32, "thin", "h200"),
    ("threads", 512, F32, "simt", "a100"),
    ("split", 512, F32, "fma", "h200"),
    ("ring", 512, F32, "wgmma", "h200"),
    ("halves", 1024, F16, "wgmma", "h200"),
    ("wide", 2048, F16, "wgmma", "h200"),
]
"""Steps that the library takes: sides, types, ways and GPUs."""
KERNELS = Kernels("""
struct Two { int n; const int *x; int *y; };
extern "C" __global__ void add(const Two two, int k) {
    if (threadIdx.x < two.n) two.y[threadIdx.x] = two.x[threadIdx.x] + k;
}
""")


def macros_of(source: CudaSource) -> dict[str, str]:
    return dict(each.removeprefix("-D").split("=", 1) for each in source.options)


@pytest.mark.parametrize(("name", "n", "kind", "way", "gpu"), CHOSEN)
def test_a_step_is_what_the_library_chooses(name: str, n: int, kind: int, way: str, gpu: str) -> None:
    launch = registry.get(f"matmul_library/{name}").make(n, 0)
    config = gpusim.load_config(gpu)
    what, types = matmul_library._product(n, kind, way), matmul_library._types(kind, way)
    chosen = choice.choose(config, what, types)
    told = {"NAME": name} | types | chosen.macros
    assert macros_of(launch.kernel) == {key: str(told[key]) for key in told}
    assert (launch.grid, launch.block[0], launch.shared_bytes) == (chosen.grid, chosen.threads, chosen.shared)
    assert launch.kernel.path.name == chosen.file
    *maps, gemm = launch.args
    assert [each.data for each in maps] == choice.tensor_maps(what, told) and gemm.data == what.packed()


@pytest.mark.usefixtures("toolchain")
@pytest.mark.parametrize("name", ["thin", "split", "ring"])
def test_its_machine_code_is_the_librarys(name: str, tmp_path: Path) -> None:
    launch = registry.get(f"matmul_library/{name}").make(128, 0)
    source = launch.kernel
    text = kernels.text_of(source.path.name, macros_of(source))
    path = tmp_path / "library.cubin"
    path.write_bytes(kernels._cubin(source.path.name, text, source.arch or "sm_90"))
    assert load(path, name).code_sha256 == program_of(launch, "sm_90").code_sha256


def test_no_image_is_kept_of_what_a_library_compiles() -> None:
    variant = registry.get("matmul_library")
    assert not variant.image and not variant.recorded
    assert images.for_launch(variant.make(variant.test_size, 0)) is None


@pytest.mark.usefixtures("toolchain")
def test_a_structure_points_to_arrays() -> None:
    x, y = np.arange(40, dtype=np.int32), np.full(40, -1, np.int32)
    data = np.array([32], np.uint64).tobytes() + bytes(16)
    gpusim.simulate(KERNELS["add"], 1, 64, (Struct(data, {8: x, 16: y}), np.int32(5)), "tiny")
    assert np.array_equal(y[:32], x[:32] + 5) and (y[32:] == -1).all()
    with gpusim.Device("tiny") as device:
        held, out = device.to_device(x), device.to_device(np.zeros_like(y))
        device.launch(KERNELS["add"], 1, 64, (Struct(data, {8: held, 16: out}), np.int32(7)))
        assert np.array_equal(out.copy_to_host()[:32], x[:32] + 7)
    with pytest.raises(ArgumentError, match="16 bytes given for parameter 0, which has 24"):
        gpusim.simulate(KERNELS["add"], 1, 64, (Struct(data[:16], {8: x}), np.int32(5)), "tiny")
    with pytest.raises(ArgumentError, match="Struct cannot be passed to a kernel"):
        gpusim.simulate(images.image("vector_add"), 1, 32, [Struct(bytes(8), {0: x})] * 3)
