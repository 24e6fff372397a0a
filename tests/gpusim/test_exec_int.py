"""Integer micro-operations against plain Python integers."""

import numpy as np
import pytest

from gpusim.engine.rows.int import exec_int
from isa import microops as m
from tests.gpusim.rows import LANES, WORD, Warp, mask_of, random_wide, random_words

ROUNDS = 12


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def shift_left(value: int, count: int) -> int:
    return value << count & WORD if count < 32 else 0


def mask_bits(position: int, width: int, wrap: bool) -> int:
    if wrap:
        position, width = position & 31, width & 31
    return shift_left((1 << min(width, 32)) - 1, position)


def extended(value: int, bits: int, wrap: bool, is_signed: bool) -> int:
    bits = bits & 31 if wrap else min(bits, 32)
    value &= (1 << bits) - 1
    return signed(value, bits) & WORD if is_signed and bits else value


def prmt(a: int, selector: int, c: int) -> int:
    data = (a | c << 32).to_bytes(8, "little")
    result = 0
    for k in range(4):
        nibble = selector >> 4 * k & 15
        byte = data[nibble & 7]
        result |= ((0xFF if byte & 0x80 else 0) if nibble & 8 else byte) << 8 * k
    return result


def bytes_of(value: int, is_signed: bool) -> list[int]:
    return [signed(value >> 8 * k, 8) if is_signed else value >> 8 * k & 255 for k in range(4)]


def halves_of(value: int, is_signed: bool) -> list[int]:
    return [signed(value >> 16 * k, 16) if is_signed else value >> 16 * k & 0xFFFF for k in range(2)]


def limited(value: int, bits: int, is_signed: bool) -> int:
    low = -(1 << bits - 1) if is_signed else 0
    high = (1 << bits - 1) - 1 if is_signed else (1 << bits) - 1
    return min(max(value, low), high)


# name: (micro-operation, columns, meaning of a, b, c as unsigned words)
SIMPLE = {
    "mov": (m.OP_MOV, {}, lambda a, b, c: a),
    "iadd3": (m.OP_IADD3, {}, lambda a, b, c: a + b + c),
    "imad": (m.OP_IMAD, {}, lambda a, b, c: a * b + c),
    "lea": (m.OP_LEA, {"aux0": 5}, lambda a, b, c: (a << 5) + b),
    "and": (m.OP_AND, {}, lambda a, b, c: a & b),
    "or": (m.OP_OR, {}, lambda a, b, c: a | b),
    "xor": (m.OP_XOR, {}, lambda a, b, c: a ^ b),
    "lop3 majority": (m.OP_LOP3, {"aux0": 0xE8}, lambda a, b, c: a & b | a & c | b & c),
    "lop3 xor3": (m.OP_LOP3, {"aux0": 0x96}, lambda a, b, c: a ^ b ^ c),
    "lop3 select": (m.OP_LOP3, {"aux0": 0xCA}, lambda a, b, c: a & b | ~a & c),
    "lop3 nor": (m.OP_LOP3, {"aux0": 0x01}, lambda a, b, c: ~(a | b | c)),
    "shl": (m.OP_SHL, {}, lambda a, b, c: shift_left(a, b)),
    "shr": (m.OP_SHR_U, {}, lambda a, b, c: a >> min(b, 32)),
    "sar": (m.OP_SHR_S, {}, lambda a, b, c: signed(a) >> min(b, 31)),
    "shf left clamp high": (
        m.OP_SHF_L, {"aux0": 1, "aux1": 32}, lambda a, b, c: ((a | c << 32) << min(b, 32)) >> 32),
    "shf left wrap high": (
        m.OP_SHF_L, {"aux0": 1, "aux1": 32, "aux2": 1}, lambda a, b, c: ((a | c << 32) << (b & 31)) >> 32),
    "shf left 64": (
        m.OP_SHF_L, {"aux0": 1, "aux1": 64}, lambda a, b, c: ((a | c << 32) << min(b, 64)) >> 32),
    "shf right wrap": (
        m.OP_SHF_R_U, {"aux1": 32, "aux2": 1}, lambda a, b, c: (a | c << 32) >> (b & 31)),
    "shf right 64": (m.OP_SHF_R_U, {"aux1": 64}, lambda a, b, c: (a | c << 32) >> min(b, 64)),
    "shf right signed 64": (
        m.OP_SHF_R_S, {"aux1": 64}, lambda a, b, c: signed(a | c << 32, 64) >> min(b, 64)),
    "shf right signed high": (
        m.OP_SHF_R_S, {"aux0": 1, "aux1": 64}, lambda a, b, c: (signed(a | c << 32, 64) >> min(b, 64)) >> 32),
    "iabs": (m.OP_IABS, {}, lambda a, b, c: abs(signed(a))),
    "min": (m.OP_MNMX_S, {}, lambda a, b, c: min(signed(a), signed(b))),
    "max": (m.OP_MNMX_S, {"ps0_neg": 1}, lambda a, b, c: max(signed(a), signed(b))),
    "min unsigned": (m.OP_MNMX_U, {}, lambda a, b, c: min(a, b)),
    "max unsigned": (m.OP_MNMX_U, {"ps0_neg": 1}, lambda a, b, c: max(a, b)),
    "add min": (m.OP_ADDMNMX_S, {}, lambda a, b, c: min(signed(a + b), signed(c))),
    "add max unsigned": (m.OP_ADDMNMX_U, {"ps0_neg": 1}, lambda a, b, c: max((a + b) & WORD, c)),
    "add min relu": (m.OP_ADDMNMX_S, {"aux1": 1}, lambda a, b, c: max(0, min(signed(a + b), signed(c)))),
    "min3": (m.OP_MNMX3_S, {}, lambda a, b, c: min(signed(a), signed(b), signed(c))),
    "max3 unsigned": (m.OP_MNMX3_U, {"ps0_neg": 1}, lambda a, b, c: max(a, b, c)),
    "bmsk": (m.OP_BMSK, {}, lambda a, b, c: mask_bits(a, b, False)),
    "bmsk wrap": (m.OP_BMSK, {"aux0": 1}, lambda a, b, c: mask_bits(a, b, True)),
    "sgxt": (m.OP_SGXT_S, {}, lambda a, b, c: extended(a, b, False, True)),
    "sgxt wrap": (m.OP_SGXT_S, {"aux0": 1}, lambda a, b, c: extended(a, b, True, True)),
    "sgxt unsigned": (m.OP_SGXT_U, {}, lambda a, b, c: extended(a, b, False, False)),
    "prmt": (m.OP_PRMT, {}, prmt),
    "prmt f4e": (
        m.OP_PRMT, {"aux0": m.PRMT_F4E}, lambda a, b, c: prmt(a, 0x3210 + 0x1111 * (b & 3), c)),
    "prmt b4e": (
        m.OP_PRMT, {"aux0": m.PRMT_B4E}, lambda a, b, c: prmt(a, (0x5670, 0x6701, 0x7012, 0x0123)[b & 3], c)),
    "prmt rc8": (m.OP_PRMT, {"aux0": m.PRMT_RC8}, lambda a, b, c: prmt(a, 0x1111 * (b & 3), c)),
    "prmt ecl": (
        m.OP_PRMT, {"aux0": m.PRMT_ECL}, lambda a, b, c: prmt(a, (0x3210, 0x3211, 0x3222, 0x3333)[b & 3], c)),
    "prmt ecr": (
        m.OP_PRMT, {"aux0": m.PRMT_ECR}, lambda a, b, c: prmt(a, (0x0000, 0x1110, 0x2210, 0x3210)[b & 3], c)),
    "prmt rc16": (
        m.OP_PRMT, {"aux0": m.PRMT_RC16}, lambda a, b, c: prmt(a, (0x1010, 0x3232)[b & 1], c)),
    "dp4a": (
        m.OP_IDP_4A, {"aux0": 1},
        lambda a, b, c: sum(x * y for x, y in zip(bytes_of(a, True), bytes_of(b, False), strict=True)) + c),
    "dp2a high": (
        m.OP_IDP_2A, {"aux0": 3, "aux1": 1},
        lambda a, b, c: sum(x * y for x, y in zip(halves_of(a, True), bytes_of(b, True)[2:], strict=True)) + c),
    "saturate s8": (m.OP_I2I_SAT, {"aux0": 8, "aux1": 1}, lambda a, b, c: limited(signed(a), 8, True)),
    "pack u8": (
        m.OP_I2IP, {"aux0": 8, "aux2": 1},
        lambda a, b, c: c << 16 | limited(signed(a), 8, False) << 8 | limited(signed(b), 8, False)),
    "pack s16": (
        m.OP_I2IP, {"aux0": 16, "aux1": 1, "aux2": 1},
        lambda a, b, c: (limited(signed(a), 16, True) & 0xFFFF) << 16 | limited(signed(b), 16, True) & 0xFFFF),
    "vabsdiff": (m.OP_VABSDIFF, {"aux0": 1}, lambda a, b, c: abs(signed(a) - signed(b)) + c),
    "vabsdiff4": (
        m.OP_VABSDIFF4, {"aux1": 1},
        lambda a, b, c: sum(abs(x - y) for x, y in zip(bytes_of(a, False), bytes_of(b, False), strict=True)) + c),
    "add 16x2": (
        m.OP_ADD_16X2, {"aux0": 2}, lambda a, b, c: (a - b & 0xFFFF) | ((a >> 16) - (b >> 16) & 0xFFFF) << 16),
    "min s16x2": (
        m.OP_MNMX_16X2, {"aux0": 1},
        lambda a, b, c: sum(
            (min(x, y) & 0xFFFF) << 16 * k
            for k, (x, y) in enumerate(zip(halves_of(a, True), halves_of(b, True), strict=True)))),
}  # fmt: skip


@pytest.mark.parametrize("name", SIMPLE)
def test_simple_operation(name):
    op, columns, meaning = SIMPLE[name]
    rng = np.random.default_rng(7)
    for _ in range(ROUNDS):
        a, b, c = random_words(rng), random_words(rng), random_words(rng)
        if "sh" in name or "sgxt" in name or "bmsk" in name:
            b = rng.choice([0, 1, 5, 31, 32, 33, 63, 64, 65, WORD], LANES).tolist()
        got = Warp().execute(exec_int, op, a, b, c, **columns)
        assert got == [meaning(*lane) & WORD for lane in zip(a, b, c, strict=True)]


@pytest.mark.parametrize("modifier", [m.MOD_INEG, m.MOD_NOT])
def test_carry_chain_of_three_operands(modifier):
    rng = np.random.default_rng(1)
    for _ in range(ROUNDS):
        a, b, c = random_words(rng), random_words(rng), random_words(rng)
        warp = Warp()
        warp.preds[2], warp.preds[3] = rng.integers(0, 1 << 32, 2)
        carries = [x + y for x, y in zip(warp.lanes_of(2), warp.lanes_of(3), strict=True)]
        got = warp.execute(exec_int, m.OP_IADD3_CARRY, a, b, c, mod_b=modifier, pd0=0, pd1=1, ps0=2, ps1=3)
        totals = [
            x + (~y & WORD) + (modifier == m.MOD_INEG) + z + carry
            for x, y, z, carry in zip(a, b, c, carries, strict=True)
        ]
        assert got == [total & WORD for total in totals]
        assert warp.lanes_of(0) == [total >= 1 << 32 for total in totals]
        assert warp.lanes_of(1) == [total >= 2 << 32 for total in totals]
        without = warp.execute(exec_int, m.OP_IADD3_X, a, b, c, mod_b=modifier, ps0=2, ps1=3)
        assert without == got


def test_subtracting_zero_carries():
    warp = Warp()
    warp.execute(
        exec_int, m.OP_IADD3_CARRY, [5] * 32, [0] * 32, mod_b=m.MOD_INEG, pd0=0, ps0_neg=1, ps1_neg=1
    )
    assert all(warp.lanes_of(0))


@pytest.mark.parametrize("is_signed", [False, True])
def test_wide_and_high_products(is_signed):
    rng = np.random.default_rng(2)
    wide = m.OP_IMAD_WIDE_S if is_signed else m.OP_IMAD_WIDE_U
    upper = m.OP_IMAD_HI_S if is_signed else m.OP_IMAD_HI_U
    for _ in range(ROUNDS):
        a, b, c = random_words(rng), random_words(rng), random_wide(rng)
        warp = Warp()
        warp.preds[1] = rng.integers(0, 1 << 32)
        carry = warp.lanes_of(1)
        warp.execute(exec_int, wide, a, b, c, pd0=0, ps0=1)
        convert = signed if is_signed else int
        mask64 = (1 << 64) - 1
        totals = [
            (convert(x) * convert(y) & mask64) + z + k for x, y, z, k in zip(a, b, c, carry, strict=True)
        ]
        assert warp.wide() == [total & mask64 for total in totals]
        assert warp.lanes_of(0) == [total >= 1 << 64 for total in totals]
        got = warp.execute(exec_int, upper, a, b, c, ps0=1)
        assert got == [total >> 32 & WORD for total in totals]


def test_product_with_carry():
    rng = np.random.default_rng(3)
    for _ in range(ROUNDS):
        a, b, c = random_words(rng), random_words(rng), random_words(rng)
        warp = Warp()
        warp.preds[1] = rng.integers(0, 1 << 32)
        totals = [(x * y & WORD) + z + k for x, y, z, k in zip(a, b, c, warp.lanes_of(1), strict=True)]
        got = warp.execute(exec_int, m.OP_IMAD_CARRY, a, b, c, pd0=0, ps0=1)
        assert got == [total & WORD for total in totals]
        assert warp.lanes_of(0) == [total >= 1 << 32 for total in totals]
        assert warp.execute(exec_int, m.OP_IMAD_X, a, b, c, ps0=1) == got


@pytest.mark.parametrize("form", [0, 1, 2])
@pytest.mark.parametrize("negation", [0, 1, 2])
def test_lea_with_carries(form, negation):
    rng = np.random.default_rng(4)
    for amount in (0, 1, 3, 24, 31):
        a, b, c = random_words(rng), random_words(rng), random_words(rng)
        warp = Warp()
        warp.preds[1] = rng.integers(0, 1 << 32)
        got = warp.execute(
            exec_int, m.OP_LEA_CARRY, a, b, c, aux0=amount, aux1=negation, aux2=form, pd0=0, ps0=1
        )
        totals = []
        for x, y, z, k in zip(a, b, c, warp.lanes_of(1), strict=True):
            value = {0: x, 1: x | z << 32, 2: signed(x)}[form] << amount
            term = (value if form == 0 else value >> 32) & WORD
            totals.append((term if negation == 0 else (~term & WORD) + (negation == 1)) + y + k)
        assert got == [total & WORD for total in totals]
        assert warp.lanes_of(0) == [total >= 1 << 32 for total in totals]


def test_guard_mask_keeps_other_lanes_and_overlapping_rows():
    rng = np.random.default_rng(5)
    a, b = random_words(rng), random_words(rng)
    warp = Warp()
    warp.row(40)[:] = 77
    got = warp.execute(exec_int, m.OP_XOR, a, b, mask=0x0F0F00FF)
    expected = [x ^ y if 0x0F0F00FF >> lane & 1 else 77 for lane, (x, y) in enumerate(zip(a, b, strict=True))]
    assert got == expected
    warp.execute(exec_int, m.OP_IMAD_WIDE_U, a, b, dst=0, ps0_neg=1)
    pair = [low | high << 32 for low, high in zip(warp.row(0).tolist(), warp.row(1).tolist(), strict=True)]
    assert pair == [x * y for x, y in zip(a, b, strict=True)]


def test_select_and_logic_predicate():
    rng = np.random.default_rng(6)
    a, b, c = random_words(rng), random_words(rng), random_words(rng)
    warp = Warp()
    warp.preds[1] = 0x12345678
    got = warp.execute(exec_int, m.OP_SEL, a, b, ps0=1, ps0_neg=1)
    choice = warp.lanes_of(1)
    assert got == [y if p else x for x, y, p in zip(a, b, choice, strict=True)]
    result = [x & y & z for x, y, z in zip(a, b, c, strict=True)]
    warp.execute(exec_int, m.OP_LOP3_PRED, a, b, c, aux0=0x80, pd0=0, ps0=1)
    assert int(warp.preds[0]) == mask_of(result) | 0x12345678
    warp.execute(exec_int, m.OP_LOP3_PRED, a, b, c, aux0=0x80, aux1=1, pd0=0, ps0=1)
    assert int(warp.preds[0]) == mask_of(result) & 0x12345678
