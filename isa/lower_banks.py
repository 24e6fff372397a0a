"""Static read conflicts of the register file.

Each warp's registers lie in two banks by the parity of their number, each bank delivers one register a cycle, and a
source marked `.reuse` stays in a small cache, one entry per bank and source slot, for the next instruction of the warp
(Huerta et al., "Analyzing Modern NVIDIA GPU cores", arXiv 2503.20481, 2025). Three 32-bit sources of one bank thus
cost two extra cycles, two cost one.
"""

from __future__ import annotations

from isa import microops as m
from isa.instruction import RZ
from isa.lower_writer import RowWriter

_SLOTS = {m.COL_A: 0, m.COL_B: 1, m.COL_C: 2}
_MATH = (m.UNIT_FMA, m.UNIT_FMAHEAVY, m.UNIT_ALU, m.UNIT_HALF)


class BankReader:
    """Follows the reuse cache through a program in address order (a branch target starts with what was before it)."""

    def __init__(self) -> None:
        self._cached: dict[tuple[int, int], int] = {}

    def bubbles(self, writer: RowWriter) -> int:
        """Extra read cycles of this instruction, 0..2; only 32-bit arithmetic reads three operands at once."""
        if writer.columns[m.COL_UNIT] not in _MATH:
            self._cached.clear()
            return 0
        reads = [0, 0]
        cached: dict[tuple[int, int], int] = {}
        for column, operand in writer.sources:
            if operand.kind != "reg" or operand.index == RZ:
                continue
            entry = operand.index % 2, _SLOTS[column]
            if self._cached.get(entry) != operand.index:
                reads[entry[0]] += 1
            if operand.reuse:
                cached[entry] = operand.index
        self._cached = cached
        return max(0, max(reads) - 1)
