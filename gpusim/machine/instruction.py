"""Instructions as the machine sees them, decoded from the engine's rows, and what of them it does not model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.errors import ModeError
from isa import Program
from isa import microops as M

_FLOATS = (M.TYPE_F32, M.TYPE_F16X2, M.TYPE_BF16X2, M.TYPE_F64, M.TYPE_F32_FTZ)
_FLOAT_SUMS = {M.ATOMIC_ADD << 8 | kind for kind in _FLOATS}

NOT_MODELLED = {
    **dict.fromkeys([(M.CLS_MEMORY, M.OP_LDGSTS), (M.CLS_MEMORY, M.OP_ARRIVES)], "asynchronous copies"),
    **dict.fromkeys([(M.CLS_MEMORY, M.OP_BULK_COPY), (M.CLS_CONTROL, M.OP_BULK_COMMIT)], "bulk and tensor copies"),
    **dict.fromkeys([(M.CLS_MEMORY, M.OP_SYNCS), (M.CLS_MEMORY, M.OP_STAS)], "mbarriers"),
    **dict.fromkeys([(M.CLS_TENSOR, M.OP_GMMA), (M.CLS_CONTROL, M.OP_GROUP_ARRIVE)], "products of four warps (wgmma)"),
    **dict.fromkeys([(M.CLS_CONTROL, M.OP_SYSCALL)], "calls of the host (printf, malloc)"),
    **dict.fromkeys([(M.CLS_CONTROL, M.OP_GRID_WAIT), (M.CLS_CONTROL, M.OP_GRID_TRIGGER)], "dependent launches"),
}
"""What it refuses, by class and operation."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What the machine needs to know of an instruction, decoded from its row.

    stall: cycles until the warp may issue the next one; boards: scoreboards that it waits for; result, sources: the
    scoreboard that it sets until its result is there, or until its sources are read, 7 for none; constant: the operand
    that it reads from a constant bank, -1 for none; variable: its latency is told by a scoreboard.
    """

    pc: int
    op: int
    kind: int
    unit: int
    space: int
    size: int
    stall: int
    boards: tuple[int, ...]
    result: int
    sources: int
    constant: int
    variable: bool
    even: int
    odd: int
    wide: bool
    adds_floats: bool

    @property
    def is_memory(self) -> bool:
        """True for loads, stores and atomics."""
        return self.kind == M.CLS_MEMORY and self.op != M.OP_QSPC


def decode(code: np.ndarray) -> list[Decoded]:
    """The instructions of a program, from the rows that the engine executes."""
    made = []
    for pc, row in enumerate(code.tolist()):
        variable = row[M.COL_VARIABLE] != 0
        made.append(
            Decoded(
                pc=pc,
                op=row[M.COL_OP],
                kind=row[M.COL_CLASS],
                unit=row[M.COL_UNIT],
                space=row[M.COL_AUX0],
                size=row[M.COL_AUX1] & 255,
                stall=max(row[M.COL_STALL], 1),
                boards=tuple(k for k in range(6) if row[M.COL_WAIT] >> k & 1),
                result=row[M.COL_WBAR],
                sources=row[M.COL_RBAR],
                constant=row[M.COL_AUX4] << 16 if row[M.COL_OP] == M.OP_LDC else row[M.COL_CONST],
                variable=variable,
                even=row[M.COL_READS] & 15,
                odd=row[M.COL_READS] >> 4,
                wide=row[M.COL_UNIT] == M.UNIT_FMAHEAVY and M.OP_IMAD_WIDE_U <= row[M.COL_OP] <= M.OP_IMAD_HI_S,
                adds_floats=row[M.COL_AUX4] in _FLOAT_SUMS and row[M.COL_OP] in (M.OP_ATOM, M.OP_RED),
            )
        )
    return made


def check_modelled(program: Program, code: np.ndarray) -> None:
    """Raise ModeError for a launch of which the machine does not model something, by its name."""
    operations = set(zip(code[:, M.COL_CLASS].tolist(), code[:, M.COL_OP].tolist(), strict=True))
    found = [words for (kind, op), words in NOT_MODELLED.items() if (kind, op) in operations]
    if program.cluster is not None:
        found.insert(0, "thread block clusters")
    if found:
        raise ModeError(f"the SimPy machine does not model {', '.join(dict.fromkeys(found))}; model=\"engine\" does")
