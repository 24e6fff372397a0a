"""Recorded forms and drawn operands through the interpreter, and where the executors are known to differ."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from operator import lshift

import numpy as np
from hypothesis import settings

from isa.errors import UnknownInstruction
from isa.instruction import Instruction, parse_instruction
from isa.lower import lower_instruction
from isa.lower_writer import ConstantPool, RegisterLayout
from tests.gpusim.recorded_forms import CONSTANT_OFFSET, OPERAND_REGISTERS, Form, forms, recording
from tests.oracle import Lane, execute
from tests.oracle.lanes_between import execute_warp

SEVEN = range(7)
_HALVES = {"F16", "BF16"}
NOT_YET = {
    "MUFU.TANH of halves is that of single precision": lambda i: (
        i.opcode == "MUFU" and "TANH" in i.modifiers and _HALVES & set(i.modifiers)
    ),
}
"""Forms in which the executors differ from the H200: who closes one takes it from here."""


def is_known_gap(instruction: Instruction) -> bool:
    return any(concerns(instruction) for concerns in NOT_YET.values())


def writes_one_predicate_twice(instruction: Instruction) -> bool:
    """No compiler does that; the H200 keeps the first result."""
    first = [operand for operand in instruction.operands if operand.kind in ("pred", "upred")][:2]
    if len(first) < 2 or first[0].kind != first[1].kind:
        return False
    return first[0].index == first[1].index != 7 and not first[1].invert


def is_executed(instruction: Instruction) -> bool:
    """Whether the opcode table takes this form."""
    try:
        lower_instruction(instruction, ConstantPool(), RegisterLayout(40, 104))
    except UnknownInstruction:
        return False
    return True


def recorded(opcodes: Iterable[str]) -> dict[str, list[Form]]:
    """Every recorded form of an opcode that is executed; those that reach memory are test_memory.py's."""
    result: dict[str, list[Form]] = {opcode: [] for opcode in opcodes}
    for form in forms():
        usable = form.family != "memory" and not writes_one_predicate_twice(form.instruction)
        if form.instruction.opcode in result and usable and is_executed(form.instruction):
            result[form.instruction.opcode].append(form)
    return result


WRITTEN = """
MOV.64 R24, R12
MOV.SPILL R24, R12
SEL.64 R24, R12, R14, P1
IMNMX.S64 PT, PT, R24, R12, R14, !PT, !PT
IMNMX.S64 PT, PT, R24, R12, R4, P2, !PT
IMNMX.U64 PT, PT, R24, R12, R4, P1, !PT
ISETP.LE.S64.AND P0, PT, R12, R14, P2
ISETP.GT.U64.XOR P0, P1, R12, R14, !P2
ISETP.NE.U64.OR P0, PT, R12, RZ, P3
ISETP.EQ.S64.AND P1, PT, R12, R4, PT
IMAD.SHL.U32 R24, R12, 0x8, RZ
VABSDIFF4.S8 R24, R12, R14, R4
VABSDIFF4.S8.ACC R24, R12, R14, R4
R2P PR, R12.B1, 0x5a
R2P PR, R12.B3, 0x7f
FMUL32I.SAT R24, R12, 1
FFMA32I.SAT R24, R12, 1, R24
I2FP.F32.S32.RM R24, R14
I2FP.F32.U32.RP R24, R14
F2IP.U8.F32.FLOOR.NTZ R24, R12, R14, R4
F2IP.S8.F32.CEIL R24, R12, R14, R4
F2FP.TF32.F32.PACK_B R24, R14
F2FP.TF32.F32.PACK_B.RZ R24, -R14
F2FP.RELU.TF32.F32.PACK_B R24, R14
F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C R24, R12, R14, R4
F2FP.SATFINITE.E2M3.F32.PACK_AB_MERGE_C R24, R12, -R14, R4
F2FP.SATFINITE.RELU.E3M2.F32.PACK_AB_MERGE_C R24, R12, |R14|, RZ
F2FP.SATFINITE.E8.F32.PACK_AB_MERGE_C.RZ R24, R12, R14, R4
F2FP.E8.F32.PACK_AB_MERGE_C.RP R24, R12, R14, R4
F2FP.SATFINITE.E8.BF16.UNPACK_B_MERGE_C.RP R24, R12, R4
F2FP.SATFINITE.E2M1.F16.UNPACK_B_MERGE_C R24, R12, R4
F2FP.SATFINITE.E2M3.BF16.UNPACK_B_MERGE_C R24, R12, R4
F2FP.SATFINITE.E4M3.BF16.UNPACK_B_MERGE_C R24, R12, R4
F2FP.F16.E2M3.UNPACK_B R24, R12.H1
F2FP.RELU.F16.E3M2.UNPACK_B R24, R12
F2FP.F16.E2M1.UNPACK_B R24, R12.B3
F2FP.RELU.F16.E2M1.UNPACK_B R24, R12
F2FP.BF16.E8.UNPACK_B R24, R12.H1
FRND.F16.CEIL R24, R14
FRND.F16 R24, -R14
FRND.BF16.FLOOR R24, R14
FRND.BF16.TRUNC R24, R14
FRND.BF16 R24, |R14|
HADD2.F32 R24, R14.H0_H0, -RZ.H0_H0
HADD2.F32.SAT R24, R14.H1_H1, -RZ.H0_H0
HSET2.BF.LT.XOR R24, R12, R14, P0
HSET2.BF.NAN.FTZ.AND R24, R12, R14, PT
HSET2.BF16_V2.BF.LT.OR R24, R12, R14, P0
HSET2.BF16_V2.BF.NUM.AND R24, R12, R14, PT
HSETP2.BF16_V2.LT.XOR P0, P1, R12, R14, P0
HSETP2.NAN.FTZ.AND P0, P1, R12, R14, PT
HSETP2.LT.OR P0, P1, R12, R14, P0
FMNMX3 R24, R12, R14, R4, PT
FMNMX3 R24, |R12|, -R14, R4, !P1
FMNMX3.FTZ R24, |R12|, |R14|, -|R4|, P2
FMNMX3.NAN R24, R12, -R14, R4, !PT
FMNMX3.FTZ.NAN R24, R12, R14, R4, P0
FADD2 R24, R12.F32x2.HI_LO, -R14.F32x2.HI_LO
FADD2.FTZ R24, R12.F32x2.HI_LO, R4.F32x2.HI_LO
FMUL2 R24, R12.F32x2.HI_LO, R14.F32x2.HI_LO
FMUL2 R24, R13.F32, R14.F32x2.HI_LO
FADD2.RM R24, R12.F32x2.HI_LO, -R5.F32
FFMA2 R24, R12.F32x2.HI_LO, R15.F32, R4.F32
FFMA2 R24, R12.F32x2.HI_LO, R24.F32, R25.F32
FMUL2.FTZ R24, -R12.F32x2.HI_LO, R14.F32x2.HI_LO
FADD2.RZ R24, R12.F32x2.HI_LO, R14.F32x2.HI_LO
FMUL2.FTZ.RP R24, R12.F32x2.HI_LO, R14.F32x2.HI_LO
FFMA2.RM R24, R12.F32x2.HI_LO, R14.F32x2.HI_LO, R4.F32x2.HI_LO
FFMA2 R24, R12.F32x2.HI_LO, R14.F32x2.HI_LO, -R4.F32x2.HI_LO
FFMA2.FTZ R24, R12.F32x2.HI_LO, -R14.F32x2.HI_LO, R4.F32x2.HI_LO
FHADD R24, R12, -R14
FHADD R24, -|R12|, R14.H1
FHADD.BF16 R24, R12, -R14
FHADD.BF16 R24, R12, R14.H1
FHFMA R24, R12, R14.H1, R4
FHFMA R24, -R12.H1, R14, -R4
FHFMA.BF16 R24, R12, R14.H1, R4
FHFMA.BF16 R24, R12.H1, -R14.H1, -R4
VIADD R24, R12, -R14
VIADD.16x2 R24, R12, -R14
VIADD.U8x4 R24, R12, -R14
VIADD.U8x4 R24, R12, R14
VIADD.S32.ISAT R24, R12, R14
VIADD.S32.ISAT R24, R12, -R14
VIMNMX.U8x4 R24, R12, R14, P0
VIMNMX.S8x4 R24, R12, R14, !P0
UF2F.F16.F32 UR24, UR14
UF2F.F32.F16 UR24, -UR14
UF2F.BF16.F32 UR24, |UR14|
IADD R24, R12, -R14
IADD.64 R24, R12, R14
IADD.64 R24, R12, -R14
IADD.X R24, R12, ~R14, P2
FADD32I R24, R12, 1
FADD32I.FTZ R24, -R12, 1
FMUL32I R24, R12, 1
FMUL32I.FTZ R24, R12, 1
FFMA32I R24, R12, 1, R24
UIABS UR24, UR12
UIMNMX UR24, UR12, UR14, UPT
UIMNMX.U32 UR24, UR12, UR14, !UP1
UVIMNMX.U32 UR24, UR12, UR14, UPT
UVIMNMX UR24, UR12, UR14, !UPT
UVIADD UR24, UR12, -UR14
UVIADD UR24, UR12, 0x7
UFADD UR24, UR12, -UR14
UFADD.FTZ.RZ UR24, UR12, |UR14|
UFMUL UR24, UR12, UR14
UFMUL.FTZ UR24, -UR12, UR14
UFFMA UR24, UR12, UR14, -UR4
UFFMA.RM UR24, UR12, UR14, UR4
UFMNMX UR24, UR12, UR14, !UPT
UFMNMX.NAN.FTZ UR24, UR12, -UR14, UP1
UFSEL UR24, UR12, -UR14, UP2
UFSEL.FTZ UR24, UR12, UR14, !UP2
UFSET.BF.GT.AND UR24, UR12, UR14, UPT
UFSETP.LTU.OR UP0, UPT, UR12, |UR14|, UP3
UFSETP.GE.FTZ.AND UP1, UP2, UR12, UR14, !UP3
UF2I.TRUNC.NTZ UR24, UR14
UF2I.FTZ.U32.FLOOR.NTZ UR24, -UR14
UI2F UR24, UR14
UI2F.U32.RP UR24, UR14
UI2FP.F32.S32 UR24, UR14
UI2FP.F32.U32.RZ UR24, UR14
UFRND UR24, UR14
UFRND.FTZ.CEIL UR24, -UR14
UIADD UR24, UR12, -UR14
UIADD.64 UR24, UR12, UR14
UIADD3.64 UR24, UR12, UR14, UR16
UIADD3.64 UR24, UR12, -UR14, URZ
CREDUX.MIN UR24, R12
CREDUX.MAX UR24, R12
CREDUX.MIN.S32 UR24, R12
CREDUX.MAX.S32 UR24, R12
CREDUX.MIN.F32 UR24, R12
CREDUX.MAX.F32.NAN UR24, R12
CREDUX.MINABS.F32.NAN UR24, R12
@P1 CREDUX.MAXABS.F32 UR24, R12
"""
"""Forms without a recording: of other architectures, as their compiler and disassembler write them."""


def written(opcodes: Iterable[str]) -> dict[str, list[Form]]:
    """Forms of `WRITTEN` by opcode, without operands or results; an immediate float is 1."""
    nothing = np.zeros((64, 8), np.uint32)
    result: dict[str, list[Form]] = {}
    for line in WRITTEN.strip().splitlines():
        instruction = parse_instruction(0, line, 0x3F800000 << 32, {})
        family = "uniform" if instruction.opcode.startswith("U") else "word"
        result.setdefault(instruction.opcode, []).append(Form(instruction, family, nothing, nothing))
    return {opcode: found for opcode, found in result.items() if opcode in set(opcodes)}


def examples(count: int) -> settings:
    """Hypothesis' settings for a test of `count` examples; a profile that asks for fewer than 100 gets its share."""
    share = count * settings.default.max_examples // 100
    return settings(max_examples=max(3, min(count, share)), deadline=None, database=None)


@cache
def constants() -> dict[int, int]:
    return {CONSTANT_OFFSET + 4 * k: int(value) for k, value in enumerate(recording()["constants"])}


def interpret(form: Form, lanes: range) -> np.ndarray:
    """Results [lanes, 8] as `Form.results` has them.

    Raises:
        Undefined: see `tests.oracle.execute`.
    """
    rows = []
    for lane in lanes_of(form, lanes):
        execute(form.instruction, lane)
        rows.append(_results(lane))
    return np.array(rows, np.uint32)


def interpret_warp(form: Form, first: int) -> np.ndarray:
    """Results [32, 8] of the warp that begins at lane `first`, for opcodes whose lanes see each other."""
    lanes = list(lanes_of(form, range(first, first + 32)))
    execute_warp(form.instruction, lanes)
    return np.array([_results(lane) for lane in lanes], np.uint32)


def lanes_of(form: Form, numbers: Iterable[int]) -> Iterator[Lane]:
    """What lanes of these numbers, of the 64, find."""
    operands, uniform = form.operands.tolist(), form.family == "uniform"
    any_lane = [int(np.bitwise_or.reduce(form.operands[first : first + 32, 5])) for first in (0, 32)]
    for number in numbers:
        row = operands[number]
        shared = row if uniform else operands[number & 32]
        bits, of_warp = row[5], row[5] if uniform else any_lane[number // 32]
        yield Lane(
            registers=defaultdict(int, zip(OPERAND_REGISTERS, row, strict=True)),
            uniform=defaultdict(int, zip(OPERAND_REGISTERS, shared, strict=True)),
            predicates=predicates(bits & 127).copy(),
            uniform_predicates=predicates(of_warp & 127).copy(),
            constants=constants(),
            number=number % 32,
        )


@cache
def predicates(bits: int) -> dict[int, bool]:
    return defaultdict(bool, {k: bool(bits >> k & 1) for k in SEVEN})


def _results(lane: Lane) -> list[int]:
    return (
        [lane.registers[register] for register in (24, 25, 26, 27)]
        + [sum(map(lshift, map(file.__getitem__, SEVEN), SEVEN)) for file in (lane.predicates, lane.uniform_predicates)]
        + [lane.uniform[24], lane.uniform[25]]
    )
