"""Loaded modules: variables, function pointers, functions of other sections, and the driver's functions."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gpusim
import isa
from gpusim.errors import AssertionFailed, MemoryAccessError, SymbolError
from gpusim.launch.memory import DeviceMemory
from gpusim.launch.module import LinkedModule
from isa import listing
from isa.assemble import link_objects
from isa.listing import program_from_cubin, programs_from_cubin

SETTINGS = {"overrides": ["sm.count=2"], "threads": 1}
LIMIT = {"max_cycles": 2_000_000}

# A chain of functions in sections of their own: a table of addresses, and a call of a call.
SEPARATE = r"""
__device__ int offset = 3;
__device__ __noinline__ int sum(int n) { return n <= 0 ? offset : n + sum(n - 1); }
__device__ __noinline__ int through(int n) { return n * sum(n ^ 1); }
__device__ __noinline__ int square(int n) { return n * n; }
typedef int (*Function)(int);
__device__ Function functions[2] = {through, square};
extern "C" {
__global__ void one(int *out) { out[threadIdx.x] = through(threadIdx.x); }
__global__ void two(int *out) { out[threadIdx.x] = functions[out[1] & 1](threadIdx.x); }
}
"""
SOURCE = r"""
extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, unsigned long);
__device__ int counter = 5;
__device__ float table[4] = {1, 2, 3, 4};
__device__ int *pointer = &counter;
__constant__ float coefficient[8] = {1, 2, 3};
__device__ __noinline__ float twice(float x) { return x * 2 + coefficient[1]; }
__device__ __noinline__ float thrice(float x) { return x * 3 + table[2]; }
typedef float (*Function)(float);
__device__ Function functions[2] = {twice, thrice};
struct Shape { float a; __device__ virtual float area(float) { return 0; } };
struct Sum : Shape { __device__ float area(float x) override { return x + a; } };
struct Product : Shape { __device__ float area(float x) override { return x * a; } };
extern "C" __global__ void pointers(float *out, int select) {
  int i = threadIdx.x;
  float r = functions[(i + select) & 1](out[i]);
  Sum sum; sum.a = 3;
  Product product; product.a = 4;
  Shape *shape = i % 3 ? (Shape *)&sum : (Shape *)&product;
  out[i] = shape->area(r);
}
extern "C" __global__ void count(int *out) { out[0] = atomicAdd(pointer, 1); out[1] = (int)coefficient[out[2]]; }
extern "C" __global__ void address(float *out) { const float *p = out[0] < 0 ? table : coefficient; out[1] = p[1]; }
extern "C" __global__ void past(float *out, int i) { out[0] = table[i]; }
extern "C" __global__ void check(int n) {
  int i = threadIdx.x;
  if (i >= n) __assertfail("i < n", "shapes.cu", 77, "check", 1);
}
extern "C" __global__ void heap(int *out, int n, int kind) {
  int i = threadIdx.x;
  int *p = new int[n];
  out[i] = p == nullptr;
  if (p == nullptr) return;
  p[n - 1] = i;
  if (kind == 1) p[n] = 0;
  out[i] += 10 * p[n - 1];
  delete[] p;
  if (kind == 2) free(p);
  if (kind == 3) free(out);
}
"""


@cache
def separate() -> bytes:
    return isa.compile_cuda(SEPARATE, options=("-rdc=true",))


@pytest.fixture(scope="module")
def programs() -> dict[str, isa.Program]:
    """By name. Compiled and listed once."""
    return programs_from_cubin(isa.compile_cuda(SOURCE, path="shapes.cu"))


def test_function_tables_and_virtual_functions(programs: dict[str, isa.Program]) -> None:
    x = np.arange(32, dtype=np.float32)
    gpusim.simulate(programs["pointers"], 1, 32, [x, 1], **SETTINGS, **LIMIT)
    i = np.arange(32)
    inner = np.where((i + 1) % 2 == 0, i * 2 + 2, i * 3 + 3)
    np.testing.assert_array_equal(x, np.where(i % 3 == 0, inner * 4, inner + 3))


def test_variables_last_over_launches_and_the_host_reaches_them(programs: dict[str, isa.Program]) -> None:
    program = programs["count"]
    out = np.array([0, 0, 2], np.int32)
    with gpusim.Device(**SETTINGS) as device:
        for expected in (5, 6):
            device.launch(program, 1, 1, [out], **LIMIT)
            assert list(out) == [expected, 3, 2]
        module = device.modules.of(program)
        counter, constant = module.symbol("counter"), module.symbol("coefficient")
        assert (counter.nbytes, constant.nbytes) == (4, 32)
        device.memory.view(counter.address, 4).view(np.int32)[0] = 40
        device.memory.view(constant.address, 32).view(np.float32)[2] = 9
        device.launch(program, 1, 1, [out], **LIMIT)
        assert list(out) == [40, 9, 2]
        with pytest.raises(SymbolError, match="no variable 'missing'"):
            module.symbol("missing")
    gpusim.simulate(program, 1, 1, [out], **SETTINGS, **LIMIT)
    assert list(out) == [5, 3, 2]  # a run of its own begins with fresh variables


def test_pointers_to_constants_and_bounds_of_variables(programs: dict[str, isa.Program]) -> None:
    for first, expected in ((1, 2), (-1, 2)):
        out = np.array([first, 0], np.float32)
        gpusim.simulate(programs["address"], 1, 1, [out], **SETTINGS, **LIMIT)
        assert out[1] == expected
    with pytest.raises(MemoryAccessError, match="variable table"):
        gpusim.simulate(programs["past"], 1, 1, [np.zeros(1, np.float32), 4], **SETTINGS, **LIMIT)


def test_variables_need_no_kernel(programs: dict[str, isa.Program], monkeypatch: pytest.MonkeyPatch) -> None:
    """Their initial values, and the addresses in them, come from the file alone."""
    cubin = programs["count"].cubin
    monkeypatch.setattr(listing, "disassemble", lambda *_: pytest.fail("a kernel is disassembled"))
    memory = DeviceMemory(1 << 20)
    linked = LinkedModule(cubin, memory)
    assert _words(linked, "table", np.float32) == [1, 2, 3, 4]
    assert _words(linked, "coefficient", np.float32) == [1, 2, 3, 0, 0, 0, 0, 0]
    assert _words(linked, "pointer", np.uint64) == [linked.symbol("counter").address]


def test_tables_of_functions_need_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions have their addresses before any kernel is laid out, and those are where every kernel has them."""
    cubin = link_objects([("a.cubin", separate())], "sm_90")
    labels = program_from_cubin(cubin, "two").labels
    monkeypatch.setattr(listing, "disassemble", lambda *_: pytest.fail("a kernel is disassembled"))
    linked = LinkedModule(cubin, DeviceMemory(1 << 20))
    expected = [labels["_Z7throughi"], labels["_Z6squarei"]]
    assert _words(linked, "functions", np.uint64) == expected and all(expected)


def _words(linked: LinkedModule, name: str, kind: type) -> list[float]:
    symbol = linked.symbol(name)
    return linked.memory.view(symbol.address, symbol.nbytes).view(kind).tolist()


def test_unloading_gives_the_memory_back(programs: dict[str, isa.Program]) -> None:
    memory = DeviceMemory()
    module = LinkedModule(programs["count"].cubin, memory)
    assert module.link("count").relocations == () and memory.used_bytes > 0
    module.symbol("coefficient")
    module.unload()
    assert memory.used_bytes == 0


def test_a_failed_assertion_names_its_place_and_thread(programs: dict[str, isa.Program]) -> None:
    gpusim.simulate(programs["check"], 1, 32, [32], **SETTINGS, **LIMIT)
    with pytest.raises(AssertionFailed, match=r"`i < n` failed in check, shapes.cu:77") as caught:
        gpusim.simulate(programs["check"], 1, 32, [7], **SETTINGS, **LIMIT)
    assert (caught.value.thread, caught.value.block) == ((7, 0, 0), (0, 0, 0))
    assert caught.value.file is not None and caught.value.file.endswith("shapes.cu")


def test_the_device_heap(programs: dict[str, isa.Program]) -> None:
    program, out = programs["heap"], np.zeros(32, np.int32)
    gpusim.simulate(program, 1, 32, [out, 6, 0], **SETTINGS, **LIMIT)
    np.testing.assert_array_equal(out, 10 * np.arange(32))
    gpusim.simulate(program, 1, 3, [out, 1 << 20, 0], **SETTINGS, **LIMIT)
    assert list(out[:3]) == [0, 10, 1]  # 8 MiB hold two of 4 MiB
    for kind, problem in ((1, "malloc in a kernel"), (2, "double free"), (3, "malloc did not give")):
        with pytest.raises(MemoryAccessError, match=problem):
            gpusim.simulate(program, 1, 1, [out, 6, kind], **SETTINGS, **LIMIT)


def test_separately_compiled_functions_are_linked(tmp_path: Path) -> None:
    path = tmp_path / "sums.cubin"
    path.write_bytes(separate())
    i = np.arange(8)
    sums = i * (((i ^ 1) * ((i ^ 1) + 1)) // 2 + 3)
    for entry, expected in (("one", sums), ("two", sums)):
        out = np.zeros(8, np.int32)
        gpusim.simulate(isa.load(path, entry), 1, 8, [out], **SETTINGS, **LIMIT)
        np.testing.assert_array_equal(out, expected)


def test_copies_of_one_function_of_the_compiler(toolchain):
    """Each linked object has its own routine for divisions."""
    divide = "__device__ __noinline__ double {0}(double x, double y) {{ return x / y + {1}; }}"
    kernel = """__device__ double one(double, double), two(double, double);
    extern "C" __global__ void k(double *out) { out[threadIdx.x] = one(out[threadIdx.x], 3) + two(1e-310, out[31]); }"""
    sources = divide.format("one", 1), divide.format("two", 2), kernel
    cubins = [(f"{k}.cubin", isa.compile_cuda(each, "sm_90", options=("-rdc=true",))) for k, each in enumerate(sources)]
    linked = link_objects(cubins, "sm_90")
    assert re.search(r"CALL.*`\(__cuda_sm20_div_\w+__\d\)", listing.disassemble(linked))
    out = np.arange(1, 33, dtype=np.float64)
    expected = (out / 3 + 1) + (1e-310 / out[31] + 2)
    gpusim.simulate(program_from_cubin(linked, "k", abi="c"), 1, 32, (out,), "h200", **SETTINGS)
    assert (out == expected).all()
