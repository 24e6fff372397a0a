"""The text report: fits a screen, and says what the record says."""

import re
from dataclasses import replace

import numpy as np
import pytest

from gpusim.config import load_config
from gpusim.engine.state import layout as L
from gpusim.engine.state import memory as S
from gpusim.launch import Launch
from gpusim.launch.occupancy import occupancy
from gpusim.report_html import make_document
from gpusim.result import Result
from gpusim.results.counts import Counts
from gpusim.results.quantities import render
from gpusim.results.sentences import WIDTH, checked_words, read_words, shared_words
from gpusim.units import aligned, joule_text
from tests.gpusim import bundled
from tests.gpusim.records import LDG, LDS, RED, STG, make_program, make_record, stall


def full_record(**changes):
    line = {
        LDG: {L.COUNT_REQUESTS: 2112, L.COUNT_SECTORS: 8448, L.COUNT_SECTORS_IDEAL: 8448, stall(L.STALL_LONG): 900_000},
        STG: {L.COUNT_REQUESTS: 2112, L.COUNT_SECTORS: 67584, L.COUNT_SECTORS_IDEAL: 8448, L.COUNT_HITS: 0},
        RED: {L.COUNT_REQUESTS: 2112, L.COUNT_SECTORS: 2112, L.COUNT_SECTORS_IDEAL: 8448},
        LDS: {L.COUNT_SHARED_WAVEFRONTS: 4224, L.COUNT_SHARED_IDEAL: 2112, stall(L.STALL_SHORT): 100_000},
    }
    memory = {
        S.CNT_TEX_READ_SECTORS: 8448,
        S.CNT_TEX_HIT_SECTORS: 2112,
        S.CNT_TEX_MISS_SECTORS: 6336,
        S.CNT_HOME_MISS_SECTORS: 6336,
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


def test_energy_and_where_most_of_it_goes():
    result = Result(full_record())
    joules, watts = result.energy_j, result.power_w
    words = section(str(result), "Energy")
    assert words.startswith(f"{joule_text(joules)} at {watts:,.0f} W: ")
    told = re.findall(r"([\w ]+?) (\d+) %", words.partition(": ")[2])
    most = sorted(result.energy.parts.items(), key=lambda each: -each[1])[:4]
    assert told and [(name.strip(), int(share)) for name, share in told] == [
        (name, round(100 * part / joules)) for name, part in most if part
    ]


def test_power_that_cannot_last_is_told():
    """The same launch on a board that bears it and on one that does not."""
    watts = Result(full_record()).power_w
    enough, little = (Result(full_record(overrides=[f"energy.limit_w={share * watts}"])) for share in (1.01, 0.99))
    assert "above" not in section(str(enough), "Energy")
    clock = little.energy.sustained().clock_mhz
    assert clock < little.record.config.gpu.clock_mhz
    assert section(str(little), "Energy").endswith(
        f"; above the board's {0.99 * watts:,.0f} W, which repeated launches keep at {clock:,.0f} MHz"
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


def test_how_many_findings_there_are_beside_those_shown():
    result = Result(full_record())
    assert len(result.advice) == 5
    text, whole = str(result), render(result, all_findings=True)
    assert "\n                4 of 5 findings, more with --all (in Python: result.advice)\n" in text
    assert "findings, more" not in whole
    assert [each.sentence in " ".join(whole.split()) for each in result.advice] == [True] * 5
    assert [each.sentence in " ".join(text.split()) for each in result.advice] == [True] * 4 + [False]


@pytest.mark.parametrize("name", ["vector_add", "reduction/interleaved_conflicts", "transpose/tiled", "matmul/tiled"])
def test_the_terminal_begins_with_what_the_page_begins_with(name):
    result = bundled.checked(name, "h200")
    page = [each["sentence"] for each in make_document(result)["advice"]]
    terminal = " ".join(str(result).split())
    places = [terminal.find(sentence) for sentence in page[:3]]
    assert len(places) == 3 and min(places) > terminal.find("Advice ") > 0 and places == sorted(places)
    assert None in {each.line for each in result.advice[:3]}  # what the launch as a whole lacks is in it, too


def test_shared_memory_that_the_kernel_has_not_asked_for_is_the_drivers():
    def words(own, dynamic=0, gpu="h200"):
        record = make_record(program=make_program(static_shared_bytes=own))
        launch = Launch(record.program, 1, 32, (), dynamic)
        config = load_config(gpu)
        fits = occupancy(config, 32, 24, own, dynamic)
        return shared_words(replace(record, launch=launch, config=config, occupancy=fits))

    assert words(0) == "1,024 B of shared memory per block, which the CUDA driver keeps for itself"
    driver = "and 1,024 that the CUDA driver keeps for itself"
    assert words(4096, 4096) == f"9,216 B of shared memory per block: 8,192 of its own {driver}"
    assert words(100) == f"1,152 B of shared memory per block: 100 of its own {driver}, in units of 128"
    assert words(4096, gpu="v100") == "4,096 B of shared memory per block", "before Ampere it kept none"


def test_bytes_read_beyond_what_the_program_asks_for_are_explained():
    def words(**counters):
        memory = {getattr(S, f"CNT_{name}_SECTORS"): count for name, count in counters.items()}
        record = make_record(memory=memory, program=make_program(local_bytes=0))
        args = (np.zeros(8000, np.float32),)
        return read_words(Counts(replace(record, launch=replace_args(record.launch, args))))

    assert words(HOME_MISS=1000, FILL=1000) == "32.0 kB"
    assert words(HOME_MISS=1000, FILL=1000, LAUNCH=100) == "35.2 kB (3.2 kB the launch's own: code and constants)"
    assert words(HOME_MISS=500, FILL=1000) == "32.0 kB (16.0 kB that came along, since memory is read 64 B at a time)"
    assert words(HOME_MISS=1000, FILL=1000, MERGE=10) == "32.3 kB (320 B for sectors written in part)"
    assert words(HOME_MISS=1500, FILL=1500) == "48.0 kB (16.0 kB at least once more, as L2 had not kept them)"


def replace_args(launch, args):
    return Launch(launch.kernel, launch.grid, launch.block, args)


def test_a_check_that_found_nothing_says_what_it_looked_at():
    line = {LDS: {L.COUNT_SHARED_REQUESTS: 70}, LDG: {L.COUNT_REQUESTS: 30}, STG: {L.COUNT_REQUESTS: 11}}
    told = list(checked_words(Counts(make_record(line=line)), ["racecheck", "initcheck", "memcheck", "synccheck"]))
    assert told == [
        "racecheck: none of 70 accesses to shared memory is in a race (it does not look at global memory)",
        "initcheck: none of 100 reads of global or shared memory is of what nothing had been written to",
        "memcheck: none of 111 accesses to global or shared memory is out of bounds, misaligned or to freed memory",
        "synccheck: the launch has no barriers",
    ]


def test_columns_never_run_together():
    assert aligned(("ab", -4), ("1", 3), ("2.5", 5)) == "ab    1  2.5"
    assert aligned(("a long name", -4), ("1,000,000", 3), ("22", 2)) == "a long name 1,000,000 22"
    huge = {L.COUNT_EXECUTED: 10**13, L.COUNT_THREADS: 32 * 10**13, stall(L.STALL_LONG): 10**14}
    row = next(line for line in str(Result(make_record(line={LDG: huge}))).splitlines() if "2: x = a[i]" in line)
    assert row.split()[2:5] == [f"{10**14 + 2112:,}", f"{10**13:,}", "32.0"]
