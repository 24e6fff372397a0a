"""How fast thread block clusters come to the SMs, and how many lie there, beside what an H200 did.

Recorded 2026-11-29 on an H200 (driver 580.159.04, CUDA 13.0) with the kernel below, 4,224 blocks: cycles by the SM's
clock from the first block's start on it to the last one's end, in the mean of all SMs.
"""

import numpy as np
import pytest

import gpusim
import isa

SOURCE = """
__device__ unsigned now() { unsigned t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t) :: "memory"); return t; }
extern "C" __global__ void __cluster_dims__(SIZE, 1, 1) spin(int cycles, unsigned *out) {
    unsigned t = now(), sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    while (now() - t < cycles);
    if (threadIdx.x == 0) { out[blockIdx.x * 3] = t; out[blockIdx.x * 3 + 1] = now(); out[blockIdx.x * 3 + 2] = sm; }
}
"""


@pytest.mark.parametrize(
    ("size", "threads", "cycles", "measured"),
    [(2, 64, 2000, 12_580), (8, 64, 2000, 13_240), (2, 256, 0, 7_100), (4, 256, 0, 5_965), (8, 256, 0, 5_408)],
)
def test_clusters_as_measured(tmp_path, size, threads, cycles, measured):
    source = tmp_path / "spin.cu"
    source.write_text(SOURCE.replace("SIZE", str(size)))
    program = isa.load(source, "spin", abi="c")
    out = np.zeros(3 * 4224, np.uint32)
    gpusim.simulate(program, 4224, threads, (np.int32(cycles), out))
    blocks = out.reshape(-1, 3).astype(np.int64)
    spans, most = [], 0
    for sm in np.unique(blocks[:, 2]):
        start, end, _ = blocks[blocks[:, 2] == sm].T
        spans.append(end.max() - start.min())
        most = max(most, max(((start <= each) & (end > each)).sum() for each in start))
    assert most <= 8
    assert np.mean(spans) == pytest.approx(measured, rel=0.13)
