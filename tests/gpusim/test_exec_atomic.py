"""Atomics of one warp against plain Python: the lanes act one after the other, the lowest first (32 lanes, 4 places).

The order of a warp's lanes is this simulator's; the hardware leaves it open. That each lane sees what the lanes before
it left, and that nothing is lost, holds for any order.
"""

import numpy as np
import pytest

from tests.gpusim import sass
from tests.gpusim.rows import SPECIAL_WORDS
from tests.oracle.floats import F32, F64, fma, is_nan

PLACES = 4
# Place, operand, swap value and old value take 16 bytes each, whatever the size of the operation.
TEXT = """
S2R R0, SR_LANEID
IMAD.WIDE.U32 R4, R0, 0x10, c[0x0][0x218]
LDG.E.128 R8, desc[UR4][R4.64]
IMAD.WIDE.U32 R4, R0, 0x10, c[0x0][0x220]
LDG.E.128 R12, desc[UR4][R4.64]
LOP3.LUT R1, R0, 0x3, RZ, 0xc0, !PT
IMAD.WIDE.U32 R2, R1, 0x10, c[0x0][0x210]
IMAD R6, R1, 0x10, RZ
LDG.E.128 R16, desc[UR4][R2.64]
STS.128 [R6+0x400], R16
MOV R20, 0xffffffff
MOV R21, 0xffffffff
{atomic}
IMAD.WIDE.U32 R4, R0, 0x10, c[0x0][0x228]
STG.E.128 desc[UR4][R4.64], R20
{back}
"""
GLOBAL, SHARED = "desc[UR4][R2.64]", "[R6+0x400]"
SHARED_BACK = "LDS.128 R16, [R6+0x400]\nSTG.E.128 desc[UR4][R2.64], R16"
ONES = 0xFFFFFFFF


def signed(value, bits):
    return value - (1 << bits) if value >> (bits - 1) else value


def wrapping(bits):
    """Integer operations on old value, operand and swap value; PTX manual, atom."""
    ones = (1 << bits) - 1
    return {
        "ADD": lambda old, b, c: old + b & ones,
        "MIN": lambda old, b, c: min(old, b),
        "MAX": lambda old, b, c: max(old, b),
        "MIN.S": lambda old, b, c: min(old, b, key=lambda x: signed(x, bits)),
        "MAX.S": lambda old, b, c: max(old, b, key=lambda x: signed(x, bits)),
        "INC": lambda old, b, c: 0 if old >= b else old + 1,
        "DEC": lambda old, b, c: b if old == 0 or old > b else old - 1,
        "AND": lambda old, b, c: old & b,
        "OR": lambda old, b, c: old | b,
        "XOR": lambda old, b, c: old ^ b,
        "EXCH": lambda old, b, c: b,
        "CAS": lambda old, b, c: c if old == b else old,
    }


def flushed(bits):
    return bits & 0x80000000 if bits & 0x7F800000 == 0 else bits


def float_sum(old, b, c):
    return fma(F32, old, 0x3F800000, b, 0)


FLOAT = {
    "ADD.F32.RN": float_sum,
    "ADD.F32.FTZ.RN": lambda old, b, c: flushed(float_sum(flushed(old), flushed(b), c)),
}
CASES = [
    *((name, 32, meaning) for name, meaning in wrapping(32).items()),
    *((name, 64, meaning) for name, meaning in wrapping(64).items() if name not in ("INC", "DEC")),
    *((name, 32, meaning) for name, meaning in FLOAT.items()),
    ("ADD.F64.RN", 64, lambda old, b, c: fma(F64, old, 0x3FF0000000000000, b, 0)),
    ("EXCH", 128, lambda old, b, c: b),
    ("CAS", 128, lambda old, b, c: c if old == b else old),
]
PLACED = [
    (where, *case)
    for case in CASES
    for where in ("global", "shared", "reduction")
    # 128 bits exist in global memory only; exchanges have no meaning without the old value.
    if where == "global" or (case[1] < 128 and (where == "shared" or not case[0].startswith(("CAS", "EXCH"))))
]


def modifiers(name, bits):
    """The operation as the disassembler writes it."""
    width = {32: "", 64: ".64", 128: ".128"}[bits]
    if name.endswith(".S"):
        return name[:-2] + (".S32" if bits == 32 else ".S64")
    return name if ".F" in name else name + width


def values(rng, count, bits):
    """Random values, half of them special words, many of them equal."""
    special, few = rng.choice(SPECIAL_WORDS, (count, 4)), rng.integers(0, 7, (count, 4))
    words = np.where(rng.random((count, 4)) < 0.5, special, few)
    words[:, bits // 32 :] = 0
    if bits == 64 and rng.random() < 0.5:
        words[:, 1] = rng.choice([0x3FF00000, 0x7FEFFFFF, 0x00000000, 0xC0000000], count)  # doubles that add up
    return words.astype(np.uint32)


def whole(words):
    return [sum(int(word) << 32 * k for k, word in enumerate(row)) for row in words]


def run(atomic, back, *arrays):
    old = np.zeros((32, 4), np.uint32)
    arrays = [array.copy() for array in arrays]
    sass.run(TEXT.format(atomic=atomic, back=back), *arrays, old, static_shared_bytes=64)
    return arrays[0], old


def one_nan(words):
    """Doubles whose NaN are all alike: which NaN a sum gives is not known of the hardware."""
    return [F64.nan if is_nan(F64, word) else word for word in words]


def prepared(bits, seed):
    rng = np.random.default_rng(seed)
    places, operands, swaps = values(rng, PLACES, bits), values(rng, 32, bits), values(rng, 32, bits)
    # Compare-and-swap: lane 4 expects what is there, lane 8 what lane 4 leaves there, and so on for half of the lanes.
    operands[:PLACES] = places
    operands[PLACES : 4 * PLACES] = swaps[: 3 * PLACES]
    return places, operands, swaps


def expected(meaning, places, operands, swaps, mask=ONES):
    memory, old = whole(places), [ONES << 32 | ONES] * 32
    for lane, (b, c) in enumerate(zip(whole(operands), whole(swaps), strict=True)):
        if mask >> lane & 1:
            old[lane] = memory[lane % PLACES]
            memory[lane % PLACES] = meaning(old[lane], b, c)
    return memory, old


@pytest.mark.parametrize("where, name, bits, meaning", PLACED, ids=["-".join(map(str, c[:3])) for c in PLACED])
def test_lanes_act_in_turn(where, name, bits, meaning):
    swap = ", R12" if name == "CAS" else ""
    words = modifiers(name, bits)
    text = {
        "global": f"ATOMG.E.{words}.STRONG.GPU PT, R20, {GLOBAL}, R8{swap}",
        "shared": f"ATOMS.{words} R20, {SHARED}, R8{swap}",
        "reduction": f"REDG.E.{words}.STRONG.GPU {GLOBAL}, R8",
    }[where]
    for seed in range(3):
        arrays = prepared(bits, seed)
        memory, old = expected(meaning, *arrays)
        places, got = run(text, SHARED_BACK if where == "shared" else "", *arrays)
        same = one_nan if name == "ADD.F64.RN" else list
        assert same(whole(places)) == same(memory)
        if where != "reduction":
            assert same(whole(got[:, : bits // 32])) == same(old)
        else:
            assert (got[:, :2] == ONES).all()  # the registers stay


def test_lanes_that_do_not_execute_leave_everything():
    places, operands, swaps = prepared(32, 9)
    mask = 0x0F0F00FF
    text = f"""
    MOV R1, {mask:#x}
    SHF.R.U32 R1, R1, R0, RZ
    R2P PR, R1, 0x1
    @P0 ATOMG.E.ADD.STRONG.GPU PT, R20, {GLOBAL}, R8
    """
    memory, old = expected(wrapping(32)["ADD"], places, operands, swaps, mask)
    got_places, got = run(text, "", places, operands, swaps)
    assert whole(got_places) == memory
    assert got[:, 0].tolist() == [value & ONES for value in old]


def test_a_result_nobody_wants_is_dropped():
    """An ATOMG with RZ as its destination changes memory and no register."""
    arrays = prepared(32, 4)
    memory, _ = expected(wrapping(32)["ADD"], *arrays)
    places, got = run(f"ATOMG.E.ADD.STRONG.GPU PT, RZ, {GLOBAL}, R8", "", *arrays)
    assert whole(places) == memory and (got[:, :2] == ONES).all()


def test_count_of_lanes():
    """POPC.INC adds one for each lane, whatever its operand."""
    places, operands, swaps = prepared(32, 2)
    memory, old = expected(lambda old, b, c: old + 1 & ONES, places, operands, swaps)
    got_places, got = run(f"ATOMS.POPC.INC.32 R20, {SHARED}", SHARED_BACK, places, operands, swaps)
    assert whole(got_places) == memory and whole(got[:, :1]) == old


@pytest.mark.parametrize("bits", [32, 64])
def test_compare_and_store_of_a_loop(bits):
    """CAST.SPIN: in each bank the lowest lane tries, and stores if the word is what it expects; the others fail.

    The four places lie in banks of their own, so lanes 0..3 try. Success is 1 in the first destination register.
    """
    places, operands, swaps = prepared(bits, 6)
    operands[1] = operands[1] ^ 1  # lane 1 expects something else
    width = "" if bits == 32 else ".64"
    predicate = "MOV R20, 0x0\n@P0 MOV R20, 0x1\n"
    for text in (f"ATOMS.CAST.SPIN{width} R20, {SHARED}, R8, R12", f"ATOMS.CAST.SPIN{width} P0, RZ, {SHARED}, R8, R12"):
        in_predicate = " P0," in text
        got_places, got = run(text + "\n" + predicate * in_predicate, SHARED_BACK, places, operands, swaps)
        assert [row.tolist() for row in got_places] == [
            (swaps if lane != 1 else places)[lane].tolist() for lane in range(PLACES)
        ]
        assert got[:, 0].tolist() == [int(lane in (0, 2, 3)) for lane in range(32)]
