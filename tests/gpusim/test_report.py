"""The text report: fits a screen, and says what the record says."""

import re

import pytest

from gpusim.engine.state import layout as L
from gpusim.engine.state import memory as S
from gpusim.result import Result
from gpusim.results.report import WIDTH
from tests.gpusim.records import LDG, LDS, RED, STG, make_program, make_record, stall


def full_record(**changes):
    line = {
        LDG: {L.N_REQUESTS: 2112, L.N_SECTORS: 8448, L.N_SECTORS_IDEAL: 8448, stall(L.R_LONG): 900_000},
        STG: {L.N_REQUESTS: 2112, L.N_SECTORS: 67584, L.N_SECTORS_IDEAL: 8448, L.N_HITS: 0},
        RED: {L.N_REQUESTS: 2112, L.N_SECTORS: 2112, L.N_SECTORS_IDEAL: 8448},
        LDS: {L.N_SHARED_WAVEFRONTS: 4224, L.N_SHARED_IDEAL: 2112, stall(L.R_SHORT): 100_000},
    }
    memory = {
        S.CNT_TEX_READ_SECTORS: 8448,
        S.CNT_TEX_HIT_SECTORS: 2112,
        S.CNT_TEX_MISS_SECTORS: 6336,
        S.CNT_FILL_SECTORS: 6336,
        S.CNT_WRITEBACK_SECTORS: 100,
    }
    return make_record(**{"line": line, "memory": memory} | changes)


def section(text, label):
    """The text beside a label of the first column, with its continuation lines."""
    match = re.search(rf"^{re.escape(label)} +(.*(?:\n {{16}}.*)*)", text, re.MULTILINE)
    assert match, f"no {label!r} in the report:\n{text}"
    return " ".join(match[1].split())


LONG_NAME = "a_kernel_with_a_name_that_is_far_too_long_for_the_first_line_of_a_report_" * 2


@pytest.mark.parametrize(
    "record",
    [
        full_record(),
        make_record(program=make_program((("EXIT", None),))),
        make_record(grid=1, block=1, cycles=1, active_cycles=0, warp_cycles=0),
        full_record(program=make_program(name=LONG_NAME)),
        full_record(cycles=10**12, memory={k: 10**14 for k in range(S.COUNTERS)}),
    ],
    ids=["full", "empty kernel", "nothing active", "long name", "huge"],
)
def test_fits_one_screen(record):
    lines = str(Result(record)).splitlines()
    assert len(lines) <= 56
    assert max(map(len, lines)) <= WIDTH
    assert all(line == line.rstrip() for line in lines)
    assert "nan" not in " ".join(lines).lower().replace("nanosleep", "")


def test_head():
    text = str(Result(full_record()))
    assert text.splitlines()[0] == "kernel on NVIDIA H200, sm_90"
    assert section(text, "Launch").startswith(
        "grid (264, 1, 1) x block (256, 1, 1): 264 blocks, 2,112 warps;"
    )
    assert section(text, "Duration").startswith(
        "4,000 cycles = 2.02 us at 1,980 MHz, of which launch overhead 2,465"
    )
    assert section(text, "Limited by").startswith("Launch overhead:")


def test_every_number_of_the_middle_part():
    text = str(Result(full_record()))
    assert section(text, "Bank conflicts") == (
        "4,224 shared-memory wavefronts, ideal 2,112: 2,112 excessive (50.0 %)"
    )
    assert section(text, "Coalescing") == (
        "sectors per request: loads 4.00 (ideal 4.00, 2,112 requests), "
        "stores 32.00 (ideal 4.00, 2,112 requests), reductions 1.00 (ideal 4.00, 2,112 requests)"
    )
    assert section(text, "Cache hit rates") == (
        "L1 0.0 % of 8,448 sectors loaded; L2 25.0 % of 8,448 sectors; DRAM read 202.8 kB, written 3.2 kB"
    )
    assert section(text, "Divergence").startswith("32.00 of 32 threads active per instruction")
    assert section(text, "Occupancy").startswith(
        "theoretical 100.0 % (64 of 64 warps, limited by warps, threads"
    )
    assert "achieved 50.0 % (32.0 warps); 0.25 waves" in section(text, "Occupancy")
    assert (
        section(text, "Simulation")
        == "21,120 warp instructions in 0.50 s: 42.2 kinstructions/s, 17.3 MFLOP/s of matrix products "
        "on 2 host threads"
    )


def test_throughput_lines():
    text = str(Result(full_record()))
    share = 32 * 6436 / (4000 * 4800e3 / 1980)
    dram = next(line for line in text.splitlines() if line.startswith("  DRAM"))
    assert f"{100 * share:.1f} %" in dram and "206.0 kB" in dram
    assert dram.count("#") == round(20 * share)


def test_stalls_and_source_lines_are_the_costliest():
    lines = str(Result(full_record())).splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("Stall reasons"))
    assert lines[start + 1].split()[0] == "long_scoreboard"
    assert lines[start + 2].split()[0] == "short_scoreboard"
    start = next(k for k, line in enumerate(lines) if line.startswith("Source lines"))
    first = lines[start + 1]
    assert first.endswith("2: x = a[i]") and "long_scoreboard" in first
    share = 902_112 / (1_000_000 + 10 * 2112)
    assert first.split()[0] == f"{100 * share:.1f}"


def test_absent_things_are_said_to_be_absent():
    text = str(Result(make_record(program=make_program((("EXIT", None),)))))
    assert section(text, "Bank conflicts") == "no shared-memory accesses"
    assert section(text, "Coalescing") == "no global-memory accesses"
    assert section(text, "Roofline").startswith("no floating-point operations")
    assert "none: every warp cycle issues" in text
