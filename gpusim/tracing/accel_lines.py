"""The parts of a line of an Accel-Sim trace that lanes do not change: opcode, registers, width, immediates.

The format is that of the tracer (accel-sim-framework, `util/tracer_nvbit/tracer_tool`) and of its reader
(`gpu-simulator/trace-parser`), version 5. A tracer on a GPU takes operands as NVBit has them: the first one is the
destination if it is a vector register; sources are the other vector registers and the base registers of addresses; an
immediate is any integer, the target of a branch too. Predicates, uniform registers and constants are left out. Two
things are not as a tracer on a GPU writes them: a copy from global to shared memory (LDGSTS) is one line, with the
address in global memory, not two; and opcodes that the reader's table for a version of machine code lacks are written
as others that do the same in it.
"""

from __future__ import annotations

import tomllib
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpusim.errors import TraceError
from gpusim.tracing import BINARY_VERSIONS
from isa import Program
from isa.instruction import INSTRUCTION_BYTES, Instruction, Operand

_MOST_SOURCES = 4  # that the reader takes
_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_RENAMED = {
    version: {
        name: written
        for last, rows in _TABLES["renamed"].items()
        for written, names in rows.items()
        for name in names
        if version <= int(last)
    }
    for version in BINARY_VERSIONS
}
"""By version: opcodes that its table lacks, and as which others they are written."""
_NEWER = {name: int(first) for first, names in _TABLES["since"].items() for name in names}
"""Opcodes that no older table has anything like, and the first version that has them."""
_UNTOLD = frozenset(_TABLES["untold"])
"""Opcodes whose work the format cannot say."""


class Lines(NamedTuple):
    """Of each instruction: text[head:body] is its program counter, text[body:tail] goes from behind the mask to the
    width of an access, and text[tail:end] is what follows the addresses."""

    text: np.ndarray
    """uint8"""
    at: np.ndarray
    """int64 [instructions, 4]: head, body, tail, end."""
    width: np.ndarray
    """int64 [instructions]: bytes of a lane's access, as the reader takes them from the opcode; 0 of others."""


def binary_version(arch: str) -> int:
    """The version under which the reader takes code for an architecture such as 'sm_90': that, or the last before."""
    number = int("".join(each for each in arch if each.isdigit()))
    return max((each for each in BINARY_VERSIONS if each <= number), default=BINARY_VERSIONS[0])


def lines_of(program: Program, version: int) -> Lines:
    """The lines of a program for a version of machine code, one of BINARY_VERSIONS. Raises TraceError for an
    instruction that its table or the format has nothing like."""
    text, places, widths = bytearray(), [], []
    for k, each in enumerate(program.instructions):
        body, tail, width = _line(each, version)
        parts = b"%04x " % (INSTRUCTION_BYTES * k), body, tail
        places.append(tuple(accumulate(map(len, parts), initial=len(text))))
        widths.append(width)
        text += b"".join(parts)
    at = np.array(places, np.int64).reshape(-1, 4)
    return Lines(np.frombuffer(bytes(text), np.uint8), at, np.array(widths, np.int64))


def _line(instruction: Instruction, version: int) -> tuple[bytes, bytes, int]:
    """What stands behind the mask, what follows the addresses, and the width."""
    destination, sources, immediates, memory = "", [], [], False
    for k, operand in enumerate(instruction.operands):
        if operand.kind == "mem":
            memory = True
            sources.append(_name(operand.base))
        elif operand.kind == "reg":
            if k == 0:
                destination = _name(operand)
            else:
                sources.append(_name(operand))
        elif operand.kind in ("imm", "label") and isinstance(operand.value, int):
            immediates.append(operand.value)
    sources = [each for each in sources if each][:_MOST_SOURCES]
    opcode, registers = _opcode(instruction, version), f"1 {destination}" if destination else "0"
    body = f"{registers} {opcode} {' '.join((str(len(sources)), *sources))} "
    if "GMMA" in opcode:  # the last one of a group names the group's scoreboard
        body += "1 " if "gsb" in instruction.text else "0 "
    return body.encode(), b"%d " % (immediates or [0])[-1], _width(opcode) if memory else 0


def _name(operand: Operand | None) -> str:
    return "" if operand is None else f"R{operand.index}"


def _opcode(instruction: Instruction, version: int) -> str:
    if _NEWER.get(instruction.opcode, 0) > version:
        raise TraceError(
            f"{instruction.text!r}: Accel-Sim has {instruction.opcode} from binary version "
            f"{_NEWER[instruction.opcode]} on, not in {version}"
        )
    some = instruction.opcode == "BAR" and len([o for o in instruction.operands if o.kind in ("imm", "reg")]) > 1
    if some or instruction.opcode in _UNTOLD:
        what = "barriers of some of a block's threads" if some else "mbarriers, bulk copies or clusters"
        raise TraceError(f"{instruction.text!r}: a trace for Accel-Sim has no {what}")
    renamed = _RENAMED[version]
    for name in (".".join((instruction.opcode, *instruction.modifiers[:1])), instruction.opcode):
        if name in renamed:
            return ".".join((renamed[name], *instruction.modifiers))
    return instruction.mnemonic


def _width(mnemonic: str) -> int:
    """Bytes, from the first part of an opcode that is a number of bits, with or without a U; 4 if there is none."""
    for part in mnemonic.split("."):
        digits = part.removeprefix("U")
        if digits.isdecimal():
            return int(digits) // 8
    return 4
