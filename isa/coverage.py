"""`python -m isa.coverage`: which machine instructions are executed and which are refused, from the opcode table."""

from __future__ import annotations

import argparse
import textwrap
from collections import defaultdict
from pathlib import Path

from isa import microops as m
from isa.opcodes import OPCODES

#: Headings of the table by unit, in its order.
GROUPS = {
    m.UNIT_ALU: "Integer and logic (ALU)",
    m.UNIT_FMAHEAVY: "Integer multiplication (FMA heavy)",
    m.UNIT_FMA: "Single precision (FMA)",
    m.UNIT_HALF: "Packed halves",
    m.UNIT_FP64: "Double precision",
    m.UNIT_XU: "Conversions and special functions (XU)",
    m.UNIT_UNIFORM: "Uniform datapath",
    m.UNIT_TENSOR: "Tensor cores",
    m.UNIT_LSU: "Memory and shuffles (LSU)",
    m.UNIT_ADU: "Constants, barriers, special registers (ADU)",
    m.UNIT_CBU: "Control flow (CBU)",
    m.UNIT_NONE: "No unit",
    m.UNIT_TEX: "Textures and surfaces",
}
BEGIN, END = "<!-- coverage: written by python -m isa.coverage -->", "<!-- end of coverage -->"


def table() -> str:
    """Markdown: one row per unit, with its opcodes by what happens to a program that holds them."""
    rows = ["| group | executed | refused before the run |", "|---|---|---|"]
    groups: dict[int, dict[bool, list[str]]] = {unit: defaultdict(list) for unit in GROUPS}
    for row in OPCODES.values():
        groups[row.unit][bool(row.refused)].append(row.name)
    for unit, heading in GROUPS.items():
        executed, refused = (", ".join(sorted(groups[unit][kind])) or "none" for kind in (False, True))
        rows.append(f"| {heading} | {executed} | {refused} |")
    executed_rows = sum(not row.refused for row in OPCODES.values())
    rows += ["", f"{executed_rows} opcodes are executed, {len(OPCODES) - executed_rows} are refused by name."]
    return "\n".join(rows)


def modifiers() -> str:
    """Every opcode that is executed, with the modifiers that it takes."""
    lines = []
    for name, row in sorted(OPCODES.items()):
        if not row.refused:
            text = " ".join(sorted(row.modifiers)) or "-"
            lines.append(textwrap.fill(text, 110, initial_indent=f"{name:<14}", subsequent_indent=" " * 14))
    return "\n".join(lines)


def rewrite(path: Path) -> bool:
    """Put the table between the marks in a document; whether that changed it."""
    old = path.read_text(encoding="utf-8")
    before, rest = old.split(BEGIN)
    new = before + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1]
    path.write_text(new, encoding="utf-8")
    return new != old


def main() -> None:
    """Print the table, or write it into the documentation."""
    parser = argparse.ArgumentParser(
        prog="python -m isa.coverage",
        description=__doc__,
        epilog="example: python -m isa.coverage --modifiers",
    )
    parser.add_argument("--modifiers", action="store_true", help="list every opcode with its modifiers")
    parser.add_argument("--write", metavar="FILE", type=Path, help="renew the table in this document")
    options = parser.parse_args()
    if options.write:
        rewrite(options.write)
    else:
        print(modifiers() if options.modifiers else table())


if __name__ == "__main__":
    main()
