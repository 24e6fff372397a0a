"""The opcode table checks itself when it is built."""

from dataclasses import replace

import pytest

from isa import microops as m
from isa.opcodes import OPCODES, build_table


def test_two_rows_of_one_name_are_rejected():
    row = OPCODES["IADD3"]
    with pytest.raises(ValueError, match="two rows for opcode IADD3"):
        build_table([row, row])


def test_a_uniform_row_must_use_the_uniform_datapath():
    with pytest.raises(ValueError, match="UMOV"):
        build_table([replace(OPCODES["UMOV"], unit=m.UNIT_ALU)])


def test_every_row_names_a_known_unit():
    assert all(0 <= row.unit < m.UNITS for row in OPCODES.values())
    bulk = ("UBLK", "UTMA", "UCGABAR", "USETMAXREG", "UGETNEXT")  # uniform registers or none, but another unit
    for name, row in OPCODES.items():
        expected = name in ("S2UR", "LDCU") or (name.startswith("U") and not name.startswith(bulk))
        assert row.refused or row.uniform == expected, name


def test_columns_are_distinct():
    columns = [value for name, value in vars(m).items() if name.startswith("COL_")]
    assert len(set(columns)) == len(columns)
    assert max(columns) < m.COLUMNS
