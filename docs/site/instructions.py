"""`python -m docs.site.instructions`: tables of instructions, executed or refused, from the opcode table, and of
micro-operations, from their rows."""

from __future__ import annotations

import argparse
import re
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


def micro_operations() -> str:
    """Markdown: one row per micro-operation, by executor."""
    rows, executor = [], ""
    for name, row in m.MICRO_OPERATIONS.items():
        if row.executor != executor:
            executor = row.executor
            rows += ["", f"`{executor}`", "", "| micro-operation | meaning | words |", "|---|---|---|"]
        words = "; ".join(f"{word}: {text}" for word, text in row.words.items())
        cells = (re.sub(r"([*|])", r"\\\1", cell) for cell in (name, row.meaning, words))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows[1:])


def modifiers() -> str:
    """Every opcode that is executed, with the modifiers that it takes."""
    lines = []
    for name, row in sorted(OPCODES.items()):
        if not row.refused:
            text = " ".join(sorted(row.modifiers)) or "-"
            lines.append(textwrap.fill(text, 110, initial_indent=f"{name:<14}", subsequent_indent=" " * 14))
    return "\n".join(lines)


WRITTEN = {"coverage": table, "micro-operations": micro_operations}
_MARKED = re.compile(
    r"(<!-- ([\w-]+): written by python -m docs.site.instructions -->\n)(.*?)(\n<!-- end of \2 -->)", re.DOTALL
)


def rewritten(text: str) -> str:
    """A document with what stands between its marks as the code says it today."""
    return _MARKED.sub(lambda match: match[1] + WRITTEN[match[2]]() + match[4], text)


def main() -> None:
    """Print the table, or write it into the documentation."""
    parser = argparse.ArgumentParser(
        prog="python -m docs.site.instructions",
        description=__doc__,
        epilog="example: python -m docs.site.instructions --modifiers",
    )
    parser.add_argument("--modifiers", action="store_true", help="list every opcode with its modifiers")
    parser.add_argument("--write", metavar="FILE", type=Path, help="renew the tables in this document")
    options = parser.parse_args()
    if options.write:
        options.write.write_text(rewritten(options.write.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(modifiers() if options.modifiers else table())


if __name__ == "__main__":
    main()
