"""Lowering of single instructions, written as nvdisasm prints them: control bits, constants, reads of registers. What
an instruction computes is compared by `tests/oracle`."""

from dataclasses import dataclass

from isa import microops as m
from isa.instruction import Instruction, parse_instruction
from isa.lower import lower, lower_instruction
from isa.lower_writer import ConstantPool, RegisterLayout

CONTROL = 0x3F << 116 | 7 << 110 | 7 << 113 | 5 << 105


def lowered(text, encoding=CONTROL):
    pool = ConstantPool()
    return lower_instruction(parse_instruction(0, text, encoding, {}), pool, RegisterLayout(100, 200)).columns, pool


def columns_of(text, *names, encoding=CONTROL):
    columns, _ = lowered(text, encoding)
    return [columns[getattr(m, "COL_" + name)] for name in names]


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
    assert (columns[m.COL_OP], columns[m.COL_VARIABLE], columns[m.COL_CONST]) == (m.OP_MOV_WIDE, 1, 4 << 16 | 8)


def test_control_bits_are_kept():
    assert columns_of("NOP", "STALL", "WBAR", "RBAR", "WAIT", "VARIABLE") == [5, 7, 7, 0x3F, 0]


def test_waiting_for_several_scoreboards():
    """fence.proxy.tensormap waits for all that is under way."""
    assert columns_of("DEPBAR {5,4,3,2,1,0}", "OP", "AUX0", "WAIT", encoding=0) == [m.OP_DEPBAR, 7, 0x3F]
    assert columns_of("DEPBAR.LE SB2, 0x1, {4,3}", "AUX0", "AUX1", "WAIT", encoding=0) == [2, 1, 0x18]


def test_a_uniform_register_may_be_put_aside():
    names = [name.removeprefix("COL_") for name in vars(m) if name.startswith("COL_")]
    assert columns_of("R2UR.FILL UR4, R36", *names) == columns_of("R2UR UR4, R36", *names)


def test_products_of_four_warps_with_and_without_their_scoreboard():
    """Of several in a row only the last, which ends a group that can be waited for, names gsb0."""
    for end, commits in (("", 0), (", gsb0", m.GMMA_COMMITS)):
        assert columns_of(f"HGMMA.64x8x16.F32 R4, gdesc[UR4], R4{end}", "AUX4") == [commits]


def test_register_reads_follow_banks_and_reuse():
    texts = ["FFMA R0, R2, R4, R6", "FFMA R0, R2.reuse, R4, R7", "FFMA R1, R2, R4, R7", "FFMA R0, R2, R3, R3"]

    @dataclass
    class Small:
        instructions: tuple[Instruction, ...]
        name: str = "kernel"
        registers: int = 16

    program = Small(tuple(parse_instruction(16 * k, text, CONTROL, {}) for k, text in enumerate(texts)))
    result = lower(program)
    assert result.code[:, m.COL_READS].tolist() == [0x303, 0x1212, 0x1211, 0x1111]  # 0x1200: if R2 was not kept
    assert result.code.flags.c_contiguous
    assert result.code.shape == (4, m.COLUMNS)
    assert result.rows_per_warp == result.sink_row + 4
