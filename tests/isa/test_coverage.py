"""The coverage table in the documentation is what the opcode table says."""

from pathlib import Path

from isa.coverage import BEGIN, END, GROUPS, modifiers, table
from isa.opcodes import OPCODES

DOCUMENT = Path(__file__).parents[2] / "docs" / "machine-language.md"


def test_the_document_is_up_to_date():
    text = DOCUMENT.read_text(encoding="utf-8")
    written = text.split(BEGIN)[1].split(END)[0].strip()
    assert written == table(), "run: python -m isa.coverage --write docs/machine-language.md"


def test_every_opcode_is_in_the_table_once():
    cells = [cell for row in table().splitlines()[2:-2] for cell in row.split("|")[2:4]]
    names = [name.strip() for cell in cells for name in cell.split(",") if name.strip() != "none"]
    assert sorted(names) == sorted(OPCODES)
    assert {row.unit for row in OPCODES.values()} <= set(GROUPS)


def test_modifiers_are_listed():
    assert "F2FP" in modifiers() and "UNPACK_B_MERGE_C" in modifiers()
    assert "TEX" not in [line.split()[0] for line in modifiers().splitlines() if not line.startswith(" ")]
