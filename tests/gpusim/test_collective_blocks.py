"""Thread blocks of collectives take room in SMs from kernels beside them, and wait for it."""

from __future__ import annotations

import sys
from ctypes import c_uint64
from types import SimpleNamespace

import pytest

from gpusim.collectives import collective
from gpusim.collectives.blocks import blocks_of
from gpusim.config import load_config, shipped_names
from gpusim.host.fitting import fit
from tests.gpusim.driver_calls import Calls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
FLOAT, SUM, MOST_SHARED, NON_BLOCKING = 7, 0, 8, 1
NBYTES = 1 << 18
LITTLE, MUCH, MOST = 1_000, 20_000, 150_000
"""Bytes of shared memory of a block. A collective's block leaves an SM room for blocks with little: the SM is divided
for the first of them. It finds some beside blocks with much, of which an SM holds several, and none beside the most."""
SPIN = """
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry spin(.param .u64 cycles) {
  .reg .b64 %n, %t, %since; .reg .pred %p;
  ld.param.u64 %n, [cycles]; mov.u64 %since, %clock64;
again:
  mov.u64 %t, %clock64; sub.u64 %t, %t, %since; setp.lt.u64 %p, %t, %n; @%p bra again;
  ret;
}
"""


class Pair(Calls):
    """Two GPUs of two SMs, with a stream for kernels and one for collectives each."""

    def __init__(self):
        super().__init__("tiny", "libnccl.so.2", "detailed", gpus=2)
        self.comms, self.gpus = (c_uint64 * 2)(), []
        self.do("ncclCommInitAll", self.comms, 2, None)
        for ordinal in range(2):
            self.do("cudaSetDevice", ordinal)
            streams = [self.handle("cuStreamCreate", NON_BLOCKING) for _ in range(2)]
            self.gpus.append(SimpleNamespace(place=self.handle("cudaMalloc", NBYTES), streams=streams))
        self.sum_up()  # from the first one on, kernels share their GPU

    def launch(self, ordinal, shared_bytes, cycles, stream=0):
        """A block on each SM, which is there so long."""
        self.do("cudaSetDevice", ordinal)
        kernel = self.kernel("spin", SPIN)
        self.do("cuFuncSetAttribute", kernel, MOST_SHARED, shared_bytes)
        where, values = self.gpus[ordinal].streams[stream], self.parameters(c_uint64(cycles))
        self.do("cuLaunchKernel", kernel, 2, 1, 1, 128, 1, 1, shared_bytes, where, values, None)

    def sum_up(self):
        self.do("ncclGroupStart")
        for comm, gpu in zip(self.comms, self.gpus, strict=True):
            self.do("ncclAllReduce", gpu.place, gpu.place, NBYTES // 4, FLOAT, SUM, comm, gpu.streams[1])
        self.do("ncclGroupEnd")

    def spans(self):
        """Of the first GPU: its last kernel's and its collective's."""
        for gpu in self.gpus:
            for stream in gpu.streams:
                self.do("cuStreamSynchronize", stream)
        found = [each for each in self.driver.device.streams.engines.spans if each.gpu == "gpu0"]
        return [[each for each in found if each.kind == kind][-1] for kind in ("kernel", "collective")]


@pytest.mark.parametrize("shared_bytes", [LITTLE, MOST])
def test_a_kernel_finds_room_beside_a_collective_if_it_leaves_enough(shared_bytes):
    pair = Pair()
    pair.launch(1, LITTLE, 60_000, stream=1)  # the other rank comes late
    pair.sum_up()
    pair.launch(0, shared_bytes, 1_000)
    kernel, joint = pair.spans()
    if shared_bytes == LITTLE:
        assert joint.start < kernel.start < kernel.end < joint.end
    else:
        assert joint.end < kernel.end < joint.end + 4_000


@pytest.mark.parametrize("shared_bytes", [MUCH, MOST])
def test_a_collective_finds_room_beside_a_kernel_if_it_leaves_enough(shared_bytes):
    pair = Pair()
    pair.launch(0, shared_bytes, 60_000)
    pair.sum_up()
    kernel, joint = pair.spans()
    if shared_bytes == MUCH:
        assert kernel.start < joint.start < kernel.end
    else:
        assert kernel.end - 1_000 < joint.start < kernel.end + 300


def test_every_gpu_has_room_for_a_block():
    joint = collective("all_reduce", 1 << 20, 8, "hgx_h200", algorithm="tree")
    for name in shipped_names():
        config = load_config(name)
        blocks = blocks_of(joint, config)
        assert fit(config, blocks.kernel, blocks, False)[0].blocks_per_sm >= 1
