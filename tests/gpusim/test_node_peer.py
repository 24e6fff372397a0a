"""Kernels that read, write and add to the memory of another GPU."""

import json
from pathlib import Path

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim.node import NodeError, on
from tests.gpusim.kernels import Kernels

RECORDED = json.loads(
    (Path(__file__).resolve().parents[2] / "validate/node/results/kernels_2_h200.json").read_text("utf-8")
)
THREADS = 512


def chase(links, out, n):
    at = 0
    for _ in range(n):
        at = links[at]
    out[0] = at


def chase_atomic(cells, out, n):
    at = 0
    for _ in range(n):
        at = cuda.atomic.add(cells, at, 0)
    out[0] = at


#: The kernels of the recording.
RATES = Kernels(
    """
extern "C" __global__ void load4(const float* __restrict__ p, float* out, long long n) {
    float s = 0;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
        s += __ldcg(p + i);
    if (s == 12345.f) out[0] = s;
}
extern "C" __global__ void store4(float* p, float* out, long long n) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
        p[i] = 1.f;
}
extern "C" __global__ void reduce(float* p, float* out, long long n) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
        atomicAdd(p + i, 1.f);
}
""",
    "sm_90",
)


def cycles_of_a_step(kernel, make, where):
    """Cycles of one of a chain's steps: a long chain less a short one, in lines that are in L2."""
    times = []
    for steps in (64, 320):
        links = make()
        first = on("gpu1", links) if where else links
        times.append(gpusim.simulate(kernel, 1, 1, (first, np.zeros(1, links.dtype), steps)).cycles)
    return (times[1] - times[0]) / 256


def recorded_latency(kind, where):
    return next(cycles for name, place, cycles in RECORDED["latencies"] if (name, place) == (kind, where))


def recorded_rate(kind, blocks):
    return next(rate for name, where, count, _, rate in RECORDED["rates"] if (name, where, count) == (kind, 1, blocks))


def test_a_load_and_an_atomic_take_the_way_there_and_back():
    near, far = (cycles_of_a_step(chase_atomic, lambda: np.zeros(8, np.int64), where) for where in (0, 1))
    assert far == pytest.approx(recorded_latency("add_chain", 1), rel=0.05)
    assert near < far / 2
    ring = (np.arange(64) + 1) % 64 * 16  # a line each, seldom one that L1 holds: volatile loads in the recording

    def links():
        chain = np.zeros(64 * 16, np.int64)
        chain[np.arange(64) * 16] = ring
        return chain

    # The first turn of 64 finds nothing in L1, so all of it goes to the peer.
    first = gpusim.simulate(chase, 1, 1, (on("gpu1", links()), np.zeros(1, np.int64), 64)).cycles
    shorter = gpusim.simulate(chase, 1, 1, (on("gpu1", links()), np.zeros(1, np.int64), 32)).cycles
    assert (first - shorter) / 32 == pytest.approx(recorded_latency("chase", 1), rel=0.05)


@pytest.mark.parametrize(
    "kind, blocks, tolerance",
    [("load4", 1, 0.1), ("load4", 528, 0.1), ("store4", 132, 0.12),
     ("store4", 528, 0.1), ("reduce", 132, 0.1)],
)  # fmt: skip
def test_rates_are_those_of_two_h200(toolchain, kind, blocks, tolerance):
    assert rate_to_a_peer(kind, blocks) == pytest.approx(recorded_rate(kind, blocks), rel=tolerance)


def rate_to_a_peer(kind, blocks):
    """GB/s of one of `RATES`, whose array is another GPU's."""
    program = RATES[kind]
    # The rate of a long run: a longer one less a shorter one.
    sizes = [blocks * THREADS * rounds for rounds in ((8, 24) if blocks < 132 else (4, 12))]
    times = []
    for size in sizes:
        args = (on("gpu1", np.zeros(size, np.float32)), np.zeros(1, np.float32), np.int64(size))
        times.append(gpusim.simulate(program, blocks, THREADS, args).time_us)
    return (sizes[1] - sizes[0]) * 4 / (times[1] - times[0]) / 1e3


def test_what_crosses_the_links_is_counted_and_the_rest_stays():
    x, y = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)

    def copy(source, target):
        i = cuda.grid(1)
        target[i] = source[i]

    for there, read, sent in (((on("gpu1", x), y), x.nbytes, 0), ((x, on("gpu1", y)), 0, x.nbytes), ((x, y), 0, 0)):
        y[:] = 0
        result = gpusim.simulate(copy, 16, 256, there)
        assert np.array_equal(y, x)
        assert result.metrics["nvlrx__bytes_data_user.sum"] == read
        assert result.metrics["nvltx__bytes_data_user.sum"] == sent
        assert result.metrics["lts__t_sectors_srcunit_tex_op_read.sum"] == (0 if read else x.nbytes // 32)


def test_fewer_links_are_slower_and_farther_ones_later():
    def fill(x):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            x[i] = np.float32(1)

    args = (on("gpu1", np.zeros(132 * THREADS * 8, np.float32)),)
    usual = gpusim.simulate(fill, 132, THREADS, args).cycles
    third = gpusim.node.load_node("hgx_h200", overrides=["nvlink.links=6"])
    assert gpusim.simulate(fill, 132, THREADS, args, node=third).cycles > 1.3 * usual


@pytest.mark.parametrize(
    "args, node, message",
    [
        (lambda: (on("gpu9", np.zeros(4)),), "hgx_h200", "argument 0 lives on 'gpu9'; the kernel runs on gpu0"),
        (lambda: (on("gpu0", np.zeros(4)),), "hgx_h200", "its peers are gpu1"),
        (lambda: (on("gpu1", np.zeros(4)),), "pcie", "kernels read peers over NVLink only"),
        (lambda: (on("gpu1", 3.0),), "hgx_h200", "only arrays live on a GPU, not float"),
    ],
)
def test_mistakes_are_told(args, node, message):
    def nothing(x):
        x[0] = 1

    with pytest.raises(NodeError, match=message):
        gpusim.simulate(nothing, 1, 1, args(), node=node)
