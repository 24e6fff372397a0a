"""Puts a kernel's code together with what it calls, and writes addresses into it.

A cubin keeps a function that is not part of its caller's section in a section of its own, calls the driver's functions
(vprintf, malloc) by name, and leaves every address of a variable or function to a loader. Here `merge` places code:
the kernel at address 0, behind it the functions of the cubin and one stub for each of the driver's functions. A
function has the same address whichever of the cubin's kernels runs, because tables of function pointers are shared.
`relocate` writes the addresses that a loader chose.

Relocation types are numbered in the order in which `nvlink` names them (R_CUDA_...).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from isa.cubin import Cubin, CubinKernel, Relocation
from isa.errors import CompileError
from isa.instruction import INSTRUCTION_BYTES, Instruction, Operand, parse_instruction

if TYPE_CHECKING:
    from isa.program import Program

_BULK_COPIES = "__cuda_syscall_cp_async_bulk"
SYSTEM_CALLS = {"vprintf": 1, "malloc": 2, "free": 3, "__assertfail": 4, _BULK_COPIES: 5}
"""Functions that the driver provides to kernels (CUDA C++ Programming Guide, "Formatted Output", "Dynamic Global
Memory Allocation", "Assertion"), and the number by which a SYSCALL names each. Code for compute capability 12.0 calls
those whose names begin as the last one does where a bulk copy is to another block of the cluster, as ptxas writes it:
it compares the block in the target's address with its own, and copies by itself where they are the same."""

_ALIGNMENT = 128
# Control bits of a stub's instructions: stall, no switch of warps, no scoreboard set; the call waits for all of them.
_RETURN_BITS = (5 | 1 << 4 | 7 << 5 | 7 << 8) << 105
_CALL_BITS = _RETURN_BITS | 0x3F << 116
_NAMED = re.compile(r"`\(([^.)][^)]*)\)")

# Relocation types by how many bytes they write; the value is an address or the address of a function.
_WORDS = {1: 4, 2: 8, 3: 4, 4: 8, 34: 4, 35: 8}
_HALVES = {70: 0, 71: 32}
_FIRST_BYTE = (76, 84, 92)  # eight each: byte k of an address
_IMMEDIATES = {55: 0, 56: 0, 57: 32, 61: 0, 62: 0, 63: 32}
_CALL_TARGETS = (58, 75)  # the disassembly names the function already


@dataclass
class CodeSection:
    """Disassembly of one code section, not yet decoded.

    Attributes:
        name: mangled name of the kernel (the section's name without '.text.').
        labels: name to byte offset in the section.
        lines: one (address, text, encoding, source line, file) per instruction.
    """

    name: str
    labels: dict[str, int] = field(default_factory=dict)
    lines: list[tuple[int, str, int, int | None, str | None]] = field(default_factory=list)


def merge(
    cubin: Cubin, sections: Mapping[str, CodeSection], symbol: str
) -> tuple[tuple[Instruction, ...], dict[str, int], tuple[Relocation, ...], list[CubinKernel]]:
    """Lay out one kernel of a cubin and all that it can reach. Returns its instructions, labels and relocations, which
    count from the kernel's start, and the sections. Raises CompileError (it calls a function that the cubin does not
    define and no GPU driver provides)."""
    reached, called = reachable(cubin, sections, symbol)
    if unknown := [name for name in called if _number(name) is None]:
        raise CompileError(
            f"kernel '{symbol}' calls {unknown[0]}, which no linked file defines and which is not a function "
            "of the driver that the simulator provides"
        )
    starts, stubs = _placed(cubin) if len(reached) > 1 or called else ({}, {})
    starts[symbol] = 0
    labels: dict[str, int] = {}
    for each in reached:
        start = starts[each.name]
        labels |= {name: start + at for name, at in (sections[each.name].labels | each.functions).items()}
    labels |= {name: stubs[name] for name in called}
    code: dict[int, Instruction] = {}
    for each in reached:
        for offset, text, encoding, line, file in sections[each.name].lines:
            address = starts[each.name] + offset
            code[address] = parse_instruction(address, text, encoding, labels, line, file)
    for name in called:
        for instruction in _stub(stubs[name], name, labels):
            code[instruction.address] = instruction
    last = max(code)
    instructions = tuple(
        code.get(address) or parse_instruction(address, "BPT.TRAP 0x1", _RETURN_BITS, labels)
        for address in range(0, last + INSTRUCTION_BYTES, INSTRUCTION_BYTES)
    )
    relocations = tuple(
        replace(entry, offset=entry.offset + starts[each.name]) if entry.target == "text" else entry
        for each in reached
        for entry in each.relocations
    )
    return instructions, labels, relocations, reached


def function_addresses(cubin: Cubin) -> dict[str, int]:
    """Byte address of every function, by its name and by that of a section that it begins: what tables in data hold."""
    starts, stubs = _placed(cubin)
    inside = {name: starts[home] + at for name, (home, at) in cubin.places.items()}
    return {f".text.{name}": start for name, start in starts.items()} | inside | stubs


def _placed(cubin: Cubin) -> tuple[dict[str, int], dict[str, int]]:
    """Address of functions and stubs: behind the longest kernel, the same whichever runs."""
    starts: dict[str, int] = {}
    end = max((cubin.code_bytes[name] for name in cubin.kernels), default=0)
    for name in cubin.functions:
        starts[name] = -(-end // _ALIGNMENT) * _ALIGNMENT
        end = starts[name] + cubin.code_bytes[name]
    end = -(-end // _ALIGNMENT) * _ALIGNMENT
    return starts, {name: end + 2 * INSTRUCTION_BYTES * k for k, name in enumerate(sorted(cubin.externals))}


def reachable(cubin: Cubin, sections: Mapping[str, CodeSection], symbol: str) -> tuple[list[CubinKernel], list[str]]:
    """The code sections that a kernel can reach, itself first, and the external functions that they call; where a
    section's disassembly is not there, as far as its relocations tell."""
    reached, called = [cubin.kernels[symbol]], set[str]()
    for each in reached:
        names = {entry.symbol.removeprefix(".text.") for entry in each.relocations}
        for row in sections[each.name].lines if each.name in sections else ():
            names.update(_NAMED.findall(row[1]))
        for name in sorted(names):
            function = cubin.functions[cubin.places[name][0]] if name in cubin.places else None
            if function is not None and function not in reached:
                reached.append(function)
            elif name in cubin.externals:
                called.add(name)
    return reached, sorted(called)


def _number(name: str) -> int | None:
    """The number of a function that the driver provides."""
    return SYSTEM_CALLS.get(_BULK_COPIES if name.startswith(_BULK_COPIES) else name)


def _stub(address: int, name: str, labels: Mapping[str, int]) -> tuple[Instruction, ...]:
    """The stub of a function of the driver: the host serves SYSCALL, and lanes return where R20 says (the
    register in which ptxas passes the return address of such a call)."""
    return (
        parse_instruction(address, f"SYSCALL {_number(name):#x}, {name}", _CALL_BITS, labels),
        parse_instruction(address + INSTRUCTION_BYTES, "RET.ABS.NODEC R20 0x0", _RETURN_BITS, labels),
    )


def relocate(program: Program, place: Callable[[str, int], int]) -> Program:
    """The program with every address written into its code and constant banks, and without relocations. place: gives
    the device address so many bytes from a variable's start; raises what it likes for a name that it does not know.
    Raises CompileError (a relocation of a type that is not known, or one that lies outside of what it changes)."""
    banks = {bank: bytearray(content) for bank, content in program.constant_banks.items()}
    instructions, changed = list(program.instructions), False
    for entry in program.relocations:
        if entry.target == "global" or entry.kind == 0 or entry.kind in _CALL_TARGETS:
            continue
        value = address_of(program.labels, entry, place)
        if entry.target == "text":
            index = entry.offset // INSTRUCTION_BYTES
            if not 0 <= index < len(instructions):
                raise _outside(entry)
            instructions[index] = _with_immediate(instructions[index], entry, value)
            changed = True
        else:
            bank = banks.get(int(entry.target.removeprefix("constant")), bytearray())
            write_address(bank, entry.offset, entry, value)
    return program.but(
        instructions=tuple(instructions) if changed else program.instructions,
        constant_banks={bank: bytes(content) for bank, content in banks.items()},
        relocations=(),
    )


def address_of(code: Mapping[str, int], entry: Relocation, place: Callable[[str, int], int]) -> int:
    """The address that a relocation asks for: of code by its labels, or of a variable."""
    if entry.symbol in code:
        return code[entry.symbol] + entry.addend
    return place(entry.symbol, entry.addend)


def write_address(buffer: bytearray, offset: int, entry: Relocation, value: int) -> None:
    """Write an address, or the part of it that the relocation's type names, into data. Raises CompileError (the type is
    not one of those, or the place is not in the buffer)."""
    kind, size, shift = entry.kind, 1, 0
    if kind in _WORDS:
        size = _WORDS[kind]
    elif kind in _HALVES:
        size, shift = 4, _HALVES[kind]
    elif any(first <= kind < first + 8 for first in _FIRST_BYTE):
        shift = 8 * (kind - max(first for first in _FIRST_BYTE if first <= kind))
    else:
        raise _unknown(entry)
    if not 0 <= offset <= len(buffer) - size:
        raise _outside(entry)
    buffer[offset : offset + size] = (value >> shift & (1 << 8 * size) - 1).to_bytes(size, "little")


def _with_immediate(instruction: Instruction, entry: Relocation, value: int) -> Instruction:
    """An instruction with half of an address as its immediate, in bits 32 to 63 of the encoding."""
    if entry.kind not in _IMMEDIATES:
        raise _unknown(entry)
    half = value >> _IMMEDIATES[entry.kind] & 0xFFFFFFFF
    operands = tuple(
        Operand("imm", value=half) if str(each.value).startswith("32@") else each for each in instruction.operands
    )
    encoding = instruction.encoding & ~(0xFFFFFFFF << 32) | half << 32
    return replace(instruction, operands=operands, encoding=encoding)


def _unknown(entry: Relocation) -> CompileError:
    return CompileError(f"relocation type {entry.kind} for '{entry.symbol}' ({entry.target}) is not known")


def _outside(entry: Relocation) -> CompileError:
    return CompileError(f"the relocation for '{entry.symbol}' at byte {entry.offset:,} of {entry.target} lies outside")
