"""Thread blocks of collectives take room in SMs from kernels beside them, and wait for it."""

from __future__ import annotations

import sys
from ctypes import c_uint64
from types import SimpleNamespace

import pytest

from gpusim.collectives import collective
from gpusim.collectives.blocks import blocks_of
from gpusim.config import load_config, shipped_names
from gpusim.host.options import LaunchOptions
from tests.gpusim.driver_calls import Calls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
FLOAT, SUM, MOST_SHARED, NON_BLOCKING = 7, 0, 8, 1
NBYTES = 1 << 18
BESIDE = {0: False, 1_024: False, 8_192: True, 60_000: True, 110_000: True, 120_000: False, 150_000: False}
"""Whether 24 blocks of 544 threads with 96 registers each and 103,808 bytes of shared memory begin beside a block of
128 threads on every SM, by the shared bytes of that. H200, driver 580.159.04: where they do not, they begin at its end.
"""
SPIN = """
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry spin(.param .u64 cycles) {
  .reg .b64 %n, %t, %since; .reg .pred %p;
  ld.param.u64 %n, [cycles]; mov.u64 %since, %clock64;
again:
  nanosleep.u32 100; mov.u64 %t, %clock64; sub.u64 %t, %t, %since; setp.lt.u64 %p, %t, %n; @%p bra again;
  ret;
}
"""


class Pair(Calls):
    """Two GPUs, with a stream for kernels and one for collectives each."""

    def __init__(self, gpu):
        super().__init__(gpu, "libnccl.so.2", "detailed", gpus=2)
        self.sms = self.driver.config.sm.count
        self.comms, self.gpus = (c_uint64 * 2)(), []
        self.do("ncclCommInitAll", self.comms, 2, None)
        for ordinal in range(2):
            self.do("cudaSetDevice", ordinal)
            streams = [self.handle("cuStreamCreate", NON_BLOCKING) for _ in range(2)]
            self.gpus.append(SimpleNamespace(place=self.handle("cudaMalloc", NBYTES), streams=streams))
        self.sum_up()  # from the first one on, kernels share their GPU
        self.wait()

    def launch(self, ordinal, shared_bytes, cycles, stream=0):
        """A block on each SM, which is there so long."""
        self.do("cudaSetDevice", ordinal)
        kernel = self.kernel("spin", SPIN)
        self.do("cuFuncSetAttribute", kernel, MOST_SHARED, shared_bytes)
        where, values = self.gpus[ordinal].streams[stream], self.parameters(c_uint64(cycles))
        self.do("cuLaunchKernel", kernel, self.sms, 1, 1, 128, 1, 1, shared_bytes, where, values, None)

    def sum_up(self):
        self.do("ncclGroupStart")
        for comm, gpu in zip(self.comms, self.gpus, strict=True):
            self.do("ncclAllReduce", gpu.place, gpu.place, NBYTES // 4, FLOAT, SUM, comm, gpu.streams[1])
        self.do("ncclGroupEnd")

    def wait(self):
        for stream in (each for gpu in self.gpus for each in gpu.streams):
            self.do("cuStreamSynchronize", stream)

    def spans(self):
        """Of the first GPU: its last kernel's and its collective's."""
        self.wait()
        found = [each for each in self.driver.device.streams.engines.spans if each.gpu == "gpu0"]
        return [[each for each in found if each.kind == kind][-1] for kind in ("kernel", "collective")]


@pytest.mark.parametrize(("shared_bytes", "finds"), [(1_000, True), (150_000, False)])
def test_a_kernel_finds_room_beside_a_collective_if_it_leaves_enough(shared_bytes, finds):
    """An SM is divided for the first block on it, here the collective's."""
    pair = Pair("tiny")
    pair.launch(1, 20_000, 60_000, stream=1)  # the other rank comes late
    pair.sum_up()
    pair.launch(0, shared_bytes, 1_000)
    kernel, joint = pair.spans()
    if finds:
        assert joint.start < kernel.start < kernel.end < joint.end
    else:
        assert joint.end < kernel.end < joint.end + 4_000


@pytest.mark.parametrize(("shared_bytes", "finds"), BESIDE.items())
def test_a_collective_finds_room_beside_a_kernel_where_an_h200_has_it(shared_bytes, finds):
    pair = Pair("h200")
    pair.launch(0, shared_bytes, 60_000)
    pair.sum_up()
    kernel, joint = pair.spans()
    if finds:
        assert kernel.start < joint.start < kernel.start + 40_000 < kernel.end
    else:
        assert kernel.end - 1_000 < joint.start < kernel.end + 1_000


def test_every_gpu_has_room_for_a_block():
    joint = collective("all_reduce", 1 << 20, 8, "hgx_h200", algorithm="tree")
    for name in shipped_names():
        config = load_config(name)
        blocks = blocks_of(joint, config)
        assert LaunchOptions(cooperative=False).fit(config, blocks.kernel, blocks)[0].blocks_per_sm >= 1
