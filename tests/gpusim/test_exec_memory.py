"""Loads and stores written as SASS: sizes, signs, address forms, windows of generic addresses, bad addresses."""

import re

import numpy as np
import pytest

from gpusim.engine.sm.space import LOCAL_WINDOW, SHARED_WINDOW
from gpusim.errors import MemoryAccessError
from tests.gpusim import sass

IN, OUT = f"c[0x0][{sass.PARAMETERS + 8:#x}]", f"c[0x0][{sass.PARAMETERS:#x}]"
BYTES = np.random.default_rng(1).integers(0, 256, 32 * 16).astype(np.uint8)
START = "S2R R0, SR_TID.X\nMOV R6, 0x11111111\nMOV R7, 0x22222222\n"


def run(text, data=BYTES, words=32, **options):
    out = np.zeros(words, np.uint32)
    data = data.copy()
    options.setdefault("static_shared_bytes", 1024)
    sass.run(START + text, out, data, **options)
    return out, data


# Modifier: bytes of an element, and how NumPy reads its words.
SIZES = {
    ".U8": (1, "u1"), ".S8": (1, "i1"), ".U16": (2, "<u2"), ".S16": (2, "<i2"), "": (4, "<u4"), ".64": (8, "<u4"),
    ".128": (16, "<u4"),
}  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("space", ["global", "strong", "generic", "shared", "local"])
def test_sizes_and_signs(size, space):
    """Each lane loads an element of its own, small ones extended by their sign; the last word of it is stored."""
    step, kind = SIZES[size]
    of_lane = BYTES.reshape(32, 16)[:, :step] if space == "local" else BYTES[: 32 * step].reshape(32, step)
    expected = np.ascontiguousarray(of_lane).view(kind)[:, -1].astype(np.int64).astype(np.uint32)
    load = {
        "global": f"IMAD.WIDE.U32 R2, R0, {step:#x}, {IN}\nLDG.E{size} R8, desc[UR4][R2.64]",
        "strong": f"IMAD.WIDE.U32 R2, R0, {step:#x}, {IN}\nLDG.E{size}.STRONG.GPU R8, desc[UR4][R2.64]",
        "generic": f"IMAD.WIDE.U32 R2, R0, {step:#x}, {IN}\nLD.E{size} R8, desc[UR4][R2.64]",
        # Sixteen bytes a lane go through shared or local memory first.
        "shared": "IMAD R2, R0, 0x10, RZ\nSTS.128 [R2+0x400], R12\n"
        f"IMAD R2, R0, {step:#x}, RZ\nLDS{size} R8, [R2+0x400]",
        "local": f"STL.128 [0x10], R12\nLDL{size} R8, [0x10]",
    }[space]
    fill = f"IMAD.WIDE.U32 R2, R0, 0x10, {IN}\nLDG.E.128 R12, desc[UR4][R2.64]\n"
    out, _ = run(fill + load + f"\nMOV R6, R{8 + max(step // 4, 1) - 1}\n@RETURN", local_bytes=64)
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("scale, factor", [(".X4", 4), (".X8", 8), (".X16", 16)])
def test_scaled_shared_addresses(scale, factor):
    text = f"IMAD R4, R0, {factor:#x}, RZ\nSTS [R4+0x400], R0\nUMOV UR4, 0x400\nIADD3 R4, R0, 0x1, RZ\n"
    out, _ = run(text + f"LDS R6, [R4{scale}+UR4+-{factor:#x}]\n@RETURN", static_shared_bytes=1024)
    assert out.tolist() == list(range(32))


def test_generic_addresses_of_every_window():
    """A generic address in a window is the shared or local address that its lower half says."""
    text = f"""
    IMAD R4, R0, 0x4, 0x400
    MOV R5, {SHARED_WINDOW >> 32:#x}
    IADD3 R8, R0, 0x64, RZ
    ST.E desc[UR4][R4.64], R8
    LDS R8, [R4]
    MOV R10, 0x8
    MOV R11, {LOCAL_WINDOW >> 32:#x}
    ST.E desc[UR4][R10.64], R8
    LDL R9, [0x8]
    LD.E R12, [R10.64]
    LD.E R13, [R4.64]
    IADD3 R6, R9, R12, R13
    ATOM.E.ADD.STRONG.GPU PT, R14, [R4.64], R0
    LDS R8, [R4]
    IADD3 R6, R6, R8, R14
    @RETURN
    """
    out, _ = run(text, local_bytes=16)
    assert out.tolist() == [5 * (100 + lane) + lane for lane in range(32)]


def test_local_memory_is_each_threads_own():
    """The same local address in all lanes, and one that depends on the lane; across a word of 64 bits."""
    text = """
    STL [0x8], R0
    IADD3 R4, R0, 0x3e8, RZ
    LOP3.LUT R2, R0, 0x3, RZ, 0xc0, !PT
    IMAD R2, R2, 0x8, RZ
    MOV R5, R0
    STL.64 [R2+0x10], R4
    LDL.64 R8, [R2+0x10]
    LDL R7, [0x8]
    IADD3 R6, R8, R9, R7
    @RETURN
    """
    out, _ = run(text, words=64, block=64, local_bytes=64)
    assert out.tolist() == [1000 + 3 * thread for thread in range(64)]


def test_vectors_of_local_memory_that_touch_many_lines():
    """Every lane at a place of its own: sixteen bytes of 32 lanes lie in 128 different lines."""
    text = f"""
    IMAD R4, R0, 0x10, RZ
    MOV R5, R4
    IMAD.WIDE.U32 R2, R0, 0x10, {IN}
    LDG.E.128 R12, desc[UR4][R2.64]
    STL.128 [R4], R12
    LDL.128 R16, [R4]
    LDL.128 R20, [R4+0x10]
    IADD3 R16, R16, R20, R21
    IADD3 R16, R16, R22, R23
    STG.E.128 desc[UR4][R2.64], R16
    """
    _, data = run(text, local_bytes=544)
    assert (data == BYTES).all()  # what lies behind a lane's own is zero


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
    """LDC with a register gathers; its sizes, signs and uniform bases are those of the other loads."""
    bank = BYTES[:256].tobytes()
    reads = {
        "LDC R6, c[0x3][R4]": (4, np.uint32),
        "LDC.U8 R6, c[0x3][R0]": (1, np.uint8),
        "LDC.S8 R6, c[0x3][R0+0x1]": (1, np.int8),
        "LDC.S16 R6, c[0x3][R5]": (2, np.int16),
        "LDC.64 R6, c[0x3][R2]": (8, np.uint32),
        "UMOV UR8, 0x4\nLDC R6, c[0x3][R4+UR8]": (4, np.uint32),
        "UMOV UR8, 0x4\nLDC R6, c[0x3][UR8]": (0, np.uint32),
    }
    for text, (step, kind) in reads.items():
        addresses = "IMAD R4, R0, 0x4, RZ\nIMAD R5, R0, 0x2, RZ\nIMAD R2, R0, 0x8, RZ\n"
        out, _ = run(addresses + text + "\n@RETURN", constant_banks={3: bank})
        first = 4 if "UR8" in text else 1 if "0x1" in text else 0
        values = [np.frombuffer(bank, kind, 1, first + step * lane)[0] for lane in range(32 if step < 8 else 31)]
        assert out.tolist()[: len(values)] == [int(value) & 0xFFFFFFFF for value in values], text


def test_small_constants_at_fixed_addresses():
    """A byte or half word of a constant bank, with and without its sign, at every place in a word."""
    bank = bytes([0x01, 0x82, 0x03, 0x84, 0x05, 0x86, 0x07, 0x88])
    for size, kind in (("U8", "u1"), ("S8", "i1"), ("U16", "<u2"), ("S16", "<i2")):
        for offset in range(0, 8, int(kind[-1])):
            out, _ = run(f"LDC.{size} R6, c[0x3][{offset:#x}]\n@RETURN", constant_banks={3: bank})
            assert set(out.tolist()) == {int(np.frombuffer(bank, kind, 1, offset)[0]) & 0xFFFFFFFF}


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
