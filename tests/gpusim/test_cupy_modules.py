"""The modules that stand in CuPy's place, without CuPy: what they import of it is made here."""

from __future__ import annotations

import math
import runpy
import sys
from ctypes import c_bool, c_uint8, c_uint32, c_uint64
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from gpusim.driver.libraries import cupy
from isa import compile_cuda
from tests.gpusim import cuda_program
from tests.gpusim.driver_calls import Calls
from tests.gpusim.driver_program import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
HEAD = """
import sys, types
for name in ("", ".cuda", ".cuda.api", ".cuda.libs"):
    sys.modules["cupy_backends" + name] = package = types.ModuleType("cupy_backends" + name)
    package.__path__ = []
enum = sys.modules["cupy_backends.cuda.api._runtime_enum"] = types.ModuleType("_runtime_enum")
sys.modules["cupy_backends.cuda.api"]._runtime_enum = enum
for name, value in dict(ClockRate=13, KernelExecTimeout=17, MemoryClockRate=36, ComputeMode=20, GpuOverlap=15,
                        MaxTexture1DLinearWidth=69, SingleToDoublePrecisionPerfRatio=87).items():
    setattr(enum, f"cudaDevAttr{name}", value)
enum.cudaMemLocationTypeDevice = 1
from cupy_backends.cuda.api import runtime
"""


def test_a_served_program_has_them_without_the_driver():
    """Which takes longer to import than CuPy."""
    loaded = 'assert not {"numba", "pydantic", "gpusim.config", "gpusim.driver.registry"} & set(sys.modules)\n'
    done = cuda_program.run(sys.executable, "-c", HEAD + FUNCTIONS + loaded)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


FUNCTIONS = """
import ctypes
assert runtime.__file__.endswith("gpusim/driver/libraries/cupy/runtime.py")
before = runtime.memGetInfo()
address = runtime.malloc(1 << 20)
assert before[0] - runtime.memGetInfo()[0] >= 1 << 20 and runtime.memGetInfo()[1] == before[1]
runtime.memset(address, 7, 4)
found = ctypes.c_uint()
runtime.memcpy(ctypes.addressof(found), address, 4, runtime.memcpyDeviceToHost)
assert found.value == 0x07070707
known = runtime.pointerGetAttributes(address)
assert (known.device, known.devicePointer, known.type) == (0, address, runtime.memoryTypeDevice)
runtime.free(address)
assert runtime.memGetInfo() == before
try:
    runtime.free(12345)
except runtime.CUDARuntimeError as error:
    assert error.status == 1 and "cudaErrorInvalidValue" in str(error)
else:
    assert False
stream = runtime.streamCreateWithFlags(runtime.streamNonBlocking)
assert runtime.streamGetFlags(stream) == 1 and runtime.streamGetPriority(stream) == 0
runtime.streamBeginCapture(stream)
assert runtime.streamIsCapturing(stream)
runtime.graphDestroy(runtime.streamEndCapture(stream))
pool = runtime.deviceGetDefaultMemPool(0)
runtime.memPoolSetAttribute(pool, 4, 0.5 * (1 << 30))  # as `MemoryAsyncPool.set_limit` gives a fraction
assert runtime.memPoolGetAttribute(pool, 4) == 1 << 29
from cupy_backends.cuda.libs import curand
assert str(curand.CURANDError(100)) == "CURAND_STATUS_VERSION_MISMATCH"
properties = runtime.getDeviceProperties(0)
assert properties["multiProcessorCount"] == 2 and properties["clockRate"] > 0
assert "intptr_t (size_t, int __pyx_skip_dispatch)" in str(runtime.__pyx_capi__["malloc"])
"""


def test_products_of_matrices():
    """A name is looked for in the stand-in for cuBLAS when it is first asked for."""
    run(
        HEAD
        + """
import numpy as np
module = types.ModuleType("cupy.cuda")
module.get_current_stream = lambda: types.SimpleNamespace(ptr=0)
sys.modules["cupy"], sys.modules["cupy.cuda"] = types.ModuleType("cupy"), module
from cupy_backends.cuda.libs import cublas
a, x, y, one = (np.asfortranarray(each, np.float32) for each in ([[1, 2], [3, 4]], [5, 6], [0, 0], 1))
places = [runtime.malloc(64) for _ in range(3)]
for place, each in zip(places, (a, x, y)):
    runtime.memcpy(place, each.ctypes.data, each.nbytes, runtime.memcpyHostToDevice)
handle = cublas.create()
assert cublas.getPointerMode(handle) == cublas.CUBLAS_POINTER_MODE_HOST and cublas.getStream(handle) == 0
at, zero = one.ctypes.data, y.ctypes.data
cublas.sgemv(handle, cublas.CUBLAS_OP_N, 2, 2, at, places[0], 2, places[1], 1, zero, places[2], 1)
runtime.memcpy(y.ctypes.data, places[2], y.nbytes, runtime.memcpyDeviceToHost)
assert (y == a @ x).all()
cublas.gemmEx(handle, 0, 0, 2, 1, 2, at, places[0], 0, 2, places[1], 0, 2, at, places[2], 0, 2, 0, -1)
runtime.memcpy(y.ctypes.data, places[2], y.nbytes, runtime.memcpyDeviceToHost)
assert (y == 2 * (a @ x)).all()
try:
    cublas.ssyr2k(handle)
except cublas.CUBLASError as error:
    assert str(error) == "CUBLAS_STATUS_NOT_SUPPORTED"
else:
    assert False
assert not hasattr(cublas, "nonsense")
cublas.destroy(handle)
"""
    )


def test_a_source_that_jitify_cannot_compile():
    """Its error is Jitify's, which CuPy tells from NVRTC's."""
    run(
        HEAD
        + """
sys.modules["cupy"], sys.modules["cupy.cuda"] = types.ModuleType("cupy"), types.ModuleType("cupy.cuda")
sys.modules["cupy.cuda"].__path__, destroyed = [], []
nvrtc = sys.modules["cupy_backends.cuda.libs.nvrtc"] = types.ModuleType("nvrtc")
sys.modules["cupy_backends.cuda.libs"].nvrtc, nvrtc.NVRTCError = nvrtc, ArithmeticError
nvrtc.createProgram = lambda source, name, headers, names: (source, name)
nvrtc.compileProgram = lambda program, options: 1 / ("#error" not in program[0])
nvrtc.getProgramLog, nvrtc.destroyProgram = " in ".join, destroyed.append
from cupy.cuda import jitify
assert jitify.jitify("k.cu\\nint x;", ("-I.",)) == ("k.cu", ("-I.", "--device-as-default-execution-space"), (), ())
try:
    jitify.jitify("k.cu\\n#error", ())
except RuntimeError as error:
    assert str(error) == "#error in k.cu"
else:
    assert False
assert destroyed == [("int x;", "k.cu"), ("#error", "k.cu")]
"""
    )


def test_calls_of_curand_go_on_where_the_last_one_ended():
    """So that numbers do not depend on how many are asked for at once."""
    run(
        HEAD
        + """
cupy = sys.modules["cupy"] = types.ModuleType("cupy")
cupy.cuda = types.SimpleNamespace(
    get_current_stream=lambda: types.SimpleNamespace(ptr=0), MemoryPointer=lambda memory, offset: memory,
    UnownedMemory=lambda address, size, owner, device: None)  # an address that is 0 has no device to be looked up
cupy.ndarray, cupy.asarray = lambda shape, dtype, memory: shape, lambda given: types.SimpleNamespace(data=given)
import gpusim.driver.libraries.cupy as package
package.random_streams, drawn = types.ModuleType("random_streams"), []
package.random_streams.states = lambda kind, seed, count: types.SimpleNamespace(ptr=(kind, seed))
package.random_streams.draw = lambda kind, states, count, results, expression, begin: drawn.append(
    (states, results, begin))
from cupy_backends.cuda.libs import curand
handle = curand.createGenerator(curand.CURAND_RNG_PSEUDO_PHILOX4_32_10)
for seed in 3, 4:
    curand.setPseudoRandomGeneratorSeed(handle, seed)
    curand.generate(handle, 64, 5000)
    curand.generateUniform(handle, 0, 0)
    curand.generateUniform(handle, 64, 2)
    curand.generate(handle, 64, 1)
calls = [((5000,), 0), ((0,), 5000), ((2,), 5000), ((1,), 5002)]
assert drawn == [(("Philox", seed), *each) for seed in (3, 4) for each in calls]
"""
    )


DRAWS = """
#include <cstdio>
#include <cstring>
#include "random.cu"
int main() {
    State made[5] = {}, *states;
    for (unsigned i = 0; i < 5; ++i) made[i].sum = 100 * i, made[i].v[4] = i + 1;
    unsigned found[2][12], *results;
    cudaMalloc(&states, sizeof made);
    cudaMalloc(&results, sizeof found[0]);
    for (int first : {12, 7}) {  // results of a call; the others are another's
        cudaMemcpy(states, made, sizeof made, cudaMemcpyHostToDevice);
        draw<<<1, 32>>>(states, 5, results, first, 0, 0, 0, 0, 0, 0);
        draw<<<1, 32>>>(states, 5, results + first, 12 - first, 0, 0, 0, 0, 0, first);
        cudaMemcpy(found[first == 12], results, sizeof found[0], cudaMemcpyDeviceToHost);
    }
    printf("%d %d\\n", memcmp(found[0], found[1], sizeof found[0]), found[0][7] != found[0][2]);
}
"""


def test_results_of_two_draws_are_those_of_one(tmp_path):
    (tmp_path / "draws.cu").write_text(DRAWS)
    macros = "-DSTATE=Xorwow", "-DOUT=unsigned", "-DDRAW=s.next()", f"-I{Path(cupy.__file__).parent}"
    made = cuda_program.build(tmp_path / "draws.cu", tmp_path / "draws", *macros)
    assert cuda_program.run(made).stdout == "0 1\n"


class Array:
    """What the modules use of an array of CuPy's, in the memory of `calls`."""

    calls: Calls

    def __init__(self, given, address=None):
        self.shape, self.dtype, self.size, self.itemsize = given.shape, given.dtype, given.size, given.itemsize
        self.address = address
        if address is None:
            self.address = self.calls.handle("cuMemAlloc_v2", max(given.nbytes, 1))
            content = (c_uint8 * given.nbytes).from_buffer_copy(given.tobytes())
            self.calls.do("cuMemcpyHtoD_v2", self.address, content, given.nbytes)
        self.data = SimpleNamespace(ptr=self.address)

    def __getitem__(self, index):
        """A row, or all from an element on."""
        stride = self.itemsize * math.prod(self.shape[1:])
        start = index.start if isinstance(index, slice) else index
        return Array(np.empty(self.shape[1:], self.dtype), self.address + start * stride)

    def fill(self, _zero):
        self.calls.do("cuMemsetD8_v2", self.address, 0, self.size * self.itemsize)

    def get(self):
        content = (c_uint8 * (self.size * self.itemsize))()
        self.calls.do("cuMemcpyDtoH_v2", content, self.address, len(content))
        return np.frombuffer(content, self.dtype).reshape(self.shape)


@pytest.fixture(scope="module")
def loaded():
    """Load a module in the place of one of CuPy's, with the functions of CuPy's that it calls."""
    calls = Array.calls = Calls()
    made = {}

    def function(name, code, options):
        if (code, options) not in made:
            made[code, options] = calls.handle("cuModuleLoadData", compile_cuda(code, options=options))
        kernel = calls.handle("cuModuleGetFunction", made[code, options], name)

        def launch(grid, block, arguments, shared_mem=0):
            given = (each.address if isinstance(each, Array) else each for each in arguments)
            kinds = {bool: c_bool, np.int32: c_uint32, np.uint32: c_uint32}
            values = calls.parameters(*(kinds.get(type(each), c_uint64)(int(each)) for each in given))
            calls.do("cuLaunchKernel", kernel, *grid, 1, 1, *block, 1, 1, shared_mem, 0, values, None)

        return launch

    fake, scalar = ModuleType("cupy"), ModuleType("cupy._core._scalar")
    fake.RawKernel = lambda code, name, options: function(name, code, options)
    fake.RawModule = lambda code, options: SimpleNamespace(get_function=lambda name: function(name, code, options))
    fake.zeros = lambda shape, dtype: Array(np.zeros(shape, dtype))
    fake.empty = lambda shape, dtype: Array(np.full(shape, 77, dtype))
    fake.ascontiguousarray = lambda array: array

    def copy(to, source, count, *_how):
        calls.do("cuMemcpyDtoD_v2", to, source, count)

    runtime = SimpleNamespace(memcpyAsync=copy)
    fake.cuda = SimpleNamespace(runtime=runtime, get_current_stream=lambda: SimpleNamespace(ptr=0))
    scalar.get_typename = lambda dtype: {"f": "float", "l": "long long"}[dtype.char]

    def load(name):
        with pytest.MonkeyPatch.context() as patch:
            for module in (fake, ModuleType("cupy._core"), scalar):
                patch.setitem(sys.modules, module.__name__, module)
            return SimpleNamespace(**runpy.run_path(str(Path(cupy.__file__).with_name(name))))

    yield load
    del Array.calls


def mixed(dtype, shape):
    """Numbers in no order, some of them equal; of floating-point ones some are zeros of both signs, or no numbers."""
    rng = np.random.default_rng(math.prod(shape))
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    values = (8 * rng.standard_normal((*shape, 2))).astype(np.float16).astype(np.float32)
    for place, each in enumerate((np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0)):
        values[rng.random(values.shape) < 0.02 * (1 + place)] = each
    return values.view(dtype)[..., 0]


@pytest.mark.parametrize(("dtype", "shape"), [
    ("f", (0,)), ("f", (1,)), ("f", (50, 33)), ("f", (3, 700)), ("f", (2, 7000)), ("f", (14001,)), ("B", (9001,)),
])  # fmt: skip
def test_rows_are_sorted_as_by_numpy(loaded, dtype, shape):
    """Within a block, or by blocks that tell each other. Zeros of both signs stay in the order that they had."""
    given = mixed(dtype, shape)
    array = Array(given)
    loaded("thrust.py").sort(given.dtype, array.data.ptr, 0, shape)
    expected = np.take_along_axis(given, np.argsort(given, kind="stable"), -1)
    assert array.get().tobytes() == expected.tobytes()


@pytest.mark.parametrize("shape", [(30, 50), (300,), (2, 5000)])
def test_complex_numbers_are_ordered_by_both_parts(loaded, shape):
    given = mixed(np.complex64, shape)
    order = Array(np.empty(shape, np.int64))
    loaded("thrust.py").argsort(given.dtype, order.data.ptr, Array(given).data.ptr, 0, shape)
    assert (order.get() == np.argsort(given, kind="stable")).all()


@pytest.mark.parametrize("count", [10, 6001])
def test_the_last_key_decides_first(loaded, count):
    given = mixed(np.int8, (3, count)) - np.int8(50)
    order = Array(np.empty(count, np.int64))
    loaded("thrust.py").lexsort(given.dtype, order.data.ptr, Array(given).data.ptr, 3, count)
    assert (order.get() == np.lexsort(given)).all()


def test_dtypes_that_cannot_be_sorted(loaded):
    thrust = loaded("thrust.py")
    with pytest.raises(NotImplementedError, match="not supported"):
        thrust.sort(np.longdouble, 0, 0, (2,))
    with pytest.raises(TypeError, match="not supported"):
        thrust.lexsort(np.longdouble, 0, 0, 1, 2)


@pytest.mark.parametrize("bins", [64, 3000])
def test_histograms_are_those_of_numpy(loaded, bins):
    """In shared memory, or where that has no room for all bins. The last edge is not part of the last bin."""
    values, edges = mixed("f", (20000,)), np.linspace(-20, 20, bins + 1, dtype=np.float32)
    counts = Array(np.full(bins, 5, np.int64))
    assert loaded("cub.py").cub_histogram(Array(values), counts, Array(edges)) is counts
    assert (counts.get() == np.histogram(values[values < 20], edges)[0]).all()


def test_whole_numbers_are_counted(loaded):
    """Those that are no bin are not."""
    values, counts = np.random.default_rng(0).integers(-3, 75, 5000), Array(np.full(70, 5, np.int64))
    loaded("cub.py").cub_histogram(Array(values), counts, 71)
    assert (counts.get() == np.bincount(values[(values >= 0) & (values < 70)], minlength=70)).all()
