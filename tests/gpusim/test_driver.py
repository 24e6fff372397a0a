"""The simulated driver below Numba and cuda.bindings: memory of all kinds, streams, events, errors, occupancy."""

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

def test_the_driver_describes_the_configuration():
    run("""
        from cuda.bindings import driver as cu
        from gpusim import load_config
        config = load_config("tiny")
        assert cu.cuDeviceGetCount()[0] == cu.CUresult.CUDA_ERROR_NOT_INITIALIZED
        assert cu.cuInit(0)[0] == 0
        assert cu.cuDeviceGetCount() == (0, 1)
        assert cu.cuDeviceGet(1)[0] == cu.CUresult.CUDA_ERROR_INVALID_DEVICE
        assert cu.cuDeviceGetName(100, 0)[1].split(b"\\0")[0].decode() == config.gpu.name
        get = lambda name: cu.cuDeviceGetAttribute(getattr(cu.CUdevice_attribute, "CU_DEVICE_ATTRIBUTE_" + name), 0)
        assert get("MULTIPROCESSOR_COUNT") == (0, config.sm.count)
        assert get("MAX_THREADS_PER_BLOCK") == (0, config.sm.max_threads_per_block)
        assert get("L2_CACHE_SIZE") == (0, config.l2.bytes)
        major, minor = get("COMPUTE_CAPABILITY_MAJOR")[1], get("COMPUTE_CAPABILITY_MINOR")[1]
        assert f"sm_{major}{minor}" == config.gpu.arch
        assert cu.cuDeviceTotalMem(0)[1] == config.dram.capacity_bytes
        assert cu.cuGetErrorName(cu.CUresult(700))[1] == b"CUDA_ERROR_ILLEGAL_ADDRESS"
        assert cu.cuMemAlloc(16)[0] == cu.CUresult.CUDA_ERROR_INVALID_CONTEXT
        assert cu.cuTexRefCreate()[0] == cu.CUresult.CUDA_ERROR_NOT_SUPPORTED
    """)


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
        registered = np.zeros(100000)                   # large: the host maps it above the simulated device's memory
        with cuda.mapped(registered) as device:
            add[4, 32](device, 3.0)
            cuda.synchronize()
        assert registered[99] == 3 and registered[100000 - 1] == 0
        records = np.zeros(4, np.dtype([("a", np.int32), ("b", np.float64)], align=True))
        there = cuda.to_device(records)
        view = cuda.to_device(np.arange(12, dtype=np.int32).reshape(3, 4))[1]
        assert view.copy_to_host().tolist() == [4, 5, 6, 7]
        free, total = cuda.current_context().get_memory_info()
        big = cuda.device_array(1 << 20, np.uint8)
        assert free - cuda.current_context().get_memory_info().free == 1 << 20
        assert total == driver.config.dram.capacity_bytes
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

        assert codes_of_child() == [0, 201]
        assert cu.cuInit(0)[0] == 0
        cu.cuCtxCreate(None, 0, 0)
        cu.cuMemAlloc(16)
        assert codes_of_child() == [3, 3]
        assert cu.cuMemGetInfo()[0] == 0
    """)


def test_streams_events_and_callbacks_keep_their_order():
    run("""
        import ctypes, threading
        from cuda.bindings import driver as cu
        from numba import cuda

        @cuda.jit
        def add(a, b):
            a[cuda.grid(1)] += b

        stream, first, last = cuda.stream(), cuda.event(), cuda.event()
        a = cuda.to_device(np.zeros(64), stream=stream)
        seen = []
        first.record(stream)
        add[2, 32, stream](a, 1.0)
        last.record(stream)
        note = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: seen.append((data, threading.get_ident())))
        address = ctypes.cast(note, ctypes.c_void_p).value
        for number in (5, 6):
            assert cu.cuLaunchHostFunc(int(stream.handle), cu.CUhostFn(address), number)[0] == 0
        stream.synchronize()
        assert [data for data, _ in seen] == [5, 6]
        assert seen[0][1] != threading.get_ident()
        cycles = next(iter(driver.log.groups.values())).cycles
        expected = driver.config.time_us(cycles) / 1000
        event_ms = driver.config.time_us(driver.config.launch.event_cycles) / 1000  # the first one takes this as well
        assert expected <= cuda.event_elapsed_time(first, last) - event_ms < expected + 0.003
        assert (a.copy_to_host(stream=stream) == 1).all()
    """)


def test_a_kernel_that_fails_spoils_its_context_until_it_is_reset():
    done = run("""
        from cuda.bindings import driver as cu
        from numba import cuda
        from numba.cuda.cudadrv.driver import CudaAPIError

        @cuda.jit
        def beyond(a):
            a[cuda.grid(1) + 70] = 1

        a = cuda.device_array(64, np.float32)
        beyond[1, 32](a)
        for call in (cuda.synchronize, lambda: cuda.device_array(4), a.copy_to_host):
            try:
                call()
            except CudaAPIError as error:
                assert error.code == 700, error
            else:
                raise AssertionError("no error")
        assert cu.cuDevicePrimaryCtxReset(0)[0] == 0
        error, address = cu.cuMemAlloc(64)
        assert error == 0
    """)
    assert "out of bounds: global write of 4 bytes" in done.stderr
    assert "thread (0, 0, 0)" in done.stderr
    assert "'device allocation 1'" in done.stderr


def test_launches_that_no_gpu_takes_are_refused():
    run("""
        from cuda.bindings import driver as cu
        from numba import cuda
        from numba.cuda.cudadrv.driver import CudaAPIError

        @cuda.jit
        def nothing():
            pass

        for configuration in ((1, 2048), (1, 32, 0, 1 << 20)):
            try:
                nothing[configuration]()
            except Exception as error:
                assert "INVALID_VALUE" in str(error) or "invalid" in str(error).lower(), error
            else:
                raise AssertionError(configuration)
        nothing[1, 32]()
        cuda.synchronize()
        assert sum(group.calls for group in driver.log.groups.values()) == 1
    """)


def test_occupancy_is_that_of_the_calculator():
    run("""
        from numba import cuda
        from gpusim.launch.occupancy import occupancy

        @cuda.jit("void(float32[::1])")
        def kernel(a):
            shared = cuda.shared.array(1024, np.float32)
            shared[cuda.threadIdx.x] = a[cuda.threadIdx.x]
            cuda.syncthreads()
            a[cuda.threadIdx.x] = shared[cuda.threadIdx.x ^ 1]

        compiled = next(iter(kernel.overloads.values()))
        context = cuda.current_context()
        handle = compiled._codelibrary.get_cufunc()
        assert handle.attrs.shared == 4096
        for threads in (32, 128, 1024):
            expected = occupancy(driver.config, threads, handle.attrs.regs, 4096).blocks_per_sm
            assert context.get_active_blocks_per_multiprocessor(handle, threads, 0) == expected
        assert compiled.max_cooperative_grid_blocks(128) == driver.config.sm.count * (
            occupancy(driver.config, 128, handle.attrs.regs, 4096).blocks_per_sm
        )
    """)


def test_a_launch_says_how_many_blocks_form_a_cluster():
    run("""
        from cuda.bindings import driver as cu
        from isa import compile_cuda

        source = '''
        #include <cooperative_groups.h>
        extern "C" __global__ void ranks(unsigned *out) {
          auto cluster = cooperative_groups::this_cluster();
          __shared__ unsigned mine;
          mine = 100 + blockIdx.x;
          cluster.sync();
          out[blockIdx.x] = cluster.block_rank() << 8 | *cluster.map_shared_rank(&mine, 0);
          cluster.sync();
        }'''
        assert cu.cuInit(0)[0] == 0
        assert cu.cuCtxCreate(None, 0, 0)[0] == 0
        error, module = cu.cuModuleLoadData(compile_cuda(source, driver.config.gpu.arch))
        error, kernel = cu.cuModuleGetFunction(module, b"ranks")
        error, out = cu.cuMemAlloc(32)

        def launch(blocks, size):
            config, attribute = cu.CUlaunchConfig(), cu.CUlaunchAttribute()
            config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
            config.blockDimX = config.blockDimY = config.blockDimZ = 1
            attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = size, 1, 1
            config.attrs, config.numAttrs = [attribute], 1
            value = np.array([int(out)], np.uint64)
            pointers = np.array([value.ctypes.data], np.uint64)
            return int(cu.cuLaunchKernelEx(config, kernel, int(pointers.ctypes.data), 0)[0])

        found = np.zeros(8, np.uint32)
        for size in (1, 2, 4):
            assert launch(8, size) == 0
            cu.cuMemcpyDtoH(found.ctypes.data, out, 32)
            block = np.arange(8)
            assert found.tolist() == (block % size << 8 | 100 + block // size * size).tolist(), (size, found)
        assert launch(7, 2) == 912 and launch(8, 0) == 912
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
