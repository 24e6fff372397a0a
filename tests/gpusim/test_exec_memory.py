"""Accesses to memory written as SASS that `tests/oracle/test_memory.py` does not have: scaled addresses, atomics on
local memory, gathered constants, bad addresses."""

import re

import numpy as np
import pytest

from gpusim.engine.sm.space import LOCAL_WINDOW, SHARED_WINDOW
from gpusim.errors import MemoryAccessError
from tests.gpusim import sass

IN = f"c[0x0][{sass.PARAMETERS + 8:#x}]"
BYTES = np.random.default_rng(1).integers(0, 256, 32 * 16).astype(np.uint8)
START = "S2R R0, SR_TID.X\nMOV R6, 0x11111111\nMOV R7, 0x22222222\n"


def run(text, **options):
    out, data = np.zeros(32, np.uint32), BYTES.copy()
    options.setdefault("static_shared_bytes", 1024)
    sass.run(START + text, out, data, **options)
    return out, data


@pytest.mark.parametrize("scale, factor", [(".X4", 4), (".X8", 8), (".X16", 16)])
def test_scaled_shared_addresses(scale, factor):
    text = f"IMAD R4, R0, {factor:#x}, RZ\nSTS [R4+0x400], R0\nUMOV UR4, 0x400\nIADD3 R4, R0, 0x1, RZ\n"
    out, _ = run(text + f"LDS R6, [R4{scale}+UR4+-{factor:#x}]\n@RETURN", static_shared_bytes=1024)
    assert out.tolist() == list(range(32))


def test_an_atomic_on_generic_addresses_says_where_it_was_done():
    """Lanes below 16 mean shared memory, where it is done; the others local memory, which is left to the program."""
    text = f"""
    ISETP.LT.U32.AND P1, PT, R0, 0x10, PT
    IMAD R4, R0, 0x4, RZ
    SEL R4, R4, 0x8, P1
    IADD3 R2, R4, 0x400, RZ
    SEL R4, R2, R4, P1
    MOV R8, {SHARED_WINDOW >> 32:#x}
    SEL R5, R8, {LOCAL_WINDOW >> 32:#x}, P1
    IADD3 R8, R0, 0x64, RZ
    ST.E desc[UR4][R4.64], R8
    MOV R9, 0x3e8
    ATOM.E.ADD.STRONG.GPU P0, R10, [R4.64], R9
    LD.E R11, [R4.64]
    SEL R6, R11, RZ, P0
    @!P0 IADD3 R6, R11, 0x10000, RZ
    @RETURN
    """
    out, _ = run(text, local_bytes=16)
    assert out.tolist() == [1100 + lane if lane < 16 else 0x10000 + 100 + lane for lane in range(32)]


def test_constants_at_addresses_from_registers():
    """LDC with a register gathers, from a uniform base too."""
    bank = BYTES[:256].view(np.uint32)
    for address, expected in (("R4+UR8", bank[1:33]), ("UR8", [bank[1]] * 32)):
        text = f"IMAD R4, R0, 0x4, RZ\nUMOV UR8, 0x4\nLDC R6, c[0x3][{address}]\n@RETURN"
        out, _ = run(text, constant_banks={3: bank.tobytes()})
        np.testing.assert_array_equal(out, expected)


def test_a_uniform_load_in_divergent_code_is_for_all_lanes():
    """Some lanes execute it, and all read what it has loaded."""
    text = """
    ISETP.LT.U32.AND P0, PT, R0, 0x7, PT
    BSSY B0, `(met)
    @P0 BRA `(join)
    LDCU.128 UR8, c[0x3][0x0]
    join:
    BSYNC B0
    met:
    MOV R6, UR8
    IADD3 R6, R6, UR11, RZ
    @RETURN
    """
    out, _ = run(text, constant_banks={3: np.array([3, 0, 0, 4], np.uint32).tobytes()})
    assert out.tolist() == [7] * 32


def test_lanes_that_share_a_constant_cost_one_pass():
    """Indexed constants are read one address after the other."""

    def cycles(address):
        text = "\n".join([address, *["LDC R6, c[0x3][R4]"] * 64, "@RETURN"])
        return sass.run(START + text, np.zeros(32, np.uint32), BYTES, constant_banks={3: BYTES.tobytes()}).cycles

    together, apart = cycles("MOV R4, 0x8"), cycles("IMAD R4, R0, 0x4, RZ")
    assert apart - together >= 64 * 31


BAD = [
    ("MOV R2, 0x402\nLDS R6, [R2]", "misaligned.*shared"),
    ("MOV R2, 0x3000\nSTS [R2], R6", "out of bounds.*shared"),
    ("MOV R2, 0x7fc\nLDS.64 R6, [R2+0x4]", "out of bounds.*shared"),
    ("MOV R2, 0x40\nLDL R6, [R2]", "out of bounds.*local"),
    ("STL [0x2], R6", "misaligned.*local"),
    ("MOV R2, 0xfffe\nLDC R6, c[0x3][R2+0x2]", "out of bounds.*constant"),
    ("MOV R2, 0x2\nLDC R6, c[0x3][R2]", "misaligned.*constant"),
    (f"IMAD.WIDE.U32 R2, R0, 0x4, {IN}\nLDG.E R6, [R2.64+0x1]", "misaligned.*global"),
    (f"IMAD.WIDE.U32 R2, R0, 0x4, {IN}\nSTG.E [R2.64+0x1f0], R6", "out of bounds.*global"),
    ("MOV R2, RZ\nMOV R3, RZ\nREDG.E.ADD.STRONG.GPU [R2.64], R6", "out of bounds.*global"),
    (f"MOV R2, 0x40\nMOV R3, {LOCAL_WINDOW >> 32:#x}\nLD.E R6, [R2.64]", "out of bounds.*local"),
    ("MOV R2, RZ\nMOV R3, RZ\nLD.E R6, [R2.64]", "out of bounds global"),
    ("MOV R2, 0x7f8\nLDSM.16.M88.4 R8, [R2+0x8]", "out of bounds.*shared"),
    ("MOV R2, 0x408\nLDSM.16.M88 R8, [R2]", "misaligned.*shared"),
    ("MOV R2, 0x200\nSTSM.16.M88.2 [R2], R8", "out of bounds.*shared"),
    ("MOV R2, 0x404\nSYNCS.ARRIVE.TRANS64.A1T0 RZ, [R2], RZ", "misaligned.*shared"),
    ("MOV R2, 0x800\nSYNCS.EXCH.64 R8, [R2], R8", "out of bounds.*shared"),
    ("MOV R2, 0x800\nARRIVES.LDGSTSBAR.64 [R2]", "out of bounds.*shared"),
    ("MOV R2, 0x404\nARRIVES.LDGSTSBAR.64 [R2]", "misaligned.*shared"),
]


@pytest.mark.parametrize("text, message", BAD, ids=[text.split("\n")[-1] for text, _ in BAD])
def test_bad_addresses(text, message):
    with pytest.raises(MemoryAccessError) as caught:
        run(text + "\n@RETURN", local_bytes=16)
    error = caught.value
    assert re.match(message, f"{error.problem} {error.space}") and text.split("\n")[-1] in str(error)


@pytest.mark.parametrize("text", [text for text, _ in BAD], ids=[text.split("\n")[-1] for text, _ in BAD])
def test_an_access_that_no_lane_makes_has_no_address(text):
    """With a false guard a bad address is none, and nothing changes."""
    *before, access = text.split("\n")
    rows = [*before, "ISETP.NE.U32.AND P1, PT, RZ, RZ, PT", f"@P1 {access}", "@RETURN"]
    out, data = run("\n".join(rows), local_bytes=16)
    assert out.tolist() == [0x11111111] * 32 and (data == BYTES).all()


def test_the_first_error_of_an_sm_is_the_one_reported():
    """Two warps fail; the one whose instruction issues first is named."""
    text = """
    ISETP.LT.U32.AND P0, PT, R0, 0x20, PT
    @P0 LDS R6, [0x402]
    MOV R4, 0x100
    again:
    IADD3 R4, R4, -0x1, RZ
    ISETP.NE.U32.AND P1, PT, R4, RZ, PT
    @P1 BRA `(again)
    LDS R6, [0x401]
    """
    with pytest.raises(MemoryAccessError) as caught:
        run(text, block=64)
    assert caught.value.thread[0] < 32 and "0x402" in str(caught.value)
