"""Times of tensor memory: a tensor core that takes products in order, operands that come from shared memory, pairs, and
the ports of loads. Kernels are those of the published measurements (`validate/published.cu`)."""

import numpy as np
import pytest

from gpusim.config.derived import peak_operations_per_s
from gpusim.result import Result
from validate.published import _Bench, _programs

SMALL = ("sm.count=2", "sm.gpcs=1")


def batch(text, *overrides):
    """Cycles of each of a batch of products, or of a single one with its commit and wait."""
    return _Bench("b200", (*SMALL, *overrides)).batch(text, "cycles")


def whole(text, *overrides):
    """Cycles of a batch."""
    return batch(text, *overrides) * int(text.split()[-1])


def each(text, *overrides):
    """Cycles that eight more products of a batch take, each."""
    kind, count = text.rsplit(" ", 1)
    return (whole(f"{kind} {int(count) + 8}", *overrides) - whole(text, *overrides)) / 8


def test_a_product_waits_for_those_before_it():
    """N / 2 cycles, and the whole of the latency once."""
    assert each("f16 128x128 8") == pytest.approx(64, abs=0.5)
    assert each("f16 128x128 8", "tensor_memory.columns_per_cycle=1") == pytest.approx(128, abs=0.5)
    late = whole("f16 128x128 8", "tensor_memory.product_latency_cycles=400") - whole("f16 128x128 8")
    usual = 400 - _Bench("b200", SMALL).config.tensor_memory.product_latency_cycles
    assert late == pytest.approx(usual, abs=5)


@pytest.mark.parametrize("kind", ["tf32", "f16", "i8", "f8", "nvf4"])
def test_all_kinds_take_as_long_of_32_bytes_along_k(kind):
    assert each(f"{kind} 128x128 8") == pytest.approx(64, abs=0.5)


def test_operands_come_from_shared_memory():
    """4 KiB of A and 2 KiB of B for 32 cycles of columns; with structured sparsity twice as much of B."""
    assert each("f16 128x64 8") == pytest.approx(48, abs=0.5)
    assert each("f16 128x64 8", "tensor_memory.shared_bytes_per_cycle=256") == pytest.approx(32, abs=0.5)
    assert each("f16 128x64 ts 8") == pytest.approx(32, abs=0.5), "only B"
    assert each("f16 64x64 8") == pytest.approx(32, abs=0.5), "half of A; half of the rows save no time"
    assert each("f8_sparse 128x256 8") == pytest.approx(160, abs=0.5)


def test_one_alone_waits_for_all_of_a():
    in_memory = batch("f16 128x64 ts 1")
    assert batch("f16 128x64 1") - in_memory == pytest.approx(32, abs=2)
    assert batch("f16 64x64 1") - in_memory == pytest.approx(16, abs=2)


def test_a_pair_reads_half_of_b_each():
    assert each("f16 256x64 pair 24") == pytest.approx(40, abs=1), "48 without one"
    assert each("f16 128x128 pair 24") == pytest.approx(32, abs=1), "64 rows each, whose columns both halves share"


def test_copies_take_turns_with_products():
    assert each("copy 128x16 8") == pytest.approx(64, abs=0.5)
    assert each("copy 128x16 8", "tensor_memory.copy_bytes_per_cycle=128") == pytest.approx(32, abs=0.5)


def move(name, threads, *overrides):
    return _Bench("b200", (*SMALL, *overrides)).per_round(name, threads, 1)


def test_warps_of_a_sub_partition_share_its_port():
    """Sixteen registers of 128 bytes at 32 bytes a cycle: 64 cycles for each of two warps that load at once."""
    slow = "tensor_memory.port_bytes_per_cycle=32"
    one = move("load_32x32", 128, slow)
    assert one - move("load_32x32", 128) == pytest.approx(64 - 10, abs=1)
    assert one == pytest.approx(move("load_32x32", 32, slow), abs=2), "four warps, four ports"
    assert move("load_32x32", 256, slow) == pytest.approx(2 * 64, abs=8)
    stored = move("store_64", 128, slow) - move("store_16", 128, slow)
    assert stored / 8 == pytest.approx(3 * 64, abs=3), "eight of each, which are waited for"


def run(name, rounds, depth, descriptor, gpu="b200"):
    bench, out = _Bench(gpu, SMALL), np.zeros(4, np.uint32)
    args = np.int32(rounds), np.int32(depth), np.uint32(descriptor), out
    return Result(bench._device().launch(_programs(bench.config.gpu.arch)[name], 1, 128, args).record)


@pytest.mark.parametrize(("name", "kind", "bits"), [("f16", "16-bit", 1 << 4), ("tf32", "32-bit", 0x910)])
def test_operations_and_energy_of_products(name, kind, bits):
    """Sizes of a product stand in a register, so they are counted while it runs."""
    result = run(f"batch_{name}", 2, 4, bits | 8 << 24 | 16 << 17)
    operations = 2 * 2 * 4 * 128 * 128 * (16 if name == "f16" else 8)
    assert result.roofline.operations[f"tcgen05 {kind}"] == operations
    peak = result.roofline.peak_operations_per_s[f"tcgen05 {kind}"]
    assert peak == pytest.approx(2 * 1.965e9 * operations / 8 / 64)
    pj = result.record.config.energy.group_half_pj if name == "f16" else result.record.config.energy.group_single_pj
    least = 1e-12 * operations / 2 * pj[0] * result.record.config.energy.logic_scale
    assert least <= result.energy.parts["tensor cores"] <= least * (1 + pj[1] / pj[0])
    assert result.limiter.utilisation["tcgen05 pipe"] == pytest.approx(2 * 4 * 64 / 2 / result.cycles, rel=0.9)


def test_peaks_of_blackwell():
    """B200: a quarter of what tcgen05 does is left for mma.sync; RTX 5090: the white paper's dense TFLOP/s."""
    b200, rtx5090 = (peak_operations_per_s(_Bench(name, ()).config) for name in ("b200", "rtx5090"))
    assert b200["tcgen05 16-bit"] == 4 * b200["tensor"] == b200["tcgen05 4-bit"] / 4 == 2 * b200["tcgen05 32-bit"]
    assert rtx5090["tensor 8-bit"] / 1e12 == pytest.approx(838, rel=0.01)
    assert rtx5090["tensor 4-bit"] / 1e12 == pytest.approx(1676, rel=0.01)
