"""The tables of instructions and micro-operations in the documentation are what the code says."""

from pathlib import Path

from docs.site.instructions import GROUPS, WRITTEN, modifiers, rewritten, table
from isa.opcodes import OPCODES

DOCUMENTS = Path(__file__).parents[2] / "docs"


def test_the_document_is_up_to_date():
    text = (DOCUMENTS / "machine-language.md").read_text(encoding="utf-8")
    assert text == rewritten(text), "run: python -m docs.site.instructions --write docs/machine-language.md"
    assert all(f"<!-- {each}: " in text for each in WRITTEN)


def test_every_opcode_is_in_the_table_once():
    cells = [cell for row in table().splitlines()[2:-2] for cell in row.split("|")[2:4]]
    names = [name.strip() for cell in cells for name in cell.split(",") if name.strip() != "none"]
    assert sorted(names) == sorted(OPCODES)
    assert {row.unit for row in OPCODES.values()} <= set(GROUPS)


def test_modifiers_are_listed():
    assert "F2FP" in modifiers() and "UNPACK_B_MERGE_C" in modifiers()
    assert "TEX" not in [line.split()[0] for line in modifiers().splitlines() if not line.startswith(" ")]
