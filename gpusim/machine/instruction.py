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
    **dict.fromkeys([(M.CLS_MEMORY, M.OP_BULK_COPY), (M.CLS_CONTROL, M.OP_BULK_COMMIT)], "bulk and tensor copies"),
    **dict.fromkeys([(M.CLS_MEMORY, op) for op in (M.OP_SYNCS, M.OP_STAS, M.OP_ARRIVES)], "mbarriers"),
    **dict.fromkeys([(M.CLS_TENSOR, M.OP_GMMA), (M.CLS_CONTROL, M.OP_GROUP_ARRIVE)], "products of four warps (wgmma)"),
}
"""What it refuses, by class and operation."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What the machine needs to know of an instruction, decoded from its row.

    stall: cycles until the warp may issue the next one; boards: scoreboards that it waits for; counted: that of a
    DEPBAR, which waits until no more than `may_be_left` groups of copies are on their way; awaited: all of these;
    result, sources: the scoreboard that it sets until its result is there, or until its sources are read, 7 for none;
    constant: the operand that it reads from a constant bank, -1 for none; variable: its latency is told by a
    scoreboard; past_l1: a copy that leaves nothing in L1; beyond: it may go there; yields: 1
    if another warp's turn is next.
    """

    pc: int
    op: int
    kind: int
    unit: int
    space: int
    size: int
    stall: int
    boards: tuple[int, ...]
    counted: tuple[int, ...]
    awaited: tuple[int, ...]
    may_be_left: int
    result: int
    sources: int
    constant: int
    variable: bool
    even: int
    odd: int
    wide: bool
    adds_floats: bool
    past_l1: bool
    is_memory: bool
    is_copy: bool
    beyond: bool
    yields: int


def decode(code: np.ndarray) -> list[Decoded]:
    """The instructions of a program, from the rows that the engine executes."""
    made = []
    for pc, row in enumerate(code.tolist()):
        kind, op = row[M.COL_CLASS], row[M.COL_OP]
        copy = (kind, op) == (M.CLS_MEMORY, M.OP_LDGSTS)
        boards = tuple(k for k in range(6) if row[M.COL_WAIT] >> k & 1)
        counts = (kind, op) == (M.CLS_CONTROL, M.OP_DEPBAR) and row[M.COL_AUX0] < 6
        counted = (row[M.COL_AUX0],) if counts else ()
        made.append(
            Decoded(
                pc=pc,
                op=op,
                kind=kind,
                unit=row[M.COL_UNIT],
                space=M.SPACE_GLOBAL if copy else row[M.COL_AUX0],
                size=row[M.COL_AUX1] & 255,
                stall=max(row[M.COL_STALL], 1),
                boards=boards,
                counted=counted,
                awaited=boards + counted,
                may_be_left=row[M.COL_AUX1] if counts else 0,
                result=row[M.COL_WBAR],
                sources=row[M.COL_RBAR],
                constant=row[M.COL_AUX4] << 16 if op == M.OP_LDC else row[M.COL_CONST],
                variable=row[M.COL_VARIABLE] != 0,
                even=row[M.COL_READS] & 15,
                odd=row[M.COL_READS] >> 4,
                wide=row[M.COL_UNIT] == M.UNIT_FMAHEAVY and M.OP_IMAD_WIDE_U <= op <= M.OP_IMAD_HI_S,
                adds_floats=row[M.COL_AUX4] in _FLOAT_SUMS and op in (M.OP_ATOM, M.OP_RED),
                past_l1=row[M.COL_AUX3] & M.MEM_BYPASS != 0,
                is_memory=kind == M.CLS_MEMORY and op != M.OP_QSPC,
                is_copy=copy,
                beyond=kind == M.CLS_MEMORY and op != M.OP_LDC and (copy or row[M.COL_AUX0] != M.SPACE_SHARED),
                yields=row[M.COL_YIELD],
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
        raise ModeError(f'the SimPy machine does not model {", ".join(dict.fromkeys(found))}; model="engine" does')
