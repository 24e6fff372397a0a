"""The opcode table, `opcodes.toml`: one line per SASS instruction, which says what each field is."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from isa import lower_bulk, lower_control, lower_float, lower_int, lower_memory, lower_tensor, lower_tmem, lower_writer
from isa import microops as m
from isa.instruction import RZ, Instruction
from isa.lower_writer import RowWriter


@dataclass(frozen=True)
class Opcode:
    """One line of the table.

    Attributes:
        name: opcode without modifiers.
        unit: UNIT_* of isa.microops.
        variable: the result is announced by a scoreboard instead of a fixed number of cycles.
        lower: fills the rest of a code row, or raises UnknownInstruction.
        modifiers: those that `lower` understands.
        pipes: what Nsight Compute counts it in, for each kind of it (see `pipes_of`).
        uniform: executes once for the warp, in the uniform datapath.
        refused: why a program with this instruction does not run; empty if it does.
    """

    name: str
    unit: int
    variable: bool
    lower: Callable[[RowWriter], None]
    modifiers: frozenset[str]
    pipes: dict[str, tuple[str, ...]]
    uniform: bool = False
    refused: str = ""


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_PIPES: dict[str, str] = _TABLE["units"]
_WORDS = _TABLE["words"] | {"GROUP": " ".join(f"64x{n}x{k}" for n in range(8, 257, 8) for k in (8, 16, 32, 64, 256))}
_GROUPS = (lower_bulk, lower_control, lower_float, lower_int, lower_memory, lower_tensor, lower_tmem)
_LOWERINGS = {each.__name__.removeprefix("isa.lower_"): each for each in _GROUPS}
_BY_LANE = "TID TID.X TID.Y TID.Z LANEID EQMASK LTMASK LEMASK GTMASK GEMASK VIRTID"
_LANE_REGISTERS = frozenset(f"SR_{name}" for name in _BY_LANE.split())


def _kinds(unit: str, pipes: str | None = None) -> dict[str, tuple[str, ...]]:
    """'lsu, GPU: lsu tex' as {'': ('lsu',), 'GPU': ('lsu', 'tex')}; None stands for what the unit says."""
    kinds = {}
    for kind in (_PIPES[unit] if pipes is None else pipes.format(**_WORDS)).split(", "):
        condition, _, names = kind.rpartition(":")
        kinds[condition] = tuple(dict.fromkeys(names.split()))
    return kinds


def _unit(name: str) -> int:
    return int(getattr(m, f"UNIT_{name}"))


# The parameters are the fields of a line.
def _row(
    name: str, unit: str, lower: str = "", plain: Mapping[str, Any] | None = None, variable: bool = False,
    modifiers: str = "", pipes: str | None = None,
) -> Opcode:  # fmt: skip
    if plain is None:
        group, _, function = lower.partition(".")
        lowering = getattr(_LOWERINGS[group], function)
    else:
        lowering = lower_writer.plain(**plain)
    understood = frozenset(modifiers.format(**_WORDS).split())
    return Opcode(name, _unit(unit), variable, lowering, understood, _kinds(unit, pipes))


def pipes_of(instruction: Instruction) -> tuple[str, ...]:
    """The pipes of Nsight Compute (`PIPES`) that count an execution of the instruction, whatever its guard says.

    A row's later kinds go before its earlier ones. A kind is a modifier, REGISTER if one is read, or LANE for a
    special register that differs from lane to lane.
    """
    kinds = OPCODES[instruction.opcode].pipes
    found = kinds[""]
    for kind, names in kinds.items():
        if kind == "REGISTER":
            holds = any(each.kind == "reg" and each.index != RZ for each in instruction.operands)
        elif kind == "LANE":
            holds = any(each.value in _LANE_REGISTERS for each in instruction.operands)
        else:
            holds = kind in instruction.modifiers
        found = names if holds else found
    return found


def _uniform_rows(rows: Iterable[Opcode]) -> list[Opcode]:
    by_name = {row.name: row for row in rows}
    vectors = {"U" + name: name for name in _TABLE["uniform"]["also"].split()} | _TABLE["uniform"]["renamed"]
    result = []
    for name, vector in vectors.items():
        row = by_name[vector]
        modifiers = row.modifiers | ({"64"} if name == "UIADD3" else set())
        pipes = _kinds("UNIFORM", "" if name in ("UMOV", "ULDC", "LDCU") else None)
        result.append(
            replace(row, name=name, unit=m.UNIT_UNIFORM, variable=False, modifiers=modifiers, uniform=True, pipes=pipes)
        )
    return [*result, replace(by_name["S2R"], name="S2UR", uniform=True, pipes=_kinds("ADU"))]


def _refused_rows() -> list[Opcode]:
    return [
        Opcode(name, _unit(row["unit"]), True, lower_control.nothing, frozenset(), _kinds(row["unit"]), refused=reason)
        for reason, row in _TABLE["refused"].items()
        for name in row["names"].split()
    ]


_VECTOR_ROWS = [_row(name, **fields) for name, fields in _TABLE["opcodes"].items()]
ROWS = (*_VECTOR_ROWS, *_uniform_rows(_VECTOR_ROWS), *_refused_rows())
OPCODES = {row.name: row for row in ROWS}
PIPES = tuple(sorted({name for row in OPCODES.values() for names in row.pipes.values() for name in names}))
"""Every pipe that counts instructions."""
