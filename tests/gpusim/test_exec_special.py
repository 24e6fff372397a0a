"""Special registers: who a thread is and where, against the launch's own numbers."""

import numpy as np
import pytest

from gpusim.config import load_config
from gpusim.engine.sm.space import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from gpusim.launch.memory import BASE
from isa.errors import UnknownInstruction
from isa.microops import SPECIAL_REGISTERS
from tests.gpusim import sass

BLOCK = (5, 3, 4)
THREADS = 60
# out[thread of the block] of block (1, 2, 3), which is one of 2 x 3 x 4.
TEXT = """
S2R R8, SR_CTAID.Z
S2R R10, SR_TID.X
S2R R11, SR_TID.Y
S2R R12, SR_TID.Z
IMAD R11, R12, 0x3, R11
IMAD R10, R11, 0x5, R10
IMAD.WIDE.U32 R2, R10, 0x4, c[0x0][0x210]
{read}
ISETP.NE.AND P0, PT, R8, 0x3, PT
@P0 EXIT
S2R R9, SR_CTAID.Y
ISETP.NE.AND P0, PT, R9, 0x2, PT
@P0 EXIT
S2R R9, SR_CTAID.X
ISETP.NE.AND P0, PT, R9, 0x1, PT
@P0 EXIT
STG.E desc[UR4][R2.64], R6
"""


def read(register, instruction="S2R R6, {}"):
    out = np.zeros(THREADS, np.uint32)
    sass.run(TEXT.format(read=instruction.format(register)), out, grid=(2, 3, 4), block=BLOCK)
    return out.tolist()


def thread(k):
    return k % 5, k // 5 % 3, k // 15


MEANING = {
    "SR_TID.X": lambda k: thread(k)[0],
    "SR_TID.Y": lambda k: thread(k)[1],
    "SR_TID.Z": lambda k: thread(k)[2],
    "SR_TID": lambda k: thread(k)[0] | thread(k)[1] << 16 | thread(k)[2] << 26,
    "SR_CTAID.X": lambda k: 1,
    "SR_CTAID.Y": lambda k: 2,
    "SR_CTAID.Z": lambda k: 3,
    "SR_LANEID": lambda k: k % 32,
    "SR_EQMASK": lambda k: 1 << k % 32,
    "SR_LTMASK": lambda k: sum(1 << j for j in range(32) if j < k % 32),
    "SR_LEMASK": lambda k: sum(1 << j for j in range(32) if j <= k % 32),
    "SR_GTMASK": lambda k: sum(1 << j for j in range(32) if j > k % 32),
    "SR_GEMASK": lambda k: sum(1 << j for j in range(32) if j >= k % 32),
    "SR_SMEMSZ": lambda k: 1024,
    "SR_CgaSize": lambda k: 1,
    "SR_CgaCtaId": lambda k: 0,
    "SRZ": lambda k: 0,
    "SR_CLOCKHI": lambda k: 0,
    "SR_GLOBALTIMERHI": lambda k: 0,
}


ELSEWHERE = (
    "SR_SMID", "SR_VIRTUALSMID", "SR_WARPID", "SR_VIRTID", "SR_VIRTCFG", "SR_SWINHI", "SR_LWINHI", "SR_CLOCKLO",
    "SR_GLOBALTIMERLO",
)  # fmt: skip
"""Read by tests of their own, below."""


def test_every_register_that_is_modelled_is_read_here():
    read_here = {SPECIAL_REGISTERS[name] for name in (*MEANING, *ELSEWHERE)}
    assert read_here == set(SPECIAL_REGISTERS.values())


@pytest.mark.parametrize("register", MEANING)
def test_what_a_thread_reads(register):
    """SR_TID packs x, y and z as PTX's %tid does not show; clocks do not reach 32 bits in a short run."""
    assert read(register) == [MEANING[register](k) for k in range(THREADS)]


def test_uniform_reads_are_those_of_lane_0():
    assert read("SR_LANEID", "S2UR UR6, {}\nMOV R6, UR6") == [0] * THREADS
    assert read("SR_TID.Y", "S2UR UR6, {}\nMOV R6, UR6") == [thread(k - k % 32)[1] for k in range(THREADS)]


def test_where_a_warp_runs():
    """Warps of a block sit in different places of one SM; the virtual id names both."""
    sms = load_config("tiny").sm.count
    sm, virtual_sm, warp, both = (read(f"SR_{name}") for name in ("SMID", "VIRTUALSMID", "WARPID", "VIRTID"))
    assert sm == virtual_sm and len(set(sm)) == 1 and sm[0] < sms
    assert len(set(warp[:32])) == len(set(warp[32:])) == 1 and warp[0] != warp[32]
    assert both == [s << 20 | w << 8 for s, w in zip(sm, warp, strict=True)]
    assert set(read("SR_VIRTCFG")) == {sms << 20 | 64 << 8}


def test_windows_lie_outside_of_device_memory():
    shared, local = set(read("SR_SWINHI")), set(read("SR_LWINHI"))
    assert shared == {SHARED_WINDOW >> 32} and local == {LOCAL_WINDOW >> 32}
    assert WINDOW_BYTES == 1 << 32  # the high word alone tells a window
    assert all(not window << 32 <= BASE < (window + 1) << 32 for window in shared | local)


@pytest.mark.parametrize("clock", ["SR_CLOCKLO", "SR_GLOBALTIMERLO"])
def test_clocks_advance_with_the_work_between(clock):
    """At least the stalls of the 200 instructions lie between the reads; nanoseconds at the SM's clock."""
    waits = "\n".join(["IADD3 R7, R7, 0x1, RZ"] * 200)
    out = np.zeros(32, np.uint32)
    text = f"S2R R4, {clock}\n{waits}\nS2R R5, {clock}\nIADD3 R6, R5, -R4, RZ\n@RETURN"
    result = sass.run(text, out)
    cycles = 200 * 5
    least = cycles if clock == "SR_CLOCKLO" else cycles * 1000 // load_config("tiny").gpu.clock_mhz - 1
    assert (out == out[0]).all() and least <= out[0] < result.cycles


def test_pairs_of_registers():
    """CS2R reads 64 bits, or 32 if it says so; a register after the one it reads stays."""
    out = np.zeros(32, np.uint32)
    sass.run("MOV R7, 0x5\nCS2R R6, SR_CLOCKLO\nMOV R6, R7\n@RETURN", out)
    assert (out == 0).all()  # the clock's upper word
    sass.run("MOV R7, 0x5\nCS2R.32 R6, SR_CLOCKLO\nMOV R6, R7\n@RETURN", out)
    assert (out == 5).all()
    sass.run("MOV R6, 0x5\nMOV R7, 0x6\nCS2R R6, SRZ\nIADD3 R6, R6, R7, RZ\n@RETURN", out)
    assert (out == 0).all()


def test_registers_that_are_not_modelled_are_refused():
    with pytest.raises(UnknownInstruction, match="special register SR_NOTHING"):
        read("SR_NOTHING")
