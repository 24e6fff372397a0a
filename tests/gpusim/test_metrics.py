"""Metrics of records made by hand, against what Nsight Compute's definitions give for the same counts."""

import math
import re

import numpy as np
import pytest

from gpusim.engine.state import layout as L
from gpusim.engine.state import memory as S
from gpusim.results.counts import GLOBAL, SHARED, Counts
from gpusim.results.metrics import METRICS, MetricValues, UnknownMetric
from isa import microops as M
from tests.gpusim.records import LDG, LDS, RED, STG, STS, make_program, make_record


def test_global_memory_by_operation():
    """Counters of shared and global instructions are told apart by what the instruction is."""
    line = {LDG: (10, 320, 40, 320, 100), STG: (20, 80, 80, 20, 9), RED: (30, 30, 120, 30, 0)}
    fields = L.COUNT_REQUESTS, L.COUNT_SECTORS, L.COUNT_SECTORS_IDEAL, L.COUNT_TAGS, L.COUNT_HITS
    rows = {row: dict(zip(fields, counts, strict=True)) for row, counts in line.items()}
    values = MetricValues(make_record(line=rows))
    requests = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
    assert [values[requests.format(op)] for op in ("ld", "st", "atom", "red")] == [10, 20, 0, 30]
    assert [values[sectors.format(op)] for op in ("ld", "st", "atom", "red")] == [320, 80, 0, 30]
    assert values["l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"] == 32.0
    assert values["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"] == 100
    assert values["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum"] == 220
    assert values["memory_l1_tag_requests_global"] == 370
    assert values["memory_l2_theoretical_sectors_global"] == 430
    assert values["memory_l2_theoretical_sectors_global_ideal"] == 240


def test_every_metric_has_unit_meaning_and_finite_value():
    values = MetricValues(make_record())
    assert set(values) == set(METRICS) and len(values) == len(METRICS)
    for name, metric in METRICS.items():
        assert metric.meaning and not metric.meaning.endswith("."), name
        assert metric.unit in ("", "%", "ns", "byte", "byte/s", "byte/block") or re.fullmatch(
            r"(cycle|inst|thread|branch|request|sector|warp|block|register)(/[a-z]+)?", metric.unit
        ), name
        assert isinstance(values[name], int | float) and math.isfinite(values[name]), name


def test_counts_are_ints_and_an_empty_launch_has_no_nan():
    """A kernel of EXIT alone makes no accesses, so every quotient of accesses is 0 and not a NaN."""
    values = MetricValues(make_record(program=make_program((("EXIT", None),))))
    assert values["l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"] == 0.0
    for name, value in values.items():
        assert isinstance(value, int) or not name.endswith(".sum") or METRICS[name].unit == "ns", name


def test_unknown_name_is_a_key_error_that_names_the_nearest():
    values = MetricValues(make_record())
    with pytest.raises(KeyError) as caught:
        values["smsp__inst_executed.avg"]
    assert isinstance(caught.value, UnknownMetric)
    assert str(caught.value).startswith("no metric named 'smsp__inst_executed.avg'; did you mean smsp__inst")
    assert "smsp__inst_executed.avg" not in values
    assert values.get("smsp__inst_executed.avg") is None


def test_time():
    values = MetricValues(make_record(cycles=3960, active_cycles=700))
    assert values["gpc__cycles_elapsed.max"] == 3960
    assert values["gpu__time_duration.sum"] == pytest.approx(2000.0), "ns at 1,980 MHz"
    assert values["sm__cycles_active.avg"] == 700
    assert values["sm__cycles_active.sum"] == 700 * 132


def test_average_of_active_cycles_counts_idle_sms():
    record = make_record(active_cycles=660)
    record.sm_active_cycles[66:] = 0
    values = MetricValues(record)
    assert values["sm__cycles_active.avg"] == 330
    assert values["sm__cycles_active.max"] == 660
    assert values["sm__cycles_active.min"] == 0


def shared_counts(wavefronts, ideal, requests):
    counted = L.COUNT_SHARED_WAVEFRONTS, L.COUNT_SHARED_IDEAL, L.COUNT_SHARED_REQUESTS
    return dict(zip(counted, (wavefronts, ideal, requests), strict=True))


def test_shared_memory():
    """Loads with 32-way conflicts, stores without, three of them without an active lane."""
    line = {
        LDS: {L.COUNT_EXECUTED: 100, **shared_counts(3200, 100, 100)},
        STS: {L.COUNT_EXECUTED: 73, **shared_counts(70, 70, 70)},
        STG: {L.COUNT_EXECUTED: 9, L.COUNT_REQUESTS: 9, L.COUNT_SECTORS: 36},
        **{index: {L.COUNT_EXECUTED: 0} for index in (LDG, RED)},
    }
    values = MetricValues(make_record(line=line))
    assert values["memory_l1_wavefronts_shared"] == 3270
    assert values["memory_l1_wavefronts_shared_ideal"] == 170
    assert values["derived__memory_l1_wavefronts_shared_excessive"] == 3100
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared{}.sum"
    assert [values[conflicts.format(op)] for op in ("", "_op_ld", "_op_st")] == [3100, 3100, 0]
    pipe = "l1tex__data_pipe_lsu_wavefronts_mem_shared{}.sum"
    assert [values[pipe.format(op)] for op in ("", "_op_ld", "_op_st")] == [3273, 3200, 70]


def test_what_else_passes_the_data_pipe():
    """One wavefront each: a thread's index or lane, a shuffle, and a barrier of the 8 warps of a block; nothing for
    the number of the block, for a uniform register, or for an arrival that does not wait."""
    code = (
        *("S2R R0, SR_TID.X", "S2R R1, SR_LANEID", "S2R R2, SR_CTAID.X", "S2UR UR4, SR_CTAID.X"),
        *("SHFL.DOWN PT, R3, R0, 0x1, 0x1f", "BAR.SYNC.DEFER_BLOCKING 0x0", "EXIT"),
    )
    values = MetricValues(make_record(program=make_program(tuple((text, None) for text in code))))
    warps = 264 * 8
    assert values["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"] == 3 * warps + warps // 8


def test_l2_and_device_memory():
    memory = {
        S.CNT_TEX_READ_SECTORS: 1000,
        S.CNT_TEX_WRITE_SECTORS: 200,
        S.CNT_TEX_ATOMIC_SECTORS: 30,
        S.CNT_TEX_REDUCTION_SECTORS: 4,
        S.CNT_TEX_HIT_SECTORS: 834,
        S.CNT_TEX_MISS_SECTORS: 400,
        S.CNT_FABRIC_READ_SECTORS: 500,
        S.CNT_FABRIC_WRITE_SECTORS: 60,
        S.CNT_FILL_SECTORS: 900,
        S.CNT_MERGE_SECTORS: 7,
        S.CNT_WRITEBACK_SECTORS: 11,
    }
    values = MetricValues(make_record(memory=memory, cycles=1980))
    assert values["lts__t_sectors_srcunit_tex.sum"] == 1234
    assert values["lts__t_sectors_srcunit_tex_op_read.sum"] == 1000
    assert values["lts__t_sectors_srcunit_tex_op_write.sum"] == 200
    hits = values["lts__t_sectors_srcunit_tex_lookup_hit.sum"]
    misses = values["lts__t_sectors_srcunit_tex_lookup_miss.sum"]
    assert (hits, misses) == (834, 400)
    assert hits + misses == values["lts__t_sectors_srcunit_tex.sum"]
    assert values["lts__t_sectors_srcunit_ltcfabric.sum"] == 560
    assert values["dram__bytes_read.sum"] == 32 * 907
    assert values["dram__bytes_write.sum"] == 32 * 11
    assert values["dram__bytes.sum.per_second"] == pytest.approx(32 * 918 / 1e-6)
    share = 100 * 32 * 918 / 1e-6 / 4.8e12
    assert values["dram__throughput.avg.pct_of_peak_sustained_elapsed"] == pytest.approx(share)


def test_occupancy_and_issue():
    """Half of the warps resident on average; each scheduler issues in a tenth of its cycles."""
    record = make_record(active_cycles=1000, warp_cycles=32_000)
    record.sm_issued[:] = 400
    values = MetricValues(record)
    assert values["sm__warps_active.avg.pct_of_peak_sustained_active"] == pytest.approx(50.0)
    assert values["sm__warps_active.avg.per_cycle_active"] == pytest.approx(32.0)
    assert values["smsp__issue_active.avg.pct_of_peak_sustained_active"] == pytest.approx(10.0)
    # Three schedulers without a warp do not count (an H100: 23.93 %, of a chain of FFMA in one warp).
    record.sm_scheduler_cycles[:] = record.sm_active_cycles
    assert MetricValues(record)["smsp__issue_active.avg.pct_of_peak_sustained_active"] == pytest.approx(40.0)
    assert values["sm__maximum_warps_per_active_cycle_pct"] == pytest.approx(100.0)
    assert values["launch__occupancy_limit_warps"] == 8
    assert values["launch__occupancy_limit_shared_mem"] == 102400 // (4096 + 1024), "of what is set aside"
    assert values["launch__waves_per_multiprocessor"] == pytest.approx(264 / (132 * 8))


def test_accesses_are_told_from_other_instructions():
    """An addition has no space, though its columns hold the number of one."""
    counts = Counts(make_record())
    assert np.flatnonzero(counts.accesses(GLOBAL)).tolist() == [LDG, STG, RED]
    assert np.flatnonzero(counts.accesses(SHARED)).tolist() == [STS, LDS, RED], "RED is generic"
    assert np.flatnonzero(counts.accesses(GLOBAL, M.OP_STORE)).tolist() == [STG]


def test_constant_loads_are_no_global_accesses():
    """LDC is a memory instruction too; its operands must not be taken for a space and an operation."""
    program = make_program((("LDC R1, c[0x0][R2]", 2), ("LDG.E R2, desc[UR4][R2.64]", 2), ("EXIT", None)))
    line = {0: {L.COUNT_REQUESTS: 7, L.COUNT_SECTORS: 7}, 1: {L.COUNT_REQUESTS: 3, L.COUNT_SECTORS: 12}}
    values = MetricValues(make_record(program=program, line=line))
    assert values["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 3
    assert values["memory_l2_theoretical_sectors_global"] == 12


def test_generic_accesses_count_by_where_they_went():
    """A generic load that met global memory counts with the global ones, one that met shared memory with those."""
    program = make_program((("LD.E R2, desc[UR4][R2.64]", 2), ("EXIT", None)))
    line = {0: {L.COUNT_REQUESTS: 5, L.COUNT_SECTORS: 20, L.COUNT_SHARED_WAVEFRONTS: 8, L.COUNT_SHARED_IDEAL: 2}}
    values = MetricValues(make_record(program=program, line=line))
    assert values["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 20
    assert values["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 6
