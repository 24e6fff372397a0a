"""Reads of the register file.

Each warp's registers lie in two banks by the parity of their number, each bank delivers one register a cycle, and a
source marked `.reuse` stays in a small cache, one entry per bank and source slot, for the next instruction of the warp
(Huerta et al., "Analyzing Modern NVIDIA GPU cores", arXiv 2503.20481, 2025). A register that two sources name is read
once. An H200 agrees: FFMA with three different registers of one bank takes 3 cycles, with two 2, and R8, R8, R8 or
R8, R9, R9 take 1.
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

    def reads(self, writer: RowWriter) -> int:
        """Registers that this instruction reads from the even bank, and 16 times those from the odd one.

        Only 32-bit arithmetic reads three operands at once: for other instructions 0.
        """
        if writer.columns[m.COL_UNIT] not in _MATH:
            self._cached.clear()
            return 0
        read: tuple[set[int], set[int]] = set(), set()
        cached: dict[tuple[int, int], int] = {}
        for column, operand in writer.sources:
            if operand.kind != "reg" or operand.index == RZ:
                continue
            entry = operand.index % 2, _SLOTS[column]
            if self._cached.get(entry) != operand.index:
                read[entry[0]].add(operand.index)
            if operand.reuse:
                cached[entry] = operand.index
        self._cached = cached
        return len(read[0]) + 16 * len(read[1])
