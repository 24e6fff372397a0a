"""Advice: each rule's number on records made by hand, and on the ladders of programs the cost that the next step
removes."""

from functools import cache

import pytest

from gpusim.engine.state import layout as L
from gpusim.results.advice import LEAST, find
from isa.instruction import parse_instruction
from tests.gpusim import bundled
from tests.gpusim.records import BRA, FFMA, FILE, LDG, LDS, STG, make_program, make_record, stall

# Variant, what the next one removes, a part of the line to blame, the next one.
LADDERS = (
    ("reduction/interleaved_divergent", "divergence", "s[t] += s[t + step]", "reduction/interleaved_conflicts"),
    ("reduction/interleaved_conflicts", "bank conflicts", "s[k] += s[k + step]", "reduction/sequential"),
    ("reduction/sequential", "work per thread", "cuda.syncthreads()", "reduction/first_add"),
    ("reduction/first_add", "barriers", "cuda.syncthreads()", "reduction/unrolled_last_warp"),
    ("reduction/unrolled_last_warp", "loop overhead", "while step > WARP", "reduction/unrolled"),
    ("reduction/unrolled", "work per thread", "cuda.syncthreads()", "reduction/multiple"),
    ("reduction/multiple", "shared-memory exchange", "s[t] += s[t + 128]", "reduction/shuffle"),
    ("transpose/naive", "uncoalesced accesses", "dst[x, y + k] = src[y + k, x]", "transpose/tiled"),
    ("transpose/tiled", "bank conflicts", "dst[y + k, x] = tile[tx, ty + k]", "transpose/padded"),
)
SIZES = {"reduction": 40_000, "transpose": 128}


@cache
def simulated(name):
    return bundled.checked(name, "h200", SIZES[name.partition("/")[0]])


def cycles(result, kind):
    """What all findings of a kind are worth, in warp cycles: fewer warps that wait as long are an improvement too."""
    total = sum(each.cycles for each in result.stall_reasons.values())
    return total * sum(each.share for each in result.advice if each.kind == kind)


def text_of(result, finding):
    """The source line of a finding."""
    lines = result.record.program.source[finding.file]
    return lines[finding.line - 1]


@pytest.mark.usefixtures("toolchain")
@pytest.mark.parametrize(("name", "kind", "text", "after"), LADDERS, ids=[row[0] for row in LADDERS])
def test_the_ladders_next_step_removes_a_cost_that_was_named(name, kind, text, after):
    before = simulated(name)
    found = [each for each in before.advice if each.kind == kind]
    assert found, f"{name}: {[each.kind for each in before.advice]}"
    assert text in text_of(before, found[0])
    assert f"Line {found[0].line}" in found[0].sentence
    # Nothing is left of it, or at most three quarters: the last barriers of a block and the tails of trees remain.
    assert cycles(simulated(after), kind) <= 0.75 * cycles(before, kind)


@pytest.mark.usefixtures("toolchain")
def test_the_dearest_comes_first_and_trifles_are_left_out():
    shares = [each.share for each in simulated("reduction/interleaved_conflicts").advice]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] >= LEAST and shares[0] <= 1


def kinds(record):
    return {each.kind: each for each in find(record)}


def test_bank_conflicts_by_line():
    each = {L.COUNT_SHARED_WAVEFRONTS: 1000, L.COUNT_SHARED_IDEAL: 600, L.COUNT_SHARED_REQUESTS: 500}
    found = kinds(make_record(line={LDS: {name: 132 * count for name, count in each.items()}}))["bank conflicts"]
    assert (found.line, found.value) == (4, 132 * 400)
    assert "2.0 wavefronts per request" in found.sentence
    # 400 wavefronts on each SM, one after the other, in a launch of 4,000 cycles.
    cycles_each = make_record().config.shared.wavefront_cycles
    assert found.share == pytest.approx(400 * cycles_each / 4000)


def test_a_broadcast_is_no_credit_to_another_lines_sectors():
    line = {
        STG: {L.COUNT_REQUESTS: 2112, L.COUNT_SECTORS: 67584, L.COUNT_SECTORS_IDEAL: 8448},
        LDG: {L.COUNT_REQUESTS: 2112, L.COUNT_SECTORS: 2112, L.COUNT_SECTORS_IDEAL: 8448},
    }
    found = kinds(make_record(line=line))["uncoalesced accesses"]
    assert (found.line, found.value) == (6, 67584 - 8448)
    assert "32.0 sectors per request where 4.0" in found.sentence


def test_divergence_needs_a_branch_that_diverged():
    half = {L.COUNT_THREADS: 16 * 2112, stall(L.STALL_WAIT): 100_000}
    assert "divergence" not in kinds(make_record(line={STG: half}))
    found = kinds(make_record(line={STG: half, BRA: {L.COUNT_BRANCHES: 2112, L.COUNT_DIVERGENT: 1000}}))["divergence"]
    assert (found.line, found.value) == (6, 16)
    assert "1,000 of 2,112" in found.sentence and "line 5" in found.sentence


def test_waits_count_for_the_line_that_loads():
    load = "LDG.E R2, desc[UR4][R2.64]"
    program = make_program(((load, 2), ("FADD R4, R4, R4", 3), ("FFMA R4, R2, R3, R4", 4), ("EXIT", None)))
    record = make_record(program=program, line={2: {stall(L.STALL_LONG): 500_000}})
    found = kinds(record)["memory latency"]
    assert found.value == 500_000
    # The program's control bits are zero: the wait mask names no scoreboard, so the wait stays where it was seen.
    assert found.line == 4


def test_launch_wide_findings_have_no_line():
    found = kinds(make_record(block=48))
    assert found["launch overhead"].line is None
    assert found["launch overhead"].value == make_record().config.launch.overhead_cycles
    assert found["partial warps"].value == 16


def test_nothing_is_wrong_with_an_empty_kernel():
    found = kinds(make_record(program=make_program((("EXIT", None),)), cycles=10**7, active_cycles=10**7))
    assert set(found) <= {"memory latency", "busy unit"}


def test_a_rule_that_is_silent_below_its_threshold():
    few = {FFMA: {stall(L.STALL_NO_INSTRUCTION): 10}}
    assert "instruction fetch" not in kinds(make_record(line=few))
    many = {FFMA: {stall(L.STALL_NO_INSTRUCTION): 10_000}}
    assert kinds(make_record(line=many))["instruction fetch"].value == 10_000


def test_a_loops_overhead_is_what_is_not_its_work():
    code = (
        ("MOV R0, R2", 1),
        ("ISETP.GE.AND P0, PT, R0, R3, PT", 2),
        ("LDG.E R6, desc[UR4][R2.64]", 3),
        ("FADD R4, R4, R6", 3),
        ("IADD3 R0, R0, 0x1, RZ", 2),
        ("@P0 BRA `(.L_x_0)", 2),
        ("EXIT", None),
    )
    labels = {".L_x_0": 16}
    instructions = tuple(parse_instruction(16 * k, text, 0, labels, line, FILE) for k, (text, line) in enumerate(code))
    program = make_program(code, instructions=instructions)
    each = {L.COUNT_EXECUTED: 5 * 2112, stall(L.STALL_WAIT): 1000, stall(L.STALL_LONG): 9000}
    rounds = dict.fromkeys(range(1, 6), each)
    found = kinds(make_record(program=program, line=rounds))["loop overhead"]
    # The test, the counter and the branch, five times by each warp; not the load and the sum.
    assert (found.line, found.value) == (2, 3 * 5 * 2112)
    assert "goes round 5.0 times" in found.sentence and f"of its {5 * 5 * 2112:,} warp" in found.sentence
    stalls = 5 * 10_000 + 7 * 2112  # of all instructions, issues included
    running = 1 - make_record().config.launch.overhead_cycles / 4000  # of the duration
    assert found.share == pytest.approx(3 * (1000 + 2112) / stalls * running)
