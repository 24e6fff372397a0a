"""Counters of asynchronous copies (LDGSTS) as Nsight Compute has them: 124 copies of one warp recorded on an H200."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gpusim
import isa

RECORDING = json.loads((Path(__file__).parent / "data/h200_async_copies.json").read_text())

KERNEL = """
.version 8.4
.target sm_90
.address_size 64
.visible .entry copy(.param .u64 data, .param .u64 from, .param .u64 to, .param .u64 out, .param .u32 mask) {
  .reg .b64 %rd<10>; .reg .b32 %r<10>; .reg .pred %p<3>;
  .shared .align 128 .b8 buffer[32768];
  ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [from]; ld.param.u64 %rd3, [to]; ld.param.u64 %rd7, [out];
  ld.param.u32 %r5, [mask];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 4;
  add.u64 %rd2, %rd2, %rd4; add.u64 %rd3, %rd3, %rd4; add.u64 %rd7, %rd7, %rd4;
  ld.global.u32 %r2, [%rd2]; ld.global.u32 %r3, [%rd3];
  cvt.u64.u32 %rd5, %r2; add.u64 %rd6, %rd1, %rd5;
  mov.u32 %r4, buffer; add.u32 %r4, %r4, %r3;
  shr.u32 %r6, %r5, %r1; and.b32 %r6, %r6, 1; setp.ne.u32 %p1, %r6, 0;
  @%p1 cp.async.OPERATOR.shared.global [%r4], [%rd6], SIZE;
  cp.async.commit_group; cp.async.wait_group 0;
  bar.sync 0;
  ld.shared.u32 %r7, [%r4]; st.global.u32 [%rd7], %r7;
  ret;
}
"""

#: Copies to random places: in how many turns words of several conflicts are moved, and which sectors of shared memory
#: that several lanes write count once, is not known.
UNKNOWN = {
    *(("ca4", name) for name in ("rand1", "rand3", "rand4")),
    *(("ca8", name) for name in ("rand0", "rand1", "rand3", "rand4")),
    *(("ca16", name) for name in ("rand0", "rand4", "rand5")),
    *(("cg16", name) for name in ("rand0", "rand1", "rand2", "rand3", "rand4")),
}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    made = {}
    for operator, size in {(each["operator"], each["size"]) for each in RECORDING["copies"]}:
        path = tmp_path_factory.mktemp("copies") / f"{operator}{size}.ptx"
        path.write_text(KERNEL.replace("OPERATOR", operator).replace("SIZE", str(size)))
        made[operator, size] = isa.load(path, abi="c")
    return made


def test_a_copy_counts_as_on_the_hardware(kernels):
    data = np.arange(1 << 18, dtype=np.uint32)
    differing = set()
    for each in RECORDING["copies"]:
        source, target = (np.array(each[name], np.uint32) for name in ("source", "target"))
        out = np.zeros(32, np.uint32)
        args = [data, source, target, out, np.uint32(each["mask"])]
        metrics = gpusim.simulate(kernels[each["operator"], each["size"]], 1, 32, args, "h200").metrics
        if [metrics[name] for name in RECORDING["metrics"]] != each["counters"]:
            differing.add((f"{each['operator']}{each['size']}", each["name"]))
    assert differing == UNKNOWN
