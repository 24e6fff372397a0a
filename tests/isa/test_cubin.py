"""What is read from the ELF file: resources, parameters, constants, globals; and what is refused."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import isa
from isa.cubin import Cubin, Parameter, read_cubin
from isa.errors import NotACubin, ToolchainMissing
from isa.listing import program_from_cubin

SOURCE = r"""
struct Big { char bytes[20000]; };
__constant__ int scale[4] = {7, 8, 9, 10};
__device__ int counter;
__device__ float table[3] = {1.f, 2.f, 3.f};
__device__ __noinline__ float first(float x) { return x + 1; }
__device__ __noinline__ float second(float x) { return x * x; }
__device__ float (*chosen[2])(float) = {first, second};
extern "C" {
__global__ void nothing() {}
__global__ void mixed(char a, double b, float4 c, short d, int *e) { *e = a + b + c.x + d; }
__global__ void large(Big big, int i, int *out) { *out = big.bytes[i]; }
__global__ void __launch_bounds__(96) bounded(int *out) {
  __shared__ int s[25];
  s[threadIdx.x] = *out;
  asm volatile("bar.sync 5;");
  *out = s[3];
}
__global__ void memory(float *out, int n) {
  volatile float stack[50];
  stack[n] = n;
  atomicAdd(&counter, 1);
  out[n] = stack[n + 1] * scale[n] + table[n] + chosen[n & 1](n);
}
__global__ void __cluster_dims__(2, 1, 1) clustered(int *out) { *out = 1; }
}
"""


@pytest.fixture(scope="module")
def data() -> bytes:
    try:
        return isa.compile_cuda(SOURCE, path="cubin.cu")
    except ToolchainMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def cubin(data: bytes) -> Cubin:
    return read_cubin(data)


def test_kernels_and_architecture(cubin: Cubin) -> None:
    assert cubin.arch == "sm_90"
    assert set(cubin.kernels) == {"nothing", "mixed", "large", "bounded", "memory", "clustered"}
    assert all(len(kernel.code) % 16 == 0 and kernel.code for kernel in cubin.kernels.values())
    assert all(kernel.registers > 0 for kernel in cubin.kernels.values())


@pytest.mark.parametrize(("arch", "base", "shared"), [("sm_80", 0x160, 0), ("sm_100", 0x380, 0x400)])
def test_other_architectures(arch: str, base: int, shared: int) -> None:
    text = SOURCE.replace("__cluster_dims__(2, 1, 1)", "")
    try:
        kernel = read_cubin(isa.compile_cuda(text, arch, path="cubin.cu")).kernels["bounded"]
    except ToolchainMissing as error:
        pytest.skip(str(error))
    assert (kernel.parameter_base, kernel.shared_base, kernel.static_shared_bytes) == (base, shared, 100)
    assert (kernel.barriers, kernel.max_threads) == (6, 96)


def test_parameters_have_their_c_layout(cubin: Cubin) -> None:
    mixed = cubin.kernels["mixed"]
    assert mixed.parameter_base == 0x210
    assert mixed.parameters == (
        Parameter(0, 0, 1),
        Parameter(1, 8, 8),
        Parameter(2, 16, 16),
        Parameter(3, 32, 2),
        Parameter(4, 40, 8),
    )
    assert mixed.parameter_bytes == 48
    assert len(mixed.constant_banks[0]) == 0x210 + 48


def test_parameters_over_four_kilobytes(cubin: Cubin) -> None:
    sizes = [(each.index, each.offset, each.size) for each in cubin.kernels["large"].parameters]
    assert sizes == [(0, 0, 20000), (1, 20000, 4), (2, 20008, 8)]


def test_kernel_without_parameters_has_a_base(cubin: Cubin) -> None:
    assert cubin.kernels["nothing"].parameters == ()
    assert cubin.kernels["nothing"].parameter_base == 0x210


def test_shared_barriers_and_bounds(cubin: Cubin) -> None:
    kernel = cubin.kernels["bounded"]
    assert kernel.static_shared_bytes == 100
    assert kernel.shared_base == 0x400
    assert kernel.barriers == 6  # barrier 5 is the highest one
    assert kernel.max_threads == 96
    assert cubin.kernels["mixed"].max_threads is None
    assert cubin.kernels["mixed"].barriers == 0


def test_stack_and_cluster(cubin: Cubin) -> None:
    assert cubin.kernels["memory"].local_bytes >= 200
    assert cubin.kernels["mixed"].local_bytes == 0
    assert cubin.kernels["clustered"].cluster == (2, 1, 1)
    assert cubin.kernels["mixed"].cluster is None


def test_user_constants_are_in_a_bank(cubin: Cubin) -> None:
    symbol = next(each for each in cubin.global_symbols if each.name == "scale")
    assert symbol.bank == 3 and symbol.size == 16
    bank = cubin.kernels["memory"].constant_banks[3]
    assert struct.unpack_from("<4i", bank, symbol.offset) == (7, 8, 9, 10)


def test_global_variables_and_their_relocations(cubin: Cubin) -> None:
    symbols = {each.name: each for each in cubin.global_symbols}
    table = symbols["table"]
    assert table.bank is None
    assert struct.unpack_from("<3f", cubin.global_image, table.offset) == (1.0, 2.0, 3.0)
    counter = symbols["counter"]
    assert cubin.global_image[counter.offset : counter.offset + counter.size] == bytes(4)
    assert counter.offset + counter.size <= len(cubin.global_image)
    wanted = {each.symbol: each for each in cubin.kernels["memory"].relocations}
    assert {"counter", "table"} <= set(wanted)
    for name in ("counter", "table"):
        assert (wanted[name].target, wanted[name].kind) == ("constant4", 2)
        assert wanted[name].offset + 8 <= len(cubin.kernels["memory"].constant_banks[4])


def test_registers_agree_with_the_code(data: bytes, cubin: Cubin) -> None:
    program = program_from_cubin(data, "memory")
    used = {each.index for line in program.instructions for each in line.operands if each.kind == "reg"} - {255}
    assert max(used) < program.registers
    assert program.registers == cubin.kernels["memory"].registers


@pytest.mark.parametrize("keep", [3, 20, 63, 64, 500, 0.5, 0.99])
def test_truncated_file_is_refused(data: bytes, keep: float, tmp_path: Path) -> None:
    path = tmp_path / "cut.cubin"
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(NotACubin, match=r"cut\.cubin is not a cubin: it"):
        isa.load(path)


def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(NotACubin, match="magic"):
        read_cubin(b"PK\x03\x04" + data[4:], "archive.cubin")
    with pytest.raises(NotACubin, match="machine 62"):
        read_cubin(data[:18] + struct.pack("<H", 62) + data[20:], "host.so")
    with pytest.raises(NotACubin, match="64-bit"):
        read_cubin(data[:4] + b"\x01" + data[5:], "old.cubin")
