"""The rows of the opcode table do not contradict each other."""

from isa import microops as m
from isa.opcodes import OPCODES, ROWS


def test_no_two_rows_have_one_name():
    assert len(OPCODES) == len(ROWS)


def test_a_uniform_row_uses_the_uniform_datapath():
    """S2UR, which reads a special register, excepted."""
    assert {row.name for row in ROWS if row.uniform and row.unit != m.UNIT_UNIFORM} == {"S2UR"}


def test_every_row_names_a_known_unit():
    assert all(0 <= row.unit < m.UNITS for row in OPCODES.values())
    # Uniform registers or none, but another unit, or no meaning of a vector instruction.
    bulk = ("UBLK", "UTMA", "UTC", "UVIRT", "UCGABAR", "USETMAXREG", "UGETNEXT")
    for name, row in OPCODES.items():
        expected = name in ("S2UR", "LDCU") or (name.startswith("U") and not name.startswith(bulk))
        assert row.refused or row.uniform == expected, name


def test_columns_are_distinct():
    columns = [value for name, value in vars(m).items() if name.startswith("COL_")]
    assert len(set(columns)) == len(columns)
    assert max(columns) < m.COLUMNS
