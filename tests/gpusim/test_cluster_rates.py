"""How fast thread block clusters come to the SMs, and how many lie there, beside what an H200 did.

Recorded 2026-11-29 on an H200 (driver 580.159.04, CUDA 13.0) with the kernel below: cycles by the SM's clock from the
first block's start on it to the last one's end, in the mean of all SMs.
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


@pytest.fixture
def spin(tmp_path):
    """Run blocks of so many threads in clusters of `size`; return (the mean span of an SM, most blocks of one)."""

    def run(size, threads, cycles, blocks):
        source = tmp_path / "spin.cu"
        source.write_text(SOURCE.replace("SIZE", str(size)))
        out = np.zeros(3 * blocks, np.uint32)
        gpusim.simulate(isa.load(source, "spin", abi="c"), blocks, threads, (np.int32(cycles), out))
        rows = out.reshape(-1, 3).astype(np.int64)
        spans, most = [], 0
        for sm in np.unique(rows[:, 2]):
            start, end, _ = rows[rows[:, 2] == sm].T
            spans.append(end.max() - start.min())
            most = max(most, max(((start <= each) & (end > each)).sum() for each in start))
        return np.mean(spans), most

    return run


@pytest.mark.parametrize(
    ("size", "threads", "cycles", "measured"),
    [(2, 64, 2000, 12_580), (8, 64, 2000, 13_240), (2, 256, 0, 7_100), (4, 256, 0, 5_965), (8, 256, 0, 5_408)],
)
def test_clusters_as_measured(spin, size, threads, cycles, measured):
    found, most = spin(size, threads, cycles, 4224)
    assert most <= 8
    assert found == pytest.approx(measured, rel=0.13)


def test_first_clusters_as_measured_but_for_small_and_large_ones(spin):
    """Eight blocks of each SM: 528, 264 and 132 clusters, 3.2, 4.3 and 6.3 cycles apart. The known gap: those of two
    and four come too soon, as a cluster costs as much here, whether it is among the first or takes the place of
    others."""
    found = {size: spin(size, 256, 0, 1056)[0] / span for size, span in ((2, 1669), (4, 1143), (8, 846))}
    assert found[8] == pytest.approx(1, abs=0.2)
    said = "closed: turn this around, and take the row out of docs/known_gaps.md"
    assert found[2] < 0.5 and found[4] < 0.8, said
