"""The simulated driver below Numba and cuda.bindings: memory of all kinds, errors, forks, threads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

from tests.forks import ROOT
from tests.gpusim.driver_program import run

pytest.importorskip("cuda.bindings")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")


def test_memory_of_every_kind_reaches_kernels_and_host():
    run("""
        from numba import cuda

        @cuda.jit
        def add(a, b):
            i = cuda.grid(1)
            if i < a.size:
                a[i] += b

        host = np.arange(100.0)
        add[4, 32](host, 1.0)                           # copied there and back
        np.testing.assert_array_equal(host, np.arange(100.0) + 1)
        mapped, managed = cuda.mapped_array(100), cuda.managed_array(100)
        for array in (mapped, managed):
            array[:] = 2
            add[4, 32](array, 0.5)
            cuda.synchronize()
            assert (np.asarray(array) == 2.5).all()
        pinned = cuda.pinned_array(100)
        pinned[:] = 7
        there = cuda.to_device(pinned)
        add[4, 32](there, 1.0)
        there.copy_to_host(pinned)
        assert (pinned == 8).all()
        # Above 32 MB the C library maps it, above the simulated device's memory, whatever was freed before.
        registered = np.zeros(5_000_000)[:100000]
        with cuda.mapped(registered) as device:
            add[4, 32](device, 3.0)
            cuda.synchronize()
        assert registered[99] == 3 and registered[100000 - 1] == 0
    """)


def test_a_forked_process_cannot_use_what_its_parent_initialized():
    run("""
        import os
        from cuda.bindings import driver as cu

        def codes_of_child():
            reader, writer = os.pipe()
            if os.fork() == 0:
                os.write(writer, bytes([int(cu.cuInit(0)[0]), int(cu.cuMemGetInfo()[0])]))
                os._exit(0)
            os.wait()
            return list(os.read(reader, 2))

        assert cu.cuDeviceGetCount()[0] == 3
        assert codes_of_child() == [0, 201]
        assert cu.cuInit(0)[0] == 0 and cu.cuDeviceGetCount() == (0, 1) and cu.cuDeviceGet(1)[0] == 101
        assert cu.cuMemAlloc(16)[0] == 201
        cu.cuCtxCreate(None, 0, 0)
        cu.cuMemAlloc(16)
        assert codes_of_child() == [3, 3]
        assert cu.cuMemGetInfo()[0] == 0
    """)


def test_a_driver_in_use_is_not_replaced(tmp_path):
    run("""
        from numba import cuda
        from gpusim.errors import SimulationError

        cuda.to_device(np.ones(4))
        try:
            gpusim.driver.numba_cuda.install("a100")
        except SimulationError as error:
            assert "in use" in str(error)
        else:
            raise AssertionError
    """)
    code = """
        import ctypes, gpusim.driver.elf as elf, platform, sys, gpusim.driver.numba_cuda
        open(sys.argv[1], "wb").write(elf.stub_library(["cuInit"], platform.machine(), "libcuda.so.1"))
        ctypes.CDLL(sys.argv[1])
        gpusim.driver.numba_cuda.install()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "other.so")],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=60,
    )
    assert "has a CUDA driver already" in done.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_thread_that_c_made_keeps_its_last_error(tmp_path):
    """Python knows such a thread in one call only, as those in which PyTorch goes backward."""
    (tmp_path / "thread.c").write_text("""
        #include <pthread.h>
        int cudaMalloc(void **place, unsigned long bytes);
        long cudaGetLastError(void);
        static void *work(void *unused) {
            void *place;
            cudaMalloc(&place, 1ul << 60);
            return (void *)cudaGetLastError();
        }
        long run(void) {
            pthread_t thread;
            void *error;
            pthread_create(&thread, 0, work, 0);
            pthread_join(thread, &error);
            return (long)error;
        }
    """)
    library = tmp_path / "libthread.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "thread.c", "-pthread"], check=True)
    run(f"""
        import ctypes
        assert ctypes.CDLL("{library}").run() == 2      # cudaErrorMemoryAllocation
    """)
