"""Clusters and what is asked about them, linking at run time, and entry points: as an H200's driver has it."""

from __future__ import annotations

import struct
import sys
from ctypes import c_int, c_size_t, c_uint32, c_uint64, string_at

import pytest

from gpusim.driver.attributes import DRIVER_VERSION
from gpusim.driver.work.launches import Observer
from gpusim.launch.occupancy import occupancy
from isa import compile_cuda
from tests.gpusim.driver_calls import PTX, PTX_90, Calls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
COOPERATIVE, CLUSTER, PREFERRED = 2, 4, 11


@pytest.fixture(scope="module")
def calls():
    return Calls("h200")


@pytest.fixture
def kernel(calls):
    return calls.kernel("bounded")


def config(calls, grid, block=32, shared=0, **attributes):
    rows = b"".join(struct.pack("<i4x3I52x", number, *value) for number, value in attributes.values())
    return struct.pack("<7I4xQQI", grid, 1, 1, block, 1, 1, shared, 0, calls.address(rows), len(attributes))


def launch(calls, kernel, grid, size=None, **more):
    given = {"cluster": (CLUSTER, (size, 1, 1) if size else (0, 0, 0))} if size is not None else {}
    return calls("cuLaunchKernelEx", config(calls, grid, **given, **more), kernel, None, None)


def test_sizes_of_clusters(calls, kernel):
    assert [launch(calls, kernel, 16, size) for size in (None, 0, 2, 3, 16)] == [0, 0, 0, 912, 912]
    assert launch(calls, kernel, 12, 8) == 912
    assert launch(calls, kernel, 4, 2, preferred=(PREFERRED, (4, 1, 1))) == 0
    assert launch(calls, kernel, 4, preferred=(PREFERRED, (4, 1, 1))) == 912
    calls.do("cuFuncSetAttribute", kernel, 14, 1)  # larger ones than all GPUs have
    assert [launch(calls, kernel, 32, size) for size in (16, 32)] == [0, 912]
    fixed = calls.kernel("clustered", PTX_90)
    assert [launch(calls, fixed, 16, size) for size in (None, 0, 2, 4)] == [0, 0, 0, 912]
    assert launch(calls, fixed, 15) == 912
    for number, value in ((11, 2), (12, 1), (13, 1)):
        calls.do("cuFuncSetAttribute", kernel, number, value)
    assert [launch(calls, kernel, 16, size) for size in (None, 2, 4)] == [0, 0, 912]


def test_clusters_that_fit(calls, kernel):
    """As many as an H200 says."""
    sizes, counts = c_int(), []
    for size in (1, 2, 4, 8):
        given = config(calls, 16 * size, 128, cluster=(CLUSTER, (size, 1, 1)))
        calls.do("cuOccupancyMaxActiveClusters", sizes, kernel, given)
        counts.append(sizes.value)
    assert counts == [1056, 528, 248, 124]
    given = config(calls, 64)
    calls.do("cuOccupancyMaxActiveClusters", sizes, kernel, given)
    assert sizes.value == 0


def test_dynamic_shared_memory_that_is_left(calls):
    kernel, size = calls.kernel("put"), c_size_t()
    for most, expected in ((0, [0, 0, 0]), (100000, [100000, 100000, 58368]), (200000, [200000, 116736, 58368])):
        calls.do("cuFuncSetAttribute", kernel, 8, most)
        found = []
        for blocks in (1, 2, 4):
            calls.do("cuOccupancyAvailableDynamicSMemPerBlock", size, kernel, blocks, 128)
            found.append(size.value)
        assert found == expected
    assert calls("cuOccupancyAvailableDynamicSMemPerBlock", size, kernel, 40, 128) == 1
    assert calls("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 200001, 0, None, None) == 1


@pytest.mark.parametrize("threads", [32, 128, 1024])
def test_blocks_that_fit(calls, threads):
    kernel = calls.kernel("kept")
    registers = calls.number("cuFuncGetAttribute", 4, kernel)
    expected = occupancy(calls.driver.config, threads, registers, 1000).blocks_per_sm
    assert calls.number("cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel, threads, 0) == expected


RANKS = """
#include <cooperative_groups.h>
extern "C" __global__ void ranks(unsigned *out) {
  auto cluster = cooperative_groups::this_cluster();
  __shared__ unsigned mine;
  mine = 100 + blockIdx.x;
  cluster.sync();
  out[blockIdx.x] = cluster.block_rank() << 8 | *cluster.map_shared_rank(&mine, 0);
  cluster.sync();
}"""


@pytest.fixture(scope="module")
def groups(toolchain):
    """A cubin of all kernels here in CUDA C++: their headers take two seconds."""
    return compile_cuda(RANKS + ASKED)


def test_blocks_of_a_launch_form_clusters(calls, groups):
    kernel = calls.handle("cuModuleGetFunction", calls.handle("cuModuleLoadData", groups), "ranks")
    out = calls.memory(8)
    values = calls.parameters(c_uint64(out))
    for size in (1, 2, 4):
        given = config(calls, 8, 1, cluster=(CLUSTER, (size, 1, 1)))
        calls.do("cuLaunchKernelEx", given, kernel, values, None)
        assert calls.words(out, 8) == [k % size << 8 | 100 + k // size * size for k in range(8)]


ASKED = """
extern "C" __global__ void grid(unsigned *out) {
  auto all = cooperative_groups::this_grid();
  if (threadIdx.x + blockIdx.x == 0) out[0] = all.is_valid() ? 1 : 2;
  if (all.is_valid()) all.sync();
  if (threadIdx.x == 0) atomicAdd(out + 1, 1);
}
extern "C" __global__ void waits() { cooperative_groups::this_grid().sync(); }
__device__ __noinline__ int deeper(volatile int *q, int n) {
  volatile int room[64];
  room[n & 63] = n;
  if (n == 0) return q[0];
  return deeper(q, n - 1) + room[n & 63];
}
extern "C" __global__ void recurse(int *out, int n) { out[1] = deeper(out, n); }
extern "C" __global__ void heap(unsigned *fails, int n) { if (!malloc(n)) atomicAdd(fails, 1); }"""


@pytest.fixture
def asked(groups):
    """A driver of its own, since some kernels here end with an error, and a launch: of a kernel with so many blocks and
    threads and, beside an address, a number. It gives the code of the wait for it, and two words."""
    calls = Calls()
    module, out = calls.handle("cuModuleLoadData", groups), calls.memory(2)

    def run(kernel, blocks, threads=1, number=0, how="cuLaunchKernel"):
        values = calls.parameters(c_uint64(out), c_int(number))
        end = (values,) if "Cooperative" in how else (values, None)
        function = calls.handle("cuModuleGetFunction", module, kernel)
        code = calls(how, function, blocks, 1, 1, threads, 1, 1, 0, 0, *end) or calls("cuCtxSynchronize")
        return code, *(() if code else calls.words(out, 2))

    return calls, run


def test_a_launch_is_cooperative_if_the_program_says_so(asked):
    """As on an H100: a plain launch has no workspace of its grid, however many blocks it has, and fails where it waits
    for all of them."""
    _, run = asked
    assert run("grid", 3) == (0, 2, 3)
    assert run("grid", 4000) == (0, 2, 4003)
    assert run("grid", 3, how="cuLaunchCooperativeKernel") == (0, 1, 4006)
    assert run("grid", 4000, how="cuLaunchCooperativeKernel") == (720,)
    assert run("waits", 2) == (719,)


@pytest.mark.parametrize(("stack", "deepest"), [(None, 2), (4096, 13)])
def test_the_stack_is_as_deep_as_its_limit(asked, stack, deepest, capsys):
    """Depths that an H100 (driver 580, CUDA 13.0) runs; with one more it gives an illegal address."""
    calls, run = asked
    if stack is not None:
        calls.do("cuCtxSetLimit", 0, stack)
    assert run("recurse", 1, number=deepest)[0] == 0
    assert run("recurse", 1, number=deepest + 1) == (700,)
    assert f"stack of {stack or 1024:,} bytes" in capsys.readouterr().err


def test_the_heap_is_as_large_as_its_limit_until_a_kernel_has_used_it(asked):
    """As on an H100, where the limit of a heap in use cannot be set."""
    calls, run = asked
    calls.do("cuCtxSetLimit", 2, 64 << 20)
    assert run("heap", 8, 128, 16384)[:2] == (0, 0)
    assert run("heap", 1, 1, 65 << 20)[:2] == (0, 1)
    assert calls("cuCtxSetLimit", 2, 128 << 20) == 1 and calls.handle("cuCtxGetLimit", 2) == 64 << 20


def test_texts_are_linked(calls):
    """A function of one text is called by a kernel of another."""
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    caller = (
        head
        + """
        .extern .func (.param .b32 r) twice (.param .b32 x);
        .visible .entry both(.param .u64 p) { .reg .b64 %p; .reg .b32 %v;
          ld.param.u64 %p, [p];
          { .param .b32 x; .param .b32 r; st.param.b32 [x], 21; call.uni (r), twice, (x); ld.param.b32 %v, [r]; }
          st.global.u32 [%p], %v; ret; }"""
    )
    called = (
        head
        + """
        .visible .func (.param .b32 r) twice (.param .b32 x) { .reg .b32 %v;
          ld.param.b32 %v, [x]; add.u32 %v, %v, %v; st.param.b32 [r], %v; ret; }"""
    )
    state, cubin, nbytes = c_uint64(), c_uint64(), c_size_t()
    calls.do("cuLinkCreate_v2", 0, None, None, state)
    for text in (caller, called):
        calls.do("cuLinkAddData_v2", state.value, 1, text, len(text) + 1, "text", 0, None, None)
    calls.do("cuLinkComplete", state.value, cubin, nbytes)
    assert string_at(cubin.value, 4) == b"\x7fELF"
    memory = calls.memory()
    kernel = calls.handle(
        "cuModuleGetFunction", calls.handle("cuModuleLoadData", string_at(cubin.value, nbytes.value)), "both"
    )
    calls.do("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, 0, calls.parameters(c_uint64(memory)), None)
    assert calls.words(memory) == [42]
    calls.do("cuLinkDestroy", state.value)
    assert calls("cuLinkComplete", state.value, cubin, nbytes) == 400
    calls.do("cuLinkCreate_v2", 0, None, None, state)
    calls.do("cuLinkAddData_v2", state.value, 1, PTX, len(PTX), "alone", 0, None, None)
    calls.do("cuLinkComplete", state.value, cubin, nbytes)
    assert calls("cuLinkAddFile_v2", state.value, 1, "/nowhere", 0, None, None) == 301


def test_entry_points_by_version(calls):
    names = "cuGraphAddDependencies", "cuMemPrefetchAsync"
    known = {f"{name}{end}": 2 * k + m for k, name in enumerate(names) for m, end in ((1, ""), (2, "_v2"))}
    calls.driver.address_of = known.get

    def asked(name, version, flags=0):
        place, status = c_uint64(5), c_int(-1)
        code = calls("cuGetProcAddress_v2", name, place, version, flags, status)
        return code, place.value, status.value

    assert asked("cuGraphAddDependencies", 9000) == (0, 0, 2)  # came later
    assert asked("cuGraphAddDependencies", 12020) == (0, 1, 0)
    assert asked("cuGraphAddDependencies", 12030) == asked("cuGraphAddDependencies", 12030, 2) == (0, 2, 0)
    assert [asked("cuMemPrefetchAsync", version)[1] for version in (8000, 12010, 12020)] == [3, 3, 4]
    assert asked("cuNotThere", 12000) == (0, 0, 1)
    assert asked("cuGraphAddDependencies", DRIVER_VERSION + 10) == (1, 5, -1)
    assert [asked("cuGraphAddDependencies", 12000, flags)[0] for flags in (1, 2, 3, 4, 8)] == [0, 0, 0, 1, 1]
    symbols = []
    calls.driver.address_of = symbols.append
    for flags in (0, 1, 2):
        asked("cuLaunchKernel", 12000, flags)
    assert symbols == ["cuLaunchKernel", "cuLaunchKernel_v2"] * 2 + [
        *("cuLaunchKernel_ptsz", "cuLaunchKernel_ptds", "cuLaunchKernel_v2_ptsz", "cuLaunchKernel_v2_ptds"),
        *("cuLaunchKernel", "cuLaunchKernel_v2"),
    ]
    place = c_uint64(5)
    assert calls("cuGetProcAddress", "cuNotThere", place, 12000, 0) == 500 and place.value == 5
    assert calls("cuGetProcAddress_v2", "cuNotThere", place, 12000, 0, None) == 500


def test_errors_have_names(calls):
    def texts(code):
        places = c_uint64(), c_uint64()
        for name, place in zip(("Name", "String"), places, strict=True):
            calls.do(f"cuGetError{name}", code, place)
        return tuple(string_at(place.value).decode() for place in places)

    assert texts(0) == ("CUDA_SUCCESS", "no error")
    cluster = "a kernel launch error has occurred due to cluster misconfiguration"
    assert texts(912) == ("CUDA_ERROR_INVALID_CLUSTER_SIZE", cluster)
    place = c_uint64(5)
    assert calls("cuGetErrorName", 12, place) == 1 and place.value == 0  # the runtime's alone
    said = [string_at(calls(f"cudaGetError{how}", n)) for n in (12, 998) for how in ("Name", "String")]
    assert said == [b"cudaErrorInvalidPitchValue", b"invalid pitch argument", *[b"unrecognized error code"] * 2]


def test_every_code_has_a_text():
    from gpusim.driver.codes import ResultCode, code_texts

    texts = code_texts()
    for code in ResultCode:
        names = (
            texts[code].driver.removeprefix("CUDA_ERROR_").removeprefix("CUDA_"),
            texts[code].runtime.removeprefix("cudaError"),
        )
        assert code.name in (names[0], "".join(f"_{c}" if c.isupper() else c.upper() for c in names[1]).lstrip("_")), (
            code
        )


def test_copies_of_attributes_of_streams(calls):
    first, second = (calls.handle("cuStreamCreate", 1) for _ in range(2))
    calls.do("cuStreamSetAttribute", first, 8, struct.pack("<i60x", -3))
    calls.do("cuStreamCopyAttributes", second, first)
    priority = c_int()
    calls.do("cuStreamGetPriority", second, priority)
    assert priority.value == -3
    place = c_uint32()
    calls.do("cuStreamGetAttribute", second, 8, place)
    assert place.value == 0xFFFFFFFD


class Occupancies(Observer):
    """Occupancies of launches, and the share of their loads' sectors that L1 had."""

    def __init__(self) -> None:
        self.seen, self.hits, self.ended = [], [], []

    def launched(self, call, result, cycle) -> None:
        self.seen.append(result.occupancy)
        self.ended.append(call.number)
        read = result.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
        self.hits.append(result.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"] / max(read, 1))


TWICE = """
extern "C" __global__ void twice(const int *in, int *out) {
  int sum = 0;
#pragma unroll 1
  for (int k = threadIdx.x; k < 65536; k += 1024) sum += in[k & 32767];
  out[threadIdx.x] = sum;
}
extern "C" __global__ void spin(long long cycles) {
  for (long long begin = clock64(); clock64() - begin < cycles;) {}
}"""


def test_a_preferred_carveout_is_what_a_launch_has(toolchain):
    """128 KB that one block reads twice: L1 has them, unless the kernel, or the launch, prefers shared memory."""
    calls, seen = Calls("h200", mode="detailed"), Occupancies()
    calls.driver.observers.append(seen)
    kernel = calls.kernel("twice", compile_cuda(TWICE, "sm_90"))
    values = calls.parameters(c_uint64(calls.memory(32768)), c_uint64(calls.memory(1024)))

    def launch(preference: int | None = None, shared: int = 0) -> None:
        row = calls.address(struct.pack("<i4xI60x", 14, preference or 0)), int(preference is not None)
        given = struct.pack("<7I4xQQI", 1, 1, 1, 1024, 1, 1, shared, 0, *row)
        calls.do("cuLaunchKernelEx", given, kernel, values, None)

    launch()
    launch(100)
    calls.do("cuFuncSetAttribute", kernel, 9, 100)
    launch()
    launch(0)  # it has precedence
    calls.do("cuStreamBeginCapture_v2", stream := calls.handle("cuStreamCreate", 1), 0)
    calls.do("cuLaunchKernel", kernel, 1, 1, 1, 1024, 1, 1, 0, stream, values, None)
    calls.do("cuStreamEndCapture", stream, graph := c_uint64())
    calls.do("cuFuncSetAttribute", kernel, 9, -1)
    calls.do("cuGraphLaunch", calls.handle("cuGraphInstantiateWithFlags", graph.value, 0), 0)
    launch(10, shared=1024)
    calls.do("cuCtxSynchronize")
    assert [each.l1_bytes >> 10 for each in seen.seen] == [248, 28, 28, 248, 28, 192]
    assert [round(share, 2) for share in seen.hits] == [0.5, 0, 0, 0.5, 0, 0.5]


@pytest.mark.parametrize(("preference", "ended"), [(-1, [2, 1]), (100, [2, 1]), (50, [1, 2])])
def test_a_grid_joins_no_sm_with_more_shared_memory_than_it_prefers(toolchain, preference, ended):
    """The first grid wants 228 KB on every SM; what joined one on an H200: `splits` of `validate/streams`."""
    calls, seen = Calls("h200", mode="detailed"), Occupancies()
    calls.driver.observers.append(seen)
    kernel = calls.kernel("spin", compile_cuda(TWICE, "sm_90"))
    for blocks, threads, shared, cycles in ((132, 32, 31 << 10, 30000), (1, 64, 0, 1000)):
        stream, values = calls.handle("cuStreamCreate", 1), calls.parameters(c_uint64(cycles))
        calls.do("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, shared, stream, values, None)
        calls.do("cuFuncSetAttribute", kernel, 9, preference)
    calls.do("cuCtxSynchronize")
    assert seen.ended == ended
