"""Instructions as the machine sees them, decoded from the engine's rows, and what of them it does not model."""

from __future__ import annotations

import numpy as np

from gpusim.errors import ModeError
from isa import Program
from isa import microops as M

_FLOATS = (M.TYPE_F32, M.TYPE_F16X2, M.TYPE_BF16X2, M.TYPE_F64, M.TYPE_F32_FTZ)
_FLOAT_SUMS = {M.ATOMIC_ADD << 8 | kind for kind in _FLOATS}

NOT_MODELLED = {
    **dict.fromkeys([(M.CLS_MEMORY, M.OP_BULK_COPY), (M.CLS_CONTROL, M.OP_BULK_COMMIT)], "bulk and tensor copies"),
    **dict.fromkeys([(M.CLS_MEMORY, op) for op in (M.OP_SYNCS, M.OP_STAS, M.OP_ARRIVES)], "mbarriers"),
    **dict.fromkeys([(M.CLS_TENSOR, M.OP_GMMA), (M.CLS_CONTROL, M.OP_GROUP_ARRIVE)], "products of four warps (wgmma)"),
    **dict.fromkeys([(M.CLS_TMEM, op) for op in range(M.OP_TMEM_LOAD, M.OP_TMEM_LEAVE + 1)], "tensor memory (tcgen05)"),
}
"""What it refuses, by class and operation."""


class Decoded:
    """What the machine needs to know of an instruction, from its row of the engine's.

    stall: cycles until the warp may issue the next one; boards: scoreboards that it waits for; counted: that of a
    DEPBAR, which waits until no more than `may_be_left` groups of copies are on their way; awaited: all of these;
    result, sources: the scoreboard that it sets until its result is there, or until its sources are read, 7 for none;
    constant: the operand that it reads from a constant bank, -1 for none; variable: its latency is told by a
    scoreboard; past_l1: a copy that leaves nothing in L1; beyond: it may go there; yields: 1
    if another warp's turn is next.
    """

    def __init__(self, pc: int, row: list[int]):
        kind, op = row[M.COL_CLASS], row[M.COL_OP]
        self.pc, self.op, self.kind, self.unit = pc, op, kind, row[M.COL_UNIT]
        self.is_memory = kind == M.CLS_MEMORY and op not in (M.OP_QSPC, M.OP_PREFETCH)
        self.is_copy = (kind, op) == (M.CLS_MEMORY, M.OP_LDGSTS)
        self.space = M.SPACE_GLOBAL if self.is_copy else row[M.COL_AUX0]
        self.size = row[M.COL_AUX1] & 255
        self.past_l1 = row[M.COL_AUX3] & M.MEM_BYPASS != 0
        self.beyond = kind == M.CLS_MEMORY and op != M.OP_LDC and self.space != M.SPACE_SHARED
        self.stall = max(row[M.COL_STALL], 1)
        self.yields = row[M.COL_YIELD]
        counts = (kind, op) == (M.CLS_CONTROL, M.OP_DEPBAR) and row[M.COL_AUX0] < 6
        self.boards = tuple(k for k in range(6) if row[M.COL_WAIT] >> k & 1)
        self.counted = (row[M.COL_AUX0],) if counts else ()
        self.awaited = self.boards + self.counted
        self.may_be_left = row[M.COL_AUX1] if counts else 0
        self.result, self.sources = row[M.COL_WBAR], row[M.COL_RBAR]
        self.constant = row[M.COL_AUX4] << 16 if op == M.OP_LDC else row[M.COL_CONST]
        self.variable = row[M.COL_VARIABLE] != 0
        self.even, self.odd = row[M.COL_READS] & 15, row[M.COL_READS] >> 4 & 15
        self.wide = self.unit == M.UNIT_FMAHEAVY and M.OP_IMAD_WIDE_U <= op <= M.OP_IMAD_HI_S
        self.adds_floats = row[M.COL_AUX4] in _FLOAT_SUMS and op in (M.OP_ATOM, M.OP_RED)


def check_modelled(program: Program, code: np.ndarray) -> None:
    """Raise ModeError for a launch of which the machine does not model something, by its name."""
    operations = set(zip(code[:, M.COL_CLASS].tolist(), code[:, M.COL_OP].tolist(), strict=True))
    found = [words for (kind, op), words in NOT_MODELLED.items() if (kind, op) in operations]
    if program.cluster is not None:
        found.insert(0, "thread block clusters")
    if found:
        raise ModeError(f'the SimPy machine does not model {", ".join(dict.fromkeys(found))}; model="engine" does')
