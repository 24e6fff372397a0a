"""Barriers of a block, written as SASS: who waits for whom, and what a reducing barrier says."""

import numpy as np
import pytest

from gpusim.errors import BarrierError
from tests.gpusim import sass

# Warp 0 stores last: it spins a while before it writes what the others read behind the barrier.
SLOW_WRITER = """
S2R R0, SR_TID.X
ISETP.GE.U32.AND P1, PT, R0, 0x20, PT
@P1 BRA `(arrive)
MOV R1, 0x40
again:
IADD3 R1, R1, -0x1, RZ
ISETP.NE.U32.AND P0, PT, R1, RZ, PT
@P0 BRA `(again)
MOV R1, 0x2a
STS [0x400], R1
arrive:
{barrier}
LDS R6, [0x400]
@RETURN
"""


def out_of(text, threads, **options):
    out = np.zeros(threads, np.uint32)
    sass.run(text, out, block=threads, static_shared_bytes=128, **options)
    return out.tolist()


@pytest.mark.parametrize(
    "barrier",
    [
        "BAR.SYNC.DEFER_BLOCKING 0x0",
        "BAR.SYNCALL.DEFER_BLOCKING",
        "BAR.SYNC.DEFER_BLOCKING 0x3, 0x60",
        "MOV R9, 0x13\nBAR.SYNC.DEFER_BLOCKING R9, 0x60",  # the barrier is the register's value modulo 16
        "MOV R9, 0x60\nBAR.SYNC.DEFER_BLOCKING 0x5, R9",
    ],
)
def test_all_see_what_the_last_to_arrive_has_written(barrier):
    assert out_of(SLOW_WRITER.format(barrier=barrier), 96) == [42] * 96


PROGRAMS = {
    # Warps 1 and 2 arrive and go on; warp 0 waits for them, and only then reads what warp 2 wrote before.
    "arrival does not wait": ("""
    S2R R0, SR_TID.X
    ISETP.LT.U32.AND P0, PT, R0, 0x20, PT
    @P0 BRA `(wait)
    MOV R1, 0x7
    STS [0x400], R1
    BAR.ARV 0x2, 0x60
    MOV R6, 0x1
    BRA `(end)
    wait:
    BAR.SYNC.DEFER_BLOCKING 0x2, 0x60
    LDS R6, [0x400]
    end:
    @RETURN
    """, [7] * 32 + [1] * 64),
    "reductions one after the other start anew": ("""
    S2R R0, SR_TID.X
    ISETP.LT.U32.AND P1, PT, R0, 0x30, PT
    BAR.RED.POPC.DEFER_BLOCKING 0x0, P1
    B2R.RESULT R6
    BAR.RED.POPC.DEFER_BLOCKING 0x0, !P1
    B2R.RESULT R7
    IMAD R6, R6, 0x100, R7
    @RETURN
    """, [0x3010] * 64),
    # Both sides of a branch have a barrier of their own in the code, which is the same barrier of the block.
    "lanes of a warp may arrive one group after the other": ("""
    S2R R0, SR_TID.X
    LOP3.LUT R1, R0, 0x1, RZ, 0xc0, !PT
    ISETP.NE.U32.AND P0, PT, R1, RZ, PT
    BSSY B0, `(met)
    @P0 BRA `(odd)
    MOV R6, 0x4
    BAR.SYNC.DEFER_BLOCKING 0x0
    BRA `(join)
    odd:
    MOV R6, 0x5
    BAR.SYNC.DEFER_BLOCKING 0x0
    join:
    BSYNC B0
    met:
    @RETURN
    """, [4, 5] * 32),
    "a barrier that is guarded out is passed": (
        "ISETP.NE.U32.AND P0, PT, RZ, RZ, PT\nMOV R6, 0x3\n@P0 BAR.SYNC.DEFER_BLOCKING 0x0\n@RETURN", [3] * 32
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_what_each_thread_has_in_the_end(text, expected):
    assert out_of(text, len(expected)) == expected


@pytest.mark.parametrize("chosen", [0, 1, 40, 63, 64])
def test_reductions_over_the_block(chosen):
    """The predicate holds in the first `chosen` threads of 64. PTX manual, barrier.cta.red."""
    text = """
    S2R R0, SR_TID.X
    ISETP.LT.U32.AND P1, PT, R0, {chosen}, PT
    BAR.RED.{kind}.DEFER_BLOCKING 0x0, P1
    MOV R6, 0x5
    {read}
    @RETURN
    """
    for kind, read, value in (
        ("POPC", "B2R.RESULT R6", chosen),
        ("AND", "B2R.RESULT RZ, P2\n@P2 MOV R6, 0x9", 9 if chosen == 64 else 5),
        ("OR", "B2R.RESULT RZ, P2\n@P2 MOV R6, 0x9", 9 if chosen else 5),
    ):
        assert out_of(text.format(chosen=hex(chosen), kind=kind, read=read), 64) == [value] * 64
    some = "ISETP.LT.U32.AND P0, PT, R0, 0x4, PT\n@P0 B2R.RESULT R6"
    found = out_of(text.format(chosen=hex(chosen), kind="POPC", read=some), 64)
    assert found == [chosen] * 4 + [5] * 60  # of the lanes that execute alone
    # A result that goes to PT is dropped.
    assert out_of(text.format(chosen=hex(chosen), kind="OR", read="B2R.RESULT RZ, PT"), 64) == [5] * 64


EARLY_EXIT = """
S2R R0, SR_TID.X
ISETP.GE.U32.AND P0, PT, R0, 0x30, PT
@P0 EXIT
BAR.SYNC.DEFER_BLOCKING 0x0
MOV R6, 0x1
@RETURN
"""


def test_threads_that_left_never_arrive():
    with pytest.raises(BarrierError, match="48 of 64 threads"):
        out_of(EARLY_EXIT, 64)
    assert out_of(EARLY_EXIT, 64, strict_barriers=False) == [1] * 48 + [0] * 16


def test_exit_opens_a_barrier_that_waits_for_nobody_else():
    """Warp 1 leaves late, when warp 0 waits already; without strict barriers that completes the barrier."""
    text = """
    S2R R0, SR_TID.X
    ISETP.LT.U32.AND P1, PT, R0, 0x20, PT
    @P1 BRA `(wait)
    MOV R1, 0x80
    again:
    IADD3 R1, R1, -0x1, RZ
    ISETP.NE.U32.AND P0, PT, R1, RZ, PT
    @P0 BRA `(again)
    EXIT
    wait:
    BAR.SYNC.DEFER_BLOCKING 0x0
    MOV R6, 0x1
    @RETURN
    """
    assert out_of(text, 64, strict_barriers=False) == [1] * 32 + [0] * 32
    with pytest.raises(BarrierError, match="32 of 64 threads"):
        out_of(text, 64)


def test_a_barrier_for_more_threads_than_there_are_never_opens():
    with pytest.raises(BarrierError, match="barrier 1 is never completed: 32 of 64 threads"):
        out_of("BAR.SYNC.DEFER_BLOCKING 0x1, 0x40\nMOV R6, 0x1\n@RETURN", 32)
