"""Control flow written as SASS: where lanes go, with which mask, and what each of them has done in the end."""

import dataclasses

import numpy as np
import pytest

import gpusim
from gpusim.errors import KernelError
from isa.instruction import parse_instruction
from tests.gpusim import sass

ALL = list(range(32))


def out_of(text, threads=32, **options):
    out = np.zeros(threads, np.uint32)
    sass.run("S2R R0, SR_TID.X\nMOV R6, 0x0\n" + text, out, block=threads, **options)
    return out.tolist()


# R4 = 0, 1, 2 or 3: the lane modulo 4. Each lane runs through one of four places, which leaves its number in R6.
FOUR_WAYS = """
LOP3.LUT R4, R0, 0x3, RZ, 0xc0, !PT
MOV R5, RZ
BSSY B0, `(met)
{go}
base:
NOP
first:
MOV R6, 0x64
BRA `(join)
MOV R6, 0x65
BRA `(join)
MOV R6, 0x66
BRA `(join)
MOV R6, 0x67
BRA `(join)
join:
BSYNC B0
met:
@RETURN
"""


@pytest.mark.parametrize(
    "go",
    [
        "IMAD R4, R4, 0x20, RZ\nBRX R4 `(first)",  # two instructions of 16 bytes to a place
        "IMAD R4, R4, 0x20, RZ\nBRX R4 0x10",  # counted from the instruction behind the branch
        "IMAD R4, R4, 0x20, RZ\nJMX R4 `(first)",
        "IMAD R4, R4, 0x20, RZ\nRET.REL.NODEC R4 `(first)",
        "IMAD R4, R4, 0x20, 0x10\nCALL.REL.NOINC R4 `(base)",
        "LEPC R8 `(first)\nIMAD R4, R4, 0x20, R8\nCALL.ABS.NOINC R4",
        "LEPC R8 `(first)\nIMAD R4, R4, 0x20, R8\nIADD3 R4, R4, 0x10, RZ\nJMX R4 -0x10",  # absolute but for the number
        "LEPC R8\nIMAD R4, R4, 0x20, R8\nRET.ABS.NODEC R4 0x40",  # four instructions behind LEPC
    ],
    ids=["brx label", "brx offset", "jmx", "ret", "call", "call absolute", "jmx absolute", "ret absolute"],
)
def test_addresses_from_registers(go):
    """Each group of lanes with one target goes there, whatever the instruction is called."""
    assert out_of(FOUR_WAYS.format(go=go)) == [100 + lane % 4 for lane in ALL]


def test_indirect_branch_of_some_lanes_only():
    """A false guard or condition lets a lane fall through, to the first place."""
    odd = "LOP3.LUT R7, R0, 0x1, RZ, 0xc0, !PT\nISETP.NE.U32.AND P0, PT, R7, RZ, PT\nIMAD R4, R4, 0x20, RZ\n"
    for branch in ("@P0 BRX R4 `(first)", "BRX P0, R4 `(first)"):
        if branch.startswith("@"):
            assert out_of(FOUR_WAYS.format(go=odd + branch)) == [100 + (lane % 4 if lane % 2 else 0) for lane in ALL]
    assert out_of(FOUR_WAYS.format(go="ISETP.NE.U32.AND P0, PT, RZ, RZ, PT\n@P0 BRX R4 `(first)")) == [100] * 32


CONDITION = """
LOP3.LUT R4, R0, 0x7, RZ, 0xc0, !PT
ISETP.EQ.U32.AND P0, PT, R4, 0x3, PT
BSSY B0, `(met)
{branch} `(taken)
IADD3 R6, R6, 0x1, RZ
BRA `(join)
taken:
IADD3 R6, R6, 0x10, RZ
join:
BSYNC B0
met:
@RETURN
"""


@pytest.mark.parametrize(
    "branch, taken",
    [
        ("@P0 JMP", [lane for lane in ALL if lane % 8 == 3]),
        ("BRA P0,", [lane for lane in ALL if lane % 8 == 3]),
        ("BRA !P0,", [lane for lane in ALL if lane % 8 != 3]),
        ("BRA.U UP0,", []),
        ("@P0 BRA.U", []),
        ("@PT BRA.U", ALL),
        ("BRA.ANY P0,", ALL),
        ("@!PT BRA", []),
    ],
)
def test_conditional_branches(branch, taken):
    """.ANY takes all lanes if the condition holds in any, .U if it holds in all."""
    assert out_of("UISETP.NE.U32.AND UP0, UPT, URZ, URZ, UPT\n" + CONDITION.format(branch=branch)) == [
        0x10 if lane in taken else 1 for lane in ALL
    ]


@pytest.mark.parametrize("mask, missing", [(0xFFFFFFFF, True), (0x0000FFFF, True), (0xFFFF0000, False)])
def test_branch_where_lanes_are_missing(mask, missing):
    """BRA.DIV is taken if lanes of its mask live but do not run here: lanes 16..31 run, 0..15 are on the other side."""
    text = f"""
    ISETP.LT.U32.AND P0, PT, R0, 0x10, PT
    UMOV UR4, {mask:#x}
    BSSY B0, `(met)
    @P0 BRA `(others)
    BRA.DIV UR4, `(divergent)
    MOV R6, 0x1
    BRA `(join)
    divergent:
    MOV R6, 0x2
    BRA `(join)
    others:
    MOV R6, 0x3
    join:
    BSYNC B0
    met:
    @RETURN
    """
    assert out_of(text) == [3] * 16 + [2 if missing else 1] * 16


PROGRAMS = {
    # A guarded BSSY names its lanes only, a guarded BSYNC that not all pass holds nobody, a false one is nothing.
    "guards of barriers between lanes": ("""
    ISETP.LT.U32.AND P0, PT, R0, 0x8, PT
    ISETP.NE.U32.AND P1, PT, RZ, RZ, PT
    @P1 BSSY B0, `(met)
    @P1 BREAK B0
    @P1 WARPSYNC.ALL
    @P1 BMOV.32.CLEAR R6, B0
    @P1 CALL.REL.NOINC `(met)
    @P1 EXIT
    @P1 KILL
    BSSY B0, `(met)
    @P0 BSYNC B0
    IADD3 R6, R6, 0x5, RZ
    BSYNC B0
    met:
    @RETURN
    """, [5] * 32),
    # BMOV reads who is to meet, clears it if asked to, and puts back what the lowest lane that runs has.
    "convergence barriers in registers": ("""
    ISETP.LT.U32.AND P0, PT, R0, 0x8, PT
    @!P0 BRA `(end)
    BSSY B3, `(end)
    BMOV.32.CLEAR R5, B3
    BMOV.32 R7, B3
    IADD3 R8, R5, R0, RZ
    BMOV.32 B3, R8
    BMOV.32 R6, B3
    LEA R6, R7, R6, 0x10
    BMOV.32.CLEAR RZ, B3
    end:
    @RETURN
    """, [0xFF] * 8 + [0] * 24),
    # As kernels for sm_87 begin: with CLEAR the other one is empty afterwards, without it is not.
    "convergence barriers from each other": ("""
    BMOV.32 B1, R0
    BMOV.32 B2, 0x70
    BMOV.32.CLEAR B1, B2
    BMOV.32 R5, B1
    BMOV.32 R7, B2
    BMOV.32 B3, B1
    BMOV.32 R8, B3
    BMOV.32 R9, B1
    LEA R6, R7, R5, 0x8
    IADD3 R6, R6, R8, R9
    BMOV.32.CLEAR RZ, B1
    BMOV.32.CLEAR RZ, B3
    @RETURN
    """, [3 * 0x70] * 32),
    # ELECT chooses one of the lanes that run: its number in all of them, and a predicate in it alone.
    "elected lane": ("""
    ISETP.LT.U32.AND P0, PT, R0, 0x5, PT
    @P0 BRA `(end)
    ELECT P1, R4, PT
    MOV R6, R4
    @P1 MOV R6, 0x100
    ELECT PT, R4, PT
    end:
    @RETURN
    """, [0] * 5 + [0x100] + [5] * 26),
    # WARPSYNC with a mask from a register: the lanes of both sides meet in the middle of them, and go on apart.
    "warps wait for their named lanes": ("""
    ISETP.LT.U32.AND P0, PT, R0, 0x10, PT
    MOV R8, 0xffffffff
    BSSY B0, `(met)
    @P0 BRA `(others)
    MOV R4, 0x1
    STS [0x400], R4
    WARPSYNC R8
    BRA `(join)
    others:
    WARPSYNC 0xffffffff
    LDS R6, [0x400]
    join:
    BSYNC B0
    met:
    @RETURN
    """, [1] * 16 + [0] * 16),
    "hints change nothing": ("""
    MOV R6, 0x4
    NOP
    PMTRIG 0x1
    YIELD
    NANOSLEEP 0x10
    ERRBAR
    FENCE.VIEW.ASYNC.S
    DEPBAR.LE SB0, 0x0, {1,2}
    CCTL.IVALL
    CCTL.E.PF1 [R2.64]
    @RETURN
    """, [4] * 32),
    # Two lanes sync with a whole warp whose other lanes have gone past and wait where all meet, as in the last step of
    # numba-cuda's reduction, which runs on hardware.
    "a warpsync whose others wait behind it is passed": ("""
    BSSY B0, `(met)
    ISETP.LT.U32.AND P0, PT, R0, 0x2, PT
    @!P0 BRA `(met)
    WARPSYNC.ALL
    IADD3 R6, R6, 0x5, RZ
    met:
    BSYNC B0
    @RETURN
    """, [5] * 2 + [0] * 30),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_what_each_lane_has_in_the_end(text, expected):
    assert out_of(text, static_shared_bytes=16) == expected


@pytest.mark.parametrize("how", ["EXIT", "KILL"])
def test_lanes_leave_alone_and_together(how):
    text = f"""
    LOP3.LUT R4, R0, 0x1, RZ, 0xc0, !PT
    ISETP.NE.U32.AND P0, PT, R4, RZ, PT
    MOV R6, 0x9
    @P0 {how}
    @RETURN
    {how}
    """
    assert out_of(text) == [9, 0] * 16


def test_own_address():
    """LEPC without an operand gives the address of the instruction itself, the fourth here, in the lanes that run."""
    assert out_of("MOV R9, 0x7\nLEPC R8\nIADD3 R6, R8, R9, RZ\n@RETURN") == [3 * 16] * 32  # R9 is the upper word
    lower_half = "ISETP.LT.U32.AND P0, PT, R0, 0x10, PT\nMOV R8, 0x1\n@P0 LEPC R8\nMOV R6, R8\n@RETURN"
    assert out_of(lower_half) == [4 * 16] * 16 + [1] * 16


@pytest.mark.parametrize(
    "instruction, message",
    [
        ("BPT.TRAP 0x1", "trap"),
        ("MOV R4, 0x8000\nBRX R4 0x0", "jump"),
        ("MOV R4, 0x8000\nCALL.ABS.NOINC R4", "jump"),
        ("MOV R4, 0xffff0000\nRET.ABS.NODEC R4 0x0", "jump"),
    ],
)
def test_ends_with_an_error(instruction, message):
    with pytest.raises(KernelError, match=message) as caught:
        out_of(instruction + "\n@RETURN")
    assert caught.value.thread == (0, 0, 0) and instruction.split("\n")[-1] in str(caught.value)


@pytest.mark.parametrize("jump", ["BRA `(behind)", "JMP `(behind)"])
def test_code_ends_with_an_error_too(jump):
    with pytest.raises(KernelError, match="past the end of the kernel's code"):
        out_of(jump + "\n@RETURN\nEXIT\nbehind:")


@pytest.mark.parametrize("scope, waits", [("CTA", False), ("GPU", True), ("SYS", False)])
def test_a_fence_waits_for_stores(scope, waits):
    """A fence of the GPU holds the warp until its stores have reached L2; one of the block does not, and one of the
    system takes longer than they do."""
    out = np.zeros(32, np.uint32)
    text = "S2R R0, SR_TID.X\nS2R R4, SR_CLOCKLO\n{fence}\nS2R R5, SR_CLOCKLO\nIADD3 R6, R5, -R4, RZ\n@RETURN"
    store = f"IMAD.WIDE.U32 R2, R0, 0x4, c[0x0][{sass.PARAMETERS:#x}]\nSTG.E desc[UR4][R2.64], R6\n"
    times = []
    for before in ("", store):
        sass.run(text.format(fence=f"{before}MEMBAR.SC.{scope}"), out)
        times.append(int(out[0]))
    least = 200  # a store takes longer than that to L2 and back
    assert (times[1] - times[0] > least) == waits
    assert (times[0] > 900) == (scope == "SYS")


STORES = "MOV R4, 0x7\nSTS [0x400], R4\n"
SPINS = "again:\nLDS R5, [0x400]\nISETP.EQ.U32.AND P1, PT, R5, RZ, PT\n@P1 BRA `(again)\n"


@pytest.mark.parametrize("ways", [(STORES, SPINS), (SPINS, STORES)], ids=["stores first", "spins first"])
def test_lanes_that_spin_without_a_yield_do_not_keep_the_others_from_running(ways):
    """Half of the warp waits for what the other half stores, whichever of them goes first."""
    text = f"""
    ISETP.LT.U32.AND P0, PT, R0, 0x10, PT
    STS [0x400], RZ
    @P0 BRA `(other)
    {ways[0]}
    BRA `(done)
    other:
    {ways[1]}
    done:
    LDS R6, [0x400]
    @RETURN
    """
    assert out_of(text, static_shared_bytes=16, max_cycles=200_000) == [7] * 32


@pytest.mark.parametrize("target", [-16, 1 << 20])
@pytest.mark.parametrize("branch", ["BRA `(far)", "JMP `(far)", "WARPSYNC.COLLECTIVE R4, `(far)"])
def test_branches_to_where_no_code_is(branch, target):
    """No compiler makes them; a damaged program does."""
    program = sass.assemble("S2R R0, SR_TID.X\nMOV R4, 0xffffffff\nISETP.GE.U32.AND P0, PT, R0, 0x3, PT\nNOP\nEXIT")
    far = parse_instruction(48, f"@P0 {branch}", sass.ENCODING, {"far": target})
    code = (*program.instructions[:3], far, *program.instructions[4:])
    with pytest.raises(KernelError, match="outside the kernel's code") as caught:
        gpusim.simulate(dataclasses.replace(program, instructions=code), 1, 32, (np.zeros(32, np.uint32),), gpu="tiny")
    assert caught.value.thread == (3, 0, 0)


@pytest.mark.parametrize("mode", ["detailed", "functional"])
def test_a_barrier_of_the_block_in_a_collective(mode):
    """As a barrier of a grid is compiled: lanes that run in another's copy go on with it, and part where that ends."""
    text = """
    ISETP.EQ.U32.AND P0, PT, R0, RZ, PT
    @P0 BRA `(together)
    MOV R6, 0x1
    together:
    WARPSYNC.COLLECTIVE.ALL `(first)
    BAR.SYNC 0x0
    ENDCOLLECTIVE
    first:
    IADD3 R6, R6, 0x10, RZ
    WARPSYNC.COLLECTIVE.ALL `(second)
    BAR.SYNC.DEFER_BLOCKING 0x0
    ENDCOLLECTIVE
    second:
    IADD3 R6, R6, 0x20, RZ
    @RETURN
    """
    assert out_of(text, 64, mode=mode) == [0x30] + [0x31] * 63
