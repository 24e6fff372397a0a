"""What limits a launch: each rule decided by the number that it names."""

import re

import pytest

from gpusim.engine.state import layout as L
from gpusim.engine.state import memory as S
from gpusim.results.counts import Counts
from gpusim.results.limiter import find_limiter, utilisation
from tests.gpusim.records import FFMA, LDG, LDS, STS, make_program, make_record, stall

OVERHEAD = 2415
"""Cycles of launch overhead of the H200's configuration."""


def limiter(**record):
    return find_limiter(Counts(make_record(**record)))


def running(cycles):
    """Cycles of a launch whose blocks run for `cycles`."""
    return {"cycles": OVERHEAD + cycles, "active_cycles": cycles}


def test_launch_overhead():
    found = limiter(cycles=3000, active_cycles=200)
    assert found.kind == "launch overhead"
    assert "2,415 of 3,000 cycles (80 %)" in found.sentence


def test_dram_bandwidth():
    """100,000 cycles at 90 % of 2,424 bytes a cycle."""
    peak = 4800e3 / 1980
    sectors = int(0.9 * peak * 100_000 / 32)
    found = limiter(**running(100_000), memory={S.CNT_FILL_SECTORS: sectors})
    assert found.kind == "DRAM bandwidth"
    assert "90 % of the DRAM bandwidth" in found.sentence
    assert found.utilisation["DRAM bandwidth"] == pytest.approx(0.9, rel=1e-3)


def test_l2_bandwidth_and_uncoalesced_accesses():
    """The same traffic is named by its cause where most of its sectors are in excess."""
    memory = {S.CNT_TEX_READ_SECTORS: int(0.8 * 4224 * 100_000 / 32)}
    assert limiter(**running(100_000), memory=memory).kind == "L2 bandwidth"
    line = {LDG: {L.COUNT_REQUESTS: 1000, L.COUNT_SECTORS: 32_000, L.COUNT_SECTORS_IDEAL: 4_000}}
    found = limiter(**running(100_000), memory=memory, line=line)
    assert found.kind == "uncoalesced accesses"
    assert "28,000 of 32,000 sectors" in found.sentence


def test_bank_conflicts():
    wavefronts = int(0.7 * 132 * 100_000)
    line = {LDS: {L.COUNT_SHARED_WAVEFRONTS: wavefronts, L.COUNT_SHARED_IDEAL: wavefronts // 32}}
    found = limiter(**running(100_000), line=line)
    assert found.kind == "bank conflicts"
    line[LDS][L.COUNT_SHARED_IDEAL] = wavefronts
    assert limiter(**running(100_000), line=line).kind == "L1TEX data pipe", "no conflict, no blame"


def test_execution_pipe_and_divergence():
    """FFMA at 80 % of one instruction a cycle and sub-partition; with a third of the lanes it is divergence."""
    executed = int(0.8 * 4 * 132 * 100_000)
    line = {FFMA: {L.COUNT_EXECUTED: executed, L.COUNT_THREADS: 32 * executed}}
    found = limiter(**running(100_000), line=line)
    assert found.kind in ("FMA pipe", "issue slots")
    assert found.utilisation["FMA pipe"] == pytest.approx(0.8, rel=1e-3)
    line[FFMA][L.COUNT_THREADS] = 10 * executed
    found = limiter(**running(100_000), line=line)
    assert found.kind == "divergence"
    assert re.search(r"10\.\d of 32 threads", found.sentence)


def test_too_few_blocks():
    record = make_record(**running(10_000), grid=20)
    record.sm_blocks[:] = 0
    record.sm_blocks[:20] = 1
    record.sm_active_cycles[20:] = 0
    found = find_limiter(Counts(record))
    assert found.kind == "too few blocks"
    assert "20 blocks occupy 20 of 132 SMs" in found.sentence


def test_tail():
    record = make_record(**running(10_000), grid=132)
    record.sm_active_cycles[1:] = 4_000
    found = find_limiter(Counts(record))
    assert found.kind == "tail"
    assert "40 % of the time" in found.sentence


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (L.STALL_LONG, "memory latency"),
        (L.STALL_BARRIER, "barriers"),
        (L.STALL_WAIT, "instruction latency"),
        (L.STALL_NO_INSTRUCTION, "instruction fetch"),
        (L.STALL_SLEEPING, "latency"),
    ],
)
def test_latency_is_named_by_its_stall_reason(reason, kind):
    found = limiter(**running(10_000), line={STS: {stall(reason): 10_000_000}})
    assert found.kind == kind
    assert f"({L.STALLS[reason]})" in found.sentence
    assert "100 % of their time" in found.sentence


def test_stalls_on_conflicting_shared_accesses_are_conflicts():
    line = {LDS: {stall(L.STALL_SHORT): 10_000_000, L.COUNT_SHARED_WAVEFRONTS: 3200, L.COUNT_SHARED_IDEAL: 100}}
    assert limiter(**running(10_000), line=line).kind == "bank conflicts"


def test_a_kernel_that_never_waits():
    """Only issues are charged: no stall reason can be blamed, and none is."""
    assert limiter(**running(100_000), program=make_program((("EXIT", None),))).kind == "issue"


def test_utilisation_is_sorted_and_falls_with_time():
    counts = Counts(make_record(line={LDS: {L.COUNT_SHARED_WAVEFRONTS: 10_000, L.COUNT_SHARED_IDEAL: 10_000}}))
    short, long = utilisation(counts, 1_000), utilisation(counts, 2_000)
    assert list(short.values()) == sorted(short.values(), reverse=True)
    for name, share in short.items():
        assert long[name] == pytest.approx(share / 2)
