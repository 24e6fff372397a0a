"""What a launch costs the host beside the simulation: a thousand of one kernel decode and lower once."""

from __future__ import annotations

import sys

import pytest

from tests.gpusim.driver_program import run

pytest.importorskip("cuda.bindings")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")

# A kernel that reads a constant variable, and many instructions that nobody executes.
PROGRAM = """
    import collections, ctypes, sys
    import isa
    from cuda.bindings import driver as cu
    MODE = {mode!r}
    driver = gpusim.driver.numba_cuda.install("tiny", threads=1, mode=MODE)
    counts = collections.Counter()
    def count(module, name):
        real = getattr(sys.modules[module], name)
        def counted(*arguments, **named):
            counts[name] += 1
            return real(*arguments, **named)
        setattr(sys.modules[module], name, counted)
    import gpusim.device
    count("gpusim.launch.module", "program_from_cubin")
    count("gpusim.engine.retime", "lower")
    count("gpusim.host.launch_run", "prepare_core")
    count("gpusim.engine.launch_state", "checked_code")

    def ok(answer):
        assert answer[0] == 0, answer
        return answer[1] if len(answer) == 2 else answer[1:]

    unused = " ".join(f"x = x * y + {{k}}; y = __sinf(y) * x - {{k}}.25f; a[{{k}}] = x + y;" for k in range(600))
    cubin = isa.compile_cuda('''
        __constant__ float factor = 2, table[1000];
        extern "C" __global__ void scale(float *a, float b) {{
          a[threadIdx.x] += b * factor;
          if (b == 12345) {{ float x = a[0], y = b + table[threadIdx.x]; ''' + unused + '''}}
        }}''')
    ok(cu.cuInit(0))
    ok(cu.cuCtxSetCurrent(ok(cu.cuDevicePrimaryCtxRetain(0))))
    module = ok(cu.cuModuleLoadData(cubin))
    kernel = ok(cu.cuModuleGetFunction(module, b"scale"))
    factor, _ = ok(cu.cuModuleGetGlobal(module, b"factor"))
    there = ok(cu.cuMemAlloc(4096))
    ok(cu.cuMemsetD32(there, 0, 32))
    host, three = np.zeros(32, np.float32), np.full(1, 3, np.float32)

    def launch(b):
        arguments = (int(there), b), (ctypes.c_void_p, ctypes.c_float)
        ok((*cu.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0), 0))

    launch(1.0)
    for k in range(1, 1000):
        if k == 500:
            ok((*cu.cuMemcpyHtoD(factor, three.ctypes.data, 4), 0))
        launch(1.0)
    assert len(counts) == 4 and set(counts.values()) == {{1}}, counts
    ok((*cu.cuMemcpyDtoH(host.ctypes.data, there, 128), 0))
    assert (host == 500 * 2 + 500 * 3).all()
    (group,) = driver.log.groups.values()
    assert group.calls == 1000 and group.instructions > 1000
    assert (group.limiter is None) == (MODE == "functional")
"""


@pytest.mark.parametrize("mode", ["detailed", "functional"])
def test_a_thousand_launches(mode: str) -> None:
    run(PROGRAM.format(mode=mode))
