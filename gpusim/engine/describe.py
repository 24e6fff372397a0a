"""What an SM and its warps are at, in words: `describe(state, sm)` between two windows, for whoever debugs the engine.

Fields have the names of `layout` without their prefix, in small letters; those that are 0 are left out. Element k of a
field that has several is `name[k]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from gpusim.engine.state import layout as L
from isa import Program
from isa import microops as M
from isa.instruction import INSTRUCTION_BYTES
from isa.lower import SINK_ROWS

_STATES = ("FREE", "RUNNING", "STOPPED", *(name for name in vars(L) if name.startswith("WAIT_")))
MOST_ROWS = 32  # of one queue that are told


@cache
def field_names(prefix: str, width: int) -> tuple[str, ...]:
    """Names of a row's elements, by what the names of its fields in `layout` begin with."""
    named: dict[int, str] = {}
    for name, value in vars(L).items():
        if name.startswith(prefix) and isinstance(value, int) and value < width:
            named.setdefault(value, name[len(prefix) :].lower())
    names, at = [], 0
    for k in range(width):
        at = k if k in named else at
        names.append(named[at] if k == at else f"{named[at]}[{k - at}]")
    return tuple(names)


def fields(prefix: str, row: np.ndarray) -> str:
    """The elements of a row that are not 0, by name."""
    named = zip(field_names(prefix, len(row)), row.tolist(), strict=True)
    return ", ".join(f"{name} {_number(value)}" for name, value in named if value) or "all 0"


def describe(state: L.State, sm: int, program: Program | None = None) -> str:
    """What an SM holds, in lines: warps, sub-partitions, blocks, what is in flight, caches.

    program: that of the launch, for the text of instructions; without it, micro-operations are told by number.
    """
    smsps, slots = int(state.par[L.P_SUB_PARTITIONS]), int(state.par[L.P_WARP_SLOTS])
    lines = [f"SM {sm}: {fields('S_', state.sm[sm])}", "warps"]
    for w in range(sm * smsps * slots, (sm + 1) * smsps * slots):
        if state.warp[w, L.W_STATE] != L.FREE:
            lines.extend(f"  {line}" for line in _warp(state, sm, w, program))
    lines.append("sub-partitions")
    lines.extend(f"  {k}: {fields('Q_', state.smsp[sm * smsps + k])}" for k in range(smsps))
    lines.append("blocks")
    for slot, row in enumerate(state.block[sm]):
        if row[L.B_STATE] != 0:
            lines.append(f"  slot {slot}: {fields('B_', row)}")
    for title, rows in (*_queues(state, sm), *_caches(state, sm)):
        lines.extend([f"{title}: {len(rows)}", *(f"  {text}" for text in rows[:MOST_ROWS])])
    return "\n".join(lines)


def describe_warp(state: L.State, sm: int, w: int, program: Program | None = None) -> str:
    """Where a warp is, what it waits for, and its registers and predicates, in lines."""
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


def registers(state: L.State, w: int) -> dict[str, np.ndarray]:
    """Copies of a warp's registers, uint32 [32] each, by name; each lane of a uniform one has its value."""
    rows, uniform = int(state.par[L.P_ROWS_PER_WARP]), int(state.par[L.P_UREG_BASE])
    first = int(state.par[L.P_CONST_ROWS]) + w * rows
    own = state.regs.reshape(-1, L.WARP_LANES)[first : first + rows - SINK_ROWS].copy()
    return {f"R{k}" if k < uniform else f"UR{k - uniform}": row for k, row in enumerate(own)}


def predicates(state: L.State, w: int) -> dict[str, int]:
    """Lanes for which each predicate of a warp is true, by name."""
    own = state.preds[16 * w : 16 * w + 16].reshape(2, -1).tolist()  # of either kind the last one is always true
    return {f"{kind}{k}": own[n][k] for n, kind in enumerate(("P", "UP")) for k in range(7)}


def _warp(state: L.State, sm: int, w: int, program: Program | None) -> list[str]:
    """Where a warp is, and all of its fields."""
    smsps, row = int(state.par[L.P_SUB_PARTITIONS]), state.warp[w]
    local = w - sm * smsps * int(state.par[L.P_WARP_SLOTS])
    block = state.block[sm, row[L.W_BLOCK]]
    x, y, z = block[L.B_X : L.B_Z + 1].tolist()
    pc = int(row[L.W_PC])
    doing = next(name for name in _STATES if getattr(L, name) == row[L.W_STATE])
    if row[L.W_STATE] not in (L.FREE, L.RUNNING, L.STOPPED):
        doing += f" ({L.STALLS[row[L.W_REASON]]})"
    elif row[L.W_STATE] == L.RUNNING:
        doing += f", ready at {_number(int(state.ready[sm * smsps + local % smsps, local // smsps]))}"
    lines = [
        f"warp {row[L.W_INDEX]} of block {block[L.B_NUMBER]} ({x}, {y}, {z}), "
        f"sub-partition {local % smsps}, slot {local // smsps}: {doing}",
        f"  before {pc * INSTRUCTION_BYTES:#06x}: {_instruction(state, pc, program)}",
        f"  lanes {row[L.W_ACTIVE]:#010x} of {row[L.W_ALIVE]:#010x}",
    ]
    for s in range(6):
        left, release = row[L.W_PENDING + s], row[L.W_RELEASE + s]
        if left or release:
            reason = L.STALLS[row[L.W_KIND + s]]
            lines.append(f"  scoreboard {s}: {left} replies to come, known part over at {_number(release)} ({reason})")
    lines.append(f"  {fields('W_', row)}")
    if row[L.W_ACTIVE] != row[L.W_ALIVE]:
        lines.append(f"  lanes that do not run: {fields('D_', state.split[w])}")
    return lines


def _instruction(state: L.State, pc: int, program: Program | None) -> str:
    if program is None or pc >= len(program.instructions):
        return f"class {state.code[pc, M.COL_CLASS]}, micro-operation {state.code[pc, M.COL_OP]}"
    instruction = program.instructions[pc]
    where = f"  ({instruction.file}:{instruction.line})" if instruction.file else ""
    return instruction.text + where


def _queues(state: L.State, sm: int) -> Iterator[tuple[str, list[str]]]:
    """What is in flight: (title, a line for each)."""
    s = state.sm[sm]
    tokens = _taken(state.token[sm], int(s[L.S_TOKENS_NEW]), int(s[L.S_TOKEN_FREE]), L.T_NEXT)
    yield "memory instructions in flight", [f"{k}: {fields('T_', state.token[sm, k])}" for k in tokens]
    mshrs = _taken(state.mshr[sm], int(s[L.S_MSHRS_NEW]), int(s[L.S_MSHR_FREE]), L.MSHR_NEXT)
    yield "L1 misses in flight", [f"{k}: {fields('MSHR_', state.mshr[sm, k])}" for k in mshrs]
    queued = [(s[L.S_QUEUED_FIRST] + k) % len(state.queued[sm]) for k in range(s[L.S_QUEUED])]
    yield "instructions that wait for the way to L2", [fields("QUEUED_", state.queued[sm, k]) for k in queued]
    stored = [(s[L.S_STORED_FIRST] + k) % L.STORED_MOST for k in range(s[L.S_STORED])]
    yield "lines of stores that wait", [fields("STORED_", state.stored[sm, k]) for k in stored]
    yield "accesses that take effect at L2", [fields("X_", row) for row in state.deferred[sm, : s[L.S_DEFERRED]]]
    times, what = (row[sm, : s[L.S_EVENTS]].tolist() for row in (state.event_time, state.event))
    arrivals = sorted(zip(times, what, strict=True))
    yield "replies to come", [f"at {at}: {('instruction', 'miss')[k & 1]} {k >> 1}" for at, k in arrivals]


def _taken(rows: np.ndarray, new: int, free: int, following: int) -> list[int]:
    """Rows of a pool that are in use. new: the first never used; free: 1 + the last one given back, with the others
    behind it by their field `following`."""
    idle = set()
    while free:
        idle.add(free - 1)
        free = int(rows[free - 1, following])
    return [k for k in range(new) if k not in idle]


def _caches(state: L.State, sm: int) -> Iterator[tuple[str, list[str]]]:
    """The same of L1's lines with sectors to come, and how full the caches are."""
    tags = state.tags[sm]
    lines = tags[L.L_TAG], state.icache[sm, :, 0], state.constant[sm]
    held, code, constants = (np.count_nonzero(each >= 0) for each in lines)
    pending = [f"{k}: {fields('L_', tags[:, k])}" for k in np.flatnonzero(tags[L.L_PENDING]).tolist()]
    yield f"L1 holds {held} lines, instruction caches {code}, constant caches {constants}; lines of L1 to come", pending


def _number(value: int) -> str:
    """Times and counts are decimal; what is as large as a mask of all lanes or an address is not."""
    return "never" if value >= L.NEVER else hex(value) if value >= 1 << 31 else str(value)
