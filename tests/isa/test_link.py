"""Addresses that a loader writes: each kind of relocation, against the bytes that its name in `nvlink` stands for."""

from dataclasses import replace

import pytest

from isa.cubin import Relocation
from isa.errors import CompileError
from isa.instruction import parse_instruction
from isa.link import relocate
from isa.program import Program

ADDRESS = 0x0123_4567_89AB_CDEF
ADDEND = 0x10
BYTES = (ADDRESS + ADDEND).to_bytes(8, "little")
CONTROL = 5 << 105 | 7 << 110 | 7 << 113

MOVES = tuple(
    parse_instruction(16 * k, text, CONTROL | 0xFFFF_FFFF << 32 | 0x7802, {})
    for k, text in enumerate(("MOV R4, 32@lo(table)", "MOV R5, 32@hi(table)", "IADD3 R6, R4, 32@lo(table), RZ", "EXIT"))
)


def program(*relocations, banks=None, labels=None):
    return Program(
        name="k", symbol="k", arch="sm_90", instructions=MOVES, labels=labels or {}, registers=8,
        static_shared_bytes=0, local_bytes=0, barriers=0, constant_banks=banks or {4: bytes(range(16))},
        parameter_base=0x210, parameter_bytes=0, parameters=(), max_threads=None, abi="c", source={}, cubin=b"",
        sha256="", relocations=relocations,
    )  # fmt: skip


def place(symbol, addend):
    assert symbol == "table"
    return ADDRESS + addend


WRITTEN = {
    **{kind: BYTES[:4] for kind in (1, 3, 34, 70)},  # R_CUDA_32, _G32, _FUNC_DESC_32, _ABS32_LO..: low half
    **{kind: BYTES for kind in (2, 4, 35)},
    71: BYTES[4:],
    **{first + k: BYTES[k : k + 1] for first in (76, 84, 92) for k in range(8)},
}


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize("offset", [0, 5])
def test_addresses_in_constants(kind, offset):
    """So many bytes change, to those of the address with its addend; the others stay."""
    linked = relocate(program(Relocation("constant4", offset, kind, "table", ADDEND)), place)
    expected = bytearray(range(16))
    expected[offset : offset + len(WRITTEN[kind])] = WRITTEN[kind]
    assert linked.constant_banks == {4: bytes(expected)}
    assert linked.relocations == () and linked.instructions == MOVES


@pytest.mark.parametrize("kind, half", [(55, 0), (56, 0), (57, 1), (61, 0), (62, 0), (63, 1)])
@pytest.mark.parametrize("index, operand", [(0, 1), (1, 1), (2, 2)])
def test_halves_of_addresses_in_code(kind, half, index, operand):
    """The operand that stands for an address becomes the half, in bits 32 to 63 of the encoding too."""
    linked = relocate(program(Relocation("text", 16 * index, kind, "table", ADDEND)), place)
    wanted = int.from_bytes(BYTES[4 * half : 4 * half + 4], "little")
    changed = linked.instructions[index]
    assert (changed.operands[operand].kind, changed.operands[operand].value) == ("imm", wanted)
    assert changed.encoding == CONTROL | wanted << 32 | 0x7802
    assert [o for k, o in enumerate(changed.operands) if k != operand] == [
        o for k, o in enumerate(MOVES[index].operands) if k != operand
    ]
    assert [each for k, each in enumerate(linked.instructions) if k != index] == [
        each for k, each in enumerate(MOVES) if k != index
    ]


def test_functions_lie_where_the_code_has_them():
    entry = Relocation("constant4", 8, 2, "callee", 0)
    linked = relocate(program(entry, labels={"callee": 0x380}), place)
    assert linked.constant_banks[4] == bytes(range(8)) + (0x380).to_bytes(8, "little")


@pytest.mark.parametrize("kind", [0, 58, 75])
def test_kinds_that_change_nothing(kind):
    """None, and the targets of calls, which the disassembly names."""
    linked = relocate(program(Relocation("text", 0, kind, "table", 0)), place)
    assert linked.instructions == MOVES and linked.relocations == ()


@pytest.mark.parametrize("target", ["text", "constant4"])
def test_unknown_kinds_are_named(target):
    with pytest.raises(CompileError, match=rf"relocation type 200 for 'table' \({target}\) is not known"):
        relocate(program(Relocation(target, 0, 200, "table", 0)), place)
    # A kind of data is none of code, and the other way round.
    with pytest.raises(CompileError, match="is not known"):
        relocate(program(Relocation(target, 0, 2 if target == "text" else 55, "table", 0)), place)


@pytest.mark.parametrize(
    "target, offset, kind",
    [("text", 64, 55), ("text", -16, 55), ("constant4", 9, 2), ("constant4", 13, 70), ("constant4", 16, 76),
     ("constant4", -1, 76), ("constant3", 0, 2)],
)  # fmt: skip
def test_places_outside(target, offset, kind):
    with pytest.raises(CompileError, match=f"'table' at byte {offset} of {target} lies outside"):
        relocate(program(Relocation(target, offset, kind, "table", 0)), place)
    inside = Relocation(target, {"text": 48}.get(target, 8), kind, "table", 0)
    banks = {3: bytes(16), 4: bytes(16)}
    assert relocate(replace(program(inside), constant_banks=banks), place).relocations == ()
