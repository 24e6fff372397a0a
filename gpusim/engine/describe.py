"""Text on an SM and its warps for debugging the engine: `describe(state, sm)` between two windows.

It tells every array of the SMs whose rows are a `Record` in `state.arrays`: the rows in use, and of each the columns
that are not 0, by the names of `layout` without their prefix and in small letters. Element k of a column that has
several is `name[k]`.
"""

from __future__ import annotations

import numpy as np

from gpusim.engine.state import L, P
from gpusim.engine.state.arrays import SM, SMS, SPLIT, WARP, Record, State
from isa import Program
from isa import microops as M
from isa.instruction import INSTRUCTION_BYTES
from isa.lower import SINK_ROWS

_STATES = ("FREE", "RUNNING", "STOPPED", *(name for name in vars(L) if name.startswith("WAIT_")))
MOST_ROWS = 32  # of one queue that are told


def fields(record: Record, row: np.ndarray) -> str:
    """The columns of a row that are not 0, by name."""
    named = zip(record.names, row.tolist(), strict=True)
    return ", ".join(f"{name} {_number(value)}" for name, value in named if value) or "all 0"


def describe(state: State, sm: int, program: Program | None = None) -> str:
    """Describe what an SM holds, in lines: warps, sub-partitions, blocks, what is in flight.

    program: that of the launch, for the text of instructions; without it, micro-operations are told by number.
    """
    lines = [f"SM {sm}: {fields(SM, state.sm[sm])}"]
    for each in state.ARRAYS:
        record = each.shape[-1]
        if each.owner == SMS and isinstance(record, Record) and each.used is not None and each.name != "sm":
            array = getattr(state, each.name)
            rows = array[sm] if each.shape[0] == "sms" else np.split(array, len(state.sm))[sm]
            used = each.used(state.sm[sm], rows)
            lines.append(f"{each.meaning}: {len(used)}")
            for k in used if each.name == "warp" else used[:MOST_ROWS]:
                if each.name == "warp":
                    lines.extend(f"  {line}" for line in _warp(state, sm, sm * len(rows) + k, program))
                else:
                    lines.append(f"  {k}: {fields(record, rows[k])}")
    times, what = (row[sm, : state.sm[sm, L.SM_EVENTS]].tolist() for row in (state.event_time, state.event))
    replies = sorted(zip(times, what, strict=True))
    arrivals = [f"  at {at}: {('instruction', 'miss')[k & 1]} {k >> 1}" for at, k in replies]
    lines.extend([f"replies to come: {len(replies)}", *arrivals[:MOST_ROWS]])
    return "\n".join(lines)


def describe_warp(state: State, sm: int, w: int, program: Program | None = None) -> str:
    """Return where a warp is, what it waits for, and its registers and predicates, in lines."""
    lines = _warp(state, sm, w, program)
    own = registers(state, w)
    for name, values in own.items():
        if (values == values[0]).all():
            lines.extend([f"{name:5} {values[0]:#010x} in all lanes"] if values[0] else [])
            continue
        for first, row in zip(range(0, 32, 8), values.reshape(4, 8), strict=True):
            words = " ".join(f"{value:08x}" for value in row)
            lines.append(f"{name if first == 0 else '':5} lanes {first:2}: {words}")
    lines.append("0 in all lanes: " + " ".join(name for name, values in own.items() if not values.any()))
    lines.append("lanes: " + ", ".join(f"{name} {mask:#010x}" for name, mask in predicates(state, w).items()))
    return "\n".join(lines)


def registers(state: State, w: int) -> dict[str, np.ndarray]:
    """Copies of a warp's registers, uint32 [32] each, by name; each lane of a uniform one has its value."""
    rows, uniform = int(state.par[P.ROWS_PER_WARP]), int(state.par[P.UREG_BASE])
    first = int(state.par[P.CONST_ROWS]) + w * rows
    own = state.regs.reshape(-1, L.LANES_OF_WARP)[first : first + rows - SINK_ROWS].copy()
    return {f"R{k}" if k < uniform else f"UR{k - uniform}": row for k, row in enumerate(own)}


def predicates(state: State, w: int) -> dict[str, int]:
    """Lanes for which each predicate of a warp is true, by name."""
    own = state.preds[16 * w : 16 * w + 16].reshape(2, -1).tolist()  # of either kind the last one is always true
    return {f"{kind}{k}": own[n][k] for n, kind in enumerate(("P", "UP")) for k in range(7)}


def _warp(state: State, sm: int, w: int, program: Program | None) -> list[str]:
    """Return where a warp is, and all of its fields."""
    smsps, row = int(state.par[P.SUB_PARTITIONS]), state.warp[w]
    local = w - sm * smsps * int(state.par[P.WARP_SLOTS])
    block = state.block[sm, row[L.WARP_BLOCK]]
    x, y, z = block[L.BLOCK_X : L.BLOCK_Z + 1].tolist()
    pc = int(row[L.WARP_PC])
    doing = next(name for name in _STATES if getattr(L, name) == row[L.WARP_STATE])
    if row[L.WARP_STATE] not in (L.FREE, L.RUNNING, L.STOPPED):
        doing += f" ({L.STALLS[row[L.WARP_REASON]]})"
    elif row[L.WARP_STATE] == L.RUNNING:
        doing += f", ready at {_number(int(state.ready[sm * smsps + local % smsps, local // smsps]))}"
    lines = [
        f"warp {row[L.WARP_INDEX]} of block {block[L.BLOCK_NUMBER]} ({x}, {y}, {z}), "
        f"sub-partition {local % smsps}, slot {local // smsps}: {doing}",
        f"  before {pc * INSTRUCTION_BYTES:#06x}: {_instruction(state, pc, program)}",
        f"  lanes {row[L.WARP_ACTIVE]:#010x} of {row[L.WARP_ALIVE]:#010x}",
    ]
    for s in range(6):
        left, release = row[L.WARP_PENDING + s], row[L.WARP_RELEASE + s]
        if left or release:
            reason = L.STALLS[row[L.WARP_KIND + s]]
            lines.append(f"  scoreboard {s}: {left} replies to come, known part over at {_number(release)} ({reason})")
    lines.append(f"  {fields(WARP, row)}")
    if row[L.WARP_ACTIVE] != row[L.WARP_ALIVE]:
        lines.append(f"  lanes that do not run: {fields(SPLIT, state.split[w])}")
    return lines


def _instruction(state: State, pc: int, program: Program | None) -> str:
    if program is None or pc >= len(program.instructions):
        return f"class {state.code[pc, M.COL_CLASS]}, micro-operation {state.code[pc, M.COL_OP]}"
    instruction = program.instructions[pc]
    where = f"  ({instruction.file}:{instruction.line})" if instruction.file else ""
    return instruction.text + where


def _number(value: int) -> str:
    """Times and counts are decimal; what is as large as a mask of all lanes or an address is not."""
    return "never" if value >= L.NEVER else hex(value) if value >= 1 << 31 else str(value)
