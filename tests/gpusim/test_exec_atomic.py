"""Atomics of one warp in shared and global memory that `tests/oracle/test_memory.py` does not have."""

import numpy as np
import pytest

from tests.gpusim import sass
from tests.gpusim.rows import SPECIAL_WORDS

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


def run(atomic, back, *arrays):
    old = np.zeros((32, 4), np.uint32)
    arrays = [array.copy() for array in arrays]
    sass.run(TEXT.format(atomic=atomic, back=back), *arrays, old, static_shared_bytes=64)
    return arrays[0], old


def prepared(bits, seed):
    """Words of the places, operands and swap values; the first lanes expect what is there."""
    rng = np.random.default_rng(seed)
    found = [rng.choice(SPECIAL_WORDS, (count, 4)).astype(np.uint32) for count in (PLACES, 32, 32)]
    for words in found:
        words[:, bits // 32 :] = 0
    found[1][:PLACES] = found[0]
    return found


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
