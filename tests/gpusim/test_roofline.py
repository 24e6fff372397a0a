"""Roofline: operations by kind, bytes by level, and the peaks that follow from the configuration."""

import pytest

from gpusim.config import load_config
from gpusim.config.derived import peak_bytes_per_cycle, peak_operations_per_s
from gpusim.engine.state import layout as L
from gpusim.engine.state import memory as S
from gpusim.result import Result
from gpusim.results.counts import Counts
from gpusim.results.roofline import count_operations, matrix_operations
from tests.gpusim.records import FADD, FFMA, HMMA, LDG, make_program, make_record


def test_operations_count_threads_whose_guard_holds():
    record = make_record(line={FFMA: {L.COUNT_PRED_ON: 10}, FADD: {L.COUNT_PRED_ON: 3}, HMMA: {L.COUNT_EXECUTED: 2}})
    assert count_operations(Counts(record)) == {"FP32": 2 * 10 + 3, "tensor": 2 * 2 * 16 * 8 * 16}


@pytest.mark.parametrize(
    "text, multiply_adds",
    [
        ("HMMA.1688.F32.TF32 R4, R8, R10, R4", 16 * 8 * 8),
        ("HMMA.SP.16832.F32 R4, R8, R16, R4, R20, 0x0", 16 * 8 * 32),
        ("IMMA.8816.S8.S8 R4, R8.ROW, R10.COL, R4", 8 * 8 * 16),
        ("BMMA.168256.AND.POPC R4, R8.ROW, R16.COL, R4", 16 * 8 * 256),
        ("DMMA.8x8x4 R4, R8, R10, R4", 8 * 8 * 4),
        ("HGMMA.64x256x16.F32 R24, gdesc[UR8], R24, UP0, gsb0", 16 * 256 * 16),
        ("HGMMA.64x8x8.F32.TF32 R24, gdesc[UR8], R24, gsb0", 16 * 8 * 8),
        ("QGMMA.64x64x32.F16.E4M3.E5M2 R24, gdesc[UR8], R24, gsb0", 16 * 64 * 32),
        ("IGMMA.64x32x32.S8.U8 R24, gdesc[UR8], R24, gsb0", 16 * 32 * 32),
        ("BGMMA.64x16x256.AND.POPC R24, gdesc[UR8], R24, gsb0", 16 * 16 * 256),
    ],
)
def test_operations_of_a_warp_in_a_matrix_product(text, multiply_adds):
    record = make_record(program=make_program(((text, 2), ("EXIT", None))), grid=1, block=32)
    assert matrix_operations(Counts(record)) == 2 * multiply_adds
    assert Result(record).matrix_rate == 2 * multiply_adds / record.host_seconds


def test_packed_halves_and_doubles():
    code = (("HFMA2 R1, R2, R3, R4", 2), ("DFMA R2, R4, R6, R8", 2), ("DADD R2, R4, R6", 2), ("EXIT", None))
    record = make_record(program=make_program(code), grid=1, block=32)
    assert count_operations(Counts(record)) == {"FP64": 32 * 3, "FP16": 32 * 4}


def test_a_moved_constant_is_no_arithmetic():
    code = (
        ("HFMA2.MMA R1, -RZ, RZ, 0, 5.9604644775390625e-08", 2),
        ("HFMA2.MMA R2, -RZ, RZ, -0.0, 0", 2),
        ("HFMA2 R3, -RZ, R2, 1, 1", 2),
        ("EXIT", None),
    )
    result = Result(make_record(program=make_program(code), grid=1, block=32))
    assert result.roofline.operations == {"FP16": 32 * 4}
    busy = result.limiter.utilisation
    assert busy["FP16 pipe"] > 0
    moves = Result(make_record(program=make_program((*code[:2], code[3])), grid=1, block=32))
    assert moves.limiter.utilisation["FP16 pipe"] == pytest.approx(busy["FP16 pipe"] * 2 / 3)
    assert moves.roofline.operations == {} and "no floating-point operations" in str(moves)


def test_peaks_of_the_h200():
    """The data sheet's dense rates at 1,980 MHz: 67 TFLOP/s FP32, 33.5 FP64, 4.8 TB/s."""
    config = load_config("h200")
    peaks = peak_operations_per_s(config)
    assert peaks["FP32"] == pytest.approx(66.9e12, rel=0.01)
    assert peaks["FP64"] == pytest.approx(33.5e12, rel=0.01)
    assert peak_bytes_per_cycle(config)["DRAM"] * 1.98e9 == pytest.approx(4.8e12)
    assert peak_bytes_per_cycle(config)["L2"] == 66 * 76, "the crossbar's ports are the narrowest"
    assert peak_bytes_per_cycle(config)["L1"] == 132 * 128


def test_half_of_the_sms_have_half_of_the_peak():
    full, half = load_config("h200"), load_config("h200", ["sm.count=66"])
    for kind, peak in peak_operations_per_s(half).items():
        assert peak == pytest.approx(peak_operations_per_s(full)[kind] / 2)


def test_intensity_and_roof():
    memory = {S.CNT_TEX_READ_SECTORS: 4000, S.CNT_FILL_SECTORS: 2000, S.CNT_WRITEBACK_SECTORS: 500}
    code = (("LDG.E R2, desc[UR4][R2.64]", 2), ("FFMA R4, R2, R3, R4", 3), ("EXIT", None))
    line = {0: {L.COUNT_SECTORS: 5000, L.COUNT_REQUESTS: 1250}, 1: {L.COUNT_PRED_ON: 40_000}}
    roofline = Result(make_record(program=make_program(code), line=line, memory=memory)).roofline
    assert roofline.operations == {"FP32": 80_000}
    assert roofline.bytes == {"L1": 160_000, "L2": 128_000, "DRAM": 80_000}
    assert roofline.intensity("DRAM") == pytest.approx(1.0)
    assert roofline.intensity("L1") == pytest.approx(0.5)
    assert (roofline.kind, roofline.roof) == ("FP32", "DRAM")
    least_seconds = 80_000 / 4.8e12
    assert roofline.share_of_roof == pytest.approx(least_seconds / (4000 / 1.98e9))


def test_compute_roof():
    record = make_record(line={FFMA: {L.COUNT_PRED_ON: 10**9}, LDG: {L.COUNT_SECTORS: 10}})
    assert Result(record).roofline.roof == "compute"
