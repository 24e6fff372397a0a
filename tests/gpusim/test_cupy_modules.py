"""The modules that stand in CuPy's place, without CuPy: what they import of it is made here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpusim.driver.libraries import cupy
from tests.gpusim import cuda_program
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
