"""`Result`: costs per line and instruction, stall reasons, JSON; on records made by hand."""

import json

import numpy as np
import pytest

from gpusim.engine.state import layout as L
from gpusim.result import Result
from tests.gpusim.records import CODE, FADD, FFMA, FILE, LDG, LDS, STS, make_record, stall


def busy_record():
    return make_record(
        line={
            LDG: {L.COUNT_REQUESTS: 2112, L.COUNT_SECTORS: 8448, L.COUNT_SECTORS_IDEAL: 8448}
            | {stall(L.STALL_LONG): 900_000},
            FFMA: {stall(L.STALL_WAIT): 1_000, stall(L.STALL_LONG): 5_000, L.COUNT_THREADS: 2112 * 16},
            FADD: {stall(L.STALL_WAIT): 4_000},
            LDS: {stall(L.STALL_SHORT): 100_000, L.COUNT_SHARED_WAVEFRONTS: 4224, L.COUNT_SHARED_IDEAL: 2112},
        }
    )


def test_stall_reasons_conserve_all_warp_cycles():
    result = Result(busy_record())
    reasons = result.stall_reasons
    total = int(result.record.counters[:, L.COUNT_STALL : L.COUNT_STALL + len(L.STALLS)].sum())
    assert set(reasons) == set(L.STALLS)
    assert sum(each.cycles for each in reasons.values()) == total
    assert sum(each.share for each in reasons.values()) == pytest.approx(1.0)
    latency = result.metrics["smsp__average_warp_latency_per_inst_issued.ratio"]
    assert sum(each.cycles_per_instruction for each in reasons.values()) == pytest.approx(latency)
    assert list(reasons)[:2] == ["long_scoreboard", "short_scoreboard"], "the costliest first"
    assert reasons["long_scoreboard"].cycles == 905_000


def test_source_lines_sum_to_the_instructions():
    result = Result(busy_record())
    lines = result.source_lines
    assert sum(row.instructions for row in lines) == result.metrics["smsp__inst_executed.sum"]
    assert sum(row.cycles for row in lines) == sum(each.cycles for each in result.stall_reasons.values())
    assert sum(len(row.addresses) for row in lines) == len(CODE)
    assert [row.cycles for row in lines] == sorted((row.cycles for row in lines), reverse=True)


def test_one_source_line():
    """Line 3 holds FFMA, FADD and STS; its costs are their sum."""
    result = Result(busy_record())
    row = next(row for row in result.source_lines if row.line == 3)
    assert (row.file, row.text) == (FILE, "s[t] = x * b")
    assert row.addresses == (0x10, 0x20, 0x30)
    assert row.instructions == 3 * 2112
    assert row.threads_per_instruction == pytest.approx((16 + 32 + 32) / 3)
    assert row.thread_efficiency == pytest.approx(80 / 96)
    assert row.stalls == {"selected": 3 * 2112, "wait": 5_000, "long_scoreboard": 5_000}
    assert row.stall_cycles == 10_000
    assert row.cycles == 10_000 + 3 * 2112


def test_costliest_line_and_its_traffic():
    first, second = Result(busy_record()).source_lines[:2]
    assert (first.line, first.main_stall) == (2, "long_scoreboard")
    assert (first.requests, first.sectors, first.sectors_ideal) == (2112, 8448, 8448)
    assert (second.line, second.main_stall) == (4, "short_scoreboard")
    assert (second.shared_wavefronts, second.shared_wavefronts_excessive) == (4224, 2112)


def test_instruction_rows():
    result = Result(busy_record())
    rows = result.instructions
    assert [row.text for row in rows] == [each.text for each in result.record.program.instructions]
    assert rows[STS].address == 0x30 and rows[STS].line == 3
    assert rows[STS].main_stall is None, "it only ever issued"
    assert rows[FFMA].main_stall == "long_scoreboard"


def test_instruction_never_executed():
    record = make_record(line={FFMA: {L.COUNT_EXECUTED: 0, L.COUNT_THREADS: 0, stall(L.STALL_SELECTED): 0}})
    row = Result(record).instructions[FFMA]
    assert (row.instructions, row.threads_per_instruction, row.cycles) == (0, 0.0, 0)


def test_json_holds_everything_as_plain_values():
    result = Result(busy_record())
    document = json.loads(result.to_json())
    assert document["cycles"] == result.cycles
    assert document["metrics"] == {name: value for name, value in result.metrics.items()}
    assert document["stall_reasons"]["long_scoreboard"]["cycles"] == 905_000
    assert document["source_lines"][0]["text"] == "x = a[i]"
    assert document["source_lines"][0]["main_stall"] == "long_scoreboard"
    assert len(document["instructions"]) == len(CODE)
    assert document["occupancy"]["blocks_per_sm"] == 8
    assert document["grid"] == [264, 1, 1]
    assert document["limiter"]["kind"] == result.limiter.kind
    assert document["simulation"]["host_threads"] == 2
    assert "NaN" not in result.to_json()


def test_result_does_not_change_the_record():
    record = busy_record()
    before = record.counters.copy()
    result = Result(record)
    str(result)
    result.to_dict()
    assert np.array_equal(record.counters, before)
