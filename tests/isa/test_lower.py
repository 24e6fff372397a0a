"""Lowering of single instructions, written as nvdisasm prints them."""

from dataclasses import dataclass

import pytest

from isa import microops as m
from isa.errors import UnknownInstruction
from isa.instruction import Instruction, parse_instruction
from isa.lower import lower, lower_instruction
from isa.lower_writer import ConstantPool, RegisterLayout

UREG, SINK = 100, 200
CONTROL = 0x3F << 116 | 7 << 110 | 7 << 113 | 5 << 105


def lowered(text, encoding=CONTROL, labels=None, address=0):
    pool = ConstantPool()
    ins = parse_instruction(address, text, encoding, labels or {}, line=12)
    return lower_instruction(ins, pool, RegisterLayout(UREG, SINK), "kernel").columns, pool


def columns_of(text, *names, **arguments):
    columns, _ = lowered(text, **arguments)
    return [columns[getattr(m, "COL_" + name)] for name in names]


def test_addition_with_carries():
    names = ("OP", "DST", "A", "B", "C", "MOD_C", "PD0", "PD1", "PS0", "PS0_NEG", "PS1", "PS1_NEG")
    assert columns_of("IADD3.X R4, P0, R5, RZ, ~R14, P2, !P3", *names) == [
        m.OP_IADD3_CARRY, 4, 5, ~0, 14, m.MOD_NOT, 0, 7, 2, 0, 3, 1
    ]  # fmt: skip
    # Without .X there is no carry in: the source predicates are false, and PT is never a hidden carry.
    assert columns_of("IADD3 R0, P0, P1, R20, -R5, RZ", "OP", "MOD_B", "PD0", "PD1", "PS0", "PS0_NEG", "PS1_NEG") == [
        m.OP_IADD3_CARRY, m.MOD_INEG, 0, 1, 7, 1, 1
    ]  # fmt: skip
    assert columns_of("IADD3 R0, R1, R2, RZ", "OP", "DST_COUNT", "UNIT") == [m.OP_IADD3, 1, m.UNIT_ALU]


def test_products_with_carries():
    names = ("OP", "DST", "A", "B", "C", "PD0", "PS0", "PS0_NEG")
    assert columns_of("IMAD.X R4, P2, R5, R6, R7, !P1", *names) == [m.OP_IMAD_CARRY, 4, 5, 6, 7, 2, 1, 1]
    assert columns_of("IMAD R4, P2, R5, R6, R7", "OP", "PD0", "PS0_NEG") == [m.OP_IMAD_CARRY, 2, 1]  # no carry in


def test_products_that_are_moves_and_additions():
    assert columns_of("IMAD.MOV R5, RZ, RZ, -R16", "OP", "A", "MOD_A", "UNIT") == [
        m.OP_MOV, 16, m.MOD_INEG, m.UNIT_FMAHEAVY
    ]  # fmt: skip
    assert columns_of("IMAD.IADD R8, R8, 0x1, -R9", "OP", "A", "B", "C", "MOD_C") == [
        m.OP_IADD3, 8, ~0, 9, m.MOD_INEG
    ]  # fmt: skip
    assert columns_of("IMAD.X R5, R21, 0x1, R7, P0", "OP", "PS0", "PS0_NEG", "PS1_NEG") == [
        m.OP_IADD3_X,
        0,
        0,
        1,
    ]
    assert columns_of("IMAD.WIDE.U32 R14, P2, R4, R6, R14", "OP", "DST_COUNT", "PD0", "PS0_NEG") == [
        m.OP_IMAD_WIDE_U, 2, 2, 1
    ]  # fmt: skip


def test_constants_and_immediates_become_rows():
    columns, pool = lowered("IMAD R5, R8, -0x2, c[0x0][0x214]")
    assert pool.rows[:4] == [(0, 0, 0)] * 4
    assert pool.rows[~columns[m.COL_B]] == (0, 0xFFFFFFFE, 0)
    assert pool.rows[~columns[m.COL_C]] == (1, 0, 0x214)
    assert columns[m.COL_CONST] == 0x214
    columns, pool = lowered("DADD R4, R8, -6.5", 0xC01A0000 << 32 | CONTROL)
    assert pool.rows[~columns[m.COL_B]] == (0, 0, 0)
    assert pool.rows[~columns[m.COL_B] + 1] == (0, 0xC01A0000, 0)
    columns, pool = lowered("LDC.64 R16, c[0x4][0x8]")
    first = ~columns[m.COL_A]
    assert pool.rows[first : first + 2] == [(1, 4, 8), (1, 4, 12)]
    assert (columns[m.COL_OP], columns[m.COL_VARIABLE], columns[m.COL_CONST]) == (
        m.OP_MOV_WIDE,
        1,
        4 << 16 | 8,
    )


def test_sources_of_zero_and_destinations_that_are_dropped():
    assert columns_of("LOP3.LUT P0, RZ, R0, 0x1, RZ, 0xc0, !PT", "OP", "DST", "DST_COUNT", "PD0", "AUX1") == [
        m.OP_LOP3_PRED, SINK, 0, 0, 0
    ]  # fmt: skip
    assert columns_of("LOP3.LUT R5, R3, UR4, RZ, 0xc0, !PT", "OP", "B") == [m.OP_AND, UREG + 4]
    assert columns_of("LOP3.LUT R5, RZ, R4, RZ, 0x33, !PT", "OP", "A", "B", "MOD_B") == [
        m.OP_XOR,
        ~0,
        4,
        m.MOD_NOT,
    ]


def test_uniform_instructions_share_the_meaning():
    assert columns_of("UIADD3.X UR5, URZ, UR15, URZ, UP0, !UPT", "OP", "DST", "B", "UNIT", "UNIFORM", "PS0") == [
        m.OP_IADD3_X, UREG + 5, UREG + 15, m.UNIT_UNIFORM, 1, 8
    ]  # fmt: skip
    discarded = columns_of("UIADD3.64 UR4, UPT, UPT, UR6, -0x10, URZ", "OP", "DST", "PD0", "PD1")
    assert discarded == [m.OP_ADD3_WIDE, UREG + 4, 15, 15]  # as nvdisasm 13.5 prints carries that nobody wants
    assert columns_of("@!UP0 UMOV UR4, 0x400", "GUARD", "GUARD_NEG", "UNIFORM") == [8, 1, 1]
    assert columns_of("VOTEU.ANY UR5, UPT, PT", "OP", "UNIFORM", "AUX5", "PD0") == [m.OP_VOTE, 0, 1, 15]


def test_memory_address_forms():
    names = ("OP", "A", "C", "AUX0", "AUX1", "AUX2", "AUX3", "DST_COUNT")
    assert columns_of("LDG.E.128.CONSTANT R20, desc[UR6][R28.64+0x20]", *names) == [
        m.OP_LOAD, 28, -1, m.SPACE_GLOBAL, 16, 0x20, m.MEM_WIDE_ADDRESS | m.MEM_CONSTANT, 4
    ]  # fmt: skip
    assert columns_of("LDS.S16 R7, [R14.X4+UR6+-0x8]", *names) == [
        m.OP_LOAD, 14, UREG + 6, m.SPACE_SHARED, 2 | m.MEM_SIGNED, -8, m.MEM_UNIFORM_BASE | 2 << m.MEM_SHIFT_BIT, 1
    ]  # fmt: skip
    columns, _ = lowered("ATOMG.E.CAS.STRONG.GPU PT, R0, [R2], R8, R9")
    assert columns[m.COL_AUX4] == m.ATOMIC_CAS << 8 | m.TYPE_U32
    assert (columns[m.COL_B], columns[m.COL_AUX5]) == (8, 9)
    assert columns[m.COL_AUX3] & m.MEM_STRONG
    columns, _ = lowered("REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R9")
    assert (columns[m.COL_OP], columns[m.COL_AUX4] & 0xFF) == (m.OP_RED, m.TYPE_F32_FTZ)


def test_control_flow_targets():
    labels = {".L_x_1": 0x120, "kernel": 0}
    assert columns_of("@!P0 BRA `(.L_x_1)", "OP", "AUX0", "GUARD", "GUARD_NEG", labels=labels) == [
        m.OP_BRA,
        0x12,
        0,
        1,
    ]
    assert columns_of("BSSY B3, `(.L_x_1)", "OP", "AUX0", "AUX1", labels=labels) == [m.OP_BSSY, 0x12, 3]
    assert columns_of("RET.REL.NODEC R26 `(kernel)", "OP", "A", "AUX0", labels=labels) == [m.OP_RET, 26, 0]
    assert columns_of("BRX R4 -0x100", "OP", "A", "AUX0", address=0xF0) == [m.OP_BRX, 4, 0]
    assert columns_of("BAR.SYNC.DEFER_BLOCKING 0x2, 0x40", "AUX0", "AUX1", "AUX2") == [m.BAR_SYNC, 2, 64]
    assert columns_of("BAR.RED.OR.DEFER_BLOCKING 0x0, P1", "AUX0", "PS0") == [m.BAR_RED_OR, 1]


def test_half_constant_is_a_move_of_the_exact_bits():
    columns, pool = lowered("HFMA2.MMA R9, -RZ, RZ, 0, 5.9604644775390625e-08", 1 << 32 | CONTROL)
    assert columns[m.COL_OP] == m.OP_MOV
    assert pool.rows[~columns[m.COL_A]] == (0, 1, 0)
    assert columns[m.COL_UNIT] == m.UNIT_HALF


def test_control_bits_are_kept():
    assert columns_of("NOP", "STALL", "WBAR", "RBAR", "WAIT", "VARIABLE") == [5, 7, 7, 0x3F, 0]


def test_register_reads_follow_banks_and_reuse():
    texts = ["FFMA R0, R2, R4, R6", "FFMA R0, R2.reuse, R4, R7", "FFMA R1, R2, R4, R7", "FFMA R0, R2, R3, R3"]

    @dataclass
    class Small:
        instructions: tuple[Instruction, ...]
        name: str = "kernel"
        registers: int = 16

    program = Small(tuple(parse_instruction(16 * k, text, CONTROL, {}) for k, text in enumerate(texts)))
    result = lower(program)
    assert result.code[:, m.COL_READS].tolist() == [3, 2 + 16, 1 + 16, 1 + 16]
    assert result.code.flags.c_contiguous
    assert result.code.shape == (4, m.COLUMNS)
    assert result.rows_per_warp == result.sink_row + 4


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("FROB R0, R1", "opcode FROB"),
        ("IADD3.WEIRD R0, R1, R2, R3", "modifier .WEIRD"),
        ("IADD3 R0, R1, R2", "missing"),
        ("IADD3 R0, R1, R2, R3, 0x5", "more than expected"),
        ("IADD3 R0, |R1|, R2, R3", "modifier"),
        ("IMAD.WIDE R2, -R3, R4, R6", "modifier"),
        ("IMAD.WIDE R2, R3, R4, R5", "pair"),
        ("S2R R0, SR_SOMETHING", "special register"),
        ("FFMA R0, R1, R2.H0, R3", "suffix"),
        ("ISETP.AND P0, PT, R1, R2, PT", "relation"),
    ],
)
def test_what_is_not_understood_is_refused(text, reason):
    with pytest.raises(UnknownInstruction, match=reason) as caught:
        lowered(text)
    assert "kernel" in str(caught.value)
    assert "12" in str(caught.value)
    assert text.split()[0] in str(caught.value)
