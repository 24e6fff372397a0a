"""What kernels ask L2 for and do not wait for, and host memory that they reach over the bus."""

import numpy as np
import pytest

import gpusim
import isa
from gpusim.launch.memory import HOST_MEMORY

SOURCE = """
extern "C" __global__ void prefetch(char* p, long lanes, int n) {
  for (char* q = p + threadIdx.x * lanes; n-- > 0; q += 4096) asm volatile("prefetch.global.L2 [%0];" :: "l"(q));
}
extern "C" __global__ void add(const unsigned* a, const unsigned* b, unsigned* c) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + b[i];
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("prefetch") / "prefetch.cubin"
    path.write_bytes(isa.compile_cuda(SOURCE))
    return lambda name: isa.load(path, name, abi="c")


def asked(program, lanes, n, nbytes):
    data = np.zeros(nbytes, np.uint8)
    return gpusim.simulate(program("prefetch"), 1, 32, (data, np.int64(lanes), np.int32(n)), threads=1).metrics


def test_a_prefetch_reads_whole_lines_into_l2(program):
    """As an H200 counts them: neither loads nor reads, four sectors a line, 8 turns of the data stage for 32 lines."""
    metrics = asked(program, 128, 32, 1 << 17)
    assert metrics["lts__t_sectors_srcunit_tex.sum"] == metrics["lts__t_sectors_srcunit_tex_lookup_miss.sum"] == 4096
    assert metrics["lts__t_sectors_srcunit_tex_op_read.sum"] == 0
    assert metrics["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 0
    assert metrics["l1tex__data_pipe_lsu_wavefronts.sum"] == pytest.approx(250, rel=0.05)
    assert metrics["dram__bytes_read.sum"] >= 1 << 17
    alike = asked(program, 0, 32, 1 << 17)
    assert alike["lts__t_sectors_srcunit_tex.sum"] == 128, "each goes to L2 anew"


def test_a_prefetch_of_nothing_does_nothing(program):
    assert asked(program, 1 << 40, 1, 128)["lts__t_sectors_srcunit_tex.sum"] == 4, "of the first lane"


def test_sums_of_arrays_in_host_memory_take_the_time_of_the_bus(program):
    """H200, 4 MiB each: 362,300 cycles under Nsight Compute, 330,200 if only the terms lie there, 162,400 if only the
    sums do."""
    count, took = 1 << 18, {}
    for where in ("hhh", "hhd", "ddh"):
        with gpusim.Device(threads=1) as device:
            owners = [HOST_MEMORY if each == "h" else None for each in where]
            a, b, c = (device.memory.alloc(4 * count, owner=each) for each in owners)
            for term in (a, b):
                device.memory.view(term, 4 * count).view(np.uint32)[:] = np.arange(count)
            result = device.launch(program("add"), count // 256, 256, tuple(np.uint64(each) for each in (a, b, c)))
            device.synchronize()
            assert (device.memory.view(c, 4 * count).view(np.uint32) == 2 * np.arange(count, dtype=np.uint32)).all()
            took[where] = result.cycles
            assert result.metrics["lts__t_sectors_srcunit_tex.sum"] == 3 * count // 8
    assert took["hhh"] == pytest.approx(362_300 / 4, rel=0.1)
    assert took["hhd"] == pytest.approx(330_200 / 4, rel=0.1)
    assert took["ddh"] == pytest.approx(162_400 / 4, rel=0.15)
