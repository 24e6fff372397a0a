"""What an opcode's modifiers and operands cannot mean is refused with a reason, never guessed."""

import pytest

from isa.errors import UnknownInstruction
from isa.instruction import parse_instruction
from isa.lower import lower_instruction
from isa.lower_writer import ConstantPool, RegisterLayout

LABELS = {"here": 0}
REFUSED = [
    # operands in general
    ("FROB R0, R1", "opcode FROB"),
    ("IADD3.WEIRD R0, R1, R2, R3", "modifier .WEIRD"),
    ("IADD3 R0, R1, R2, R3, 0x5", "more than expected"),
    ("S2R R0, SR_SOMETHING", "special register"),
    ("IADD3 R0, R1, R2", "an operand is missing"),
    ("IADD3 R0, R1, P2, R3", "a pred operand where reg or ureg or imm"),
    ("LEA R0, R1, R2, R3", "a register where an immediate is expected"),
    ("IADD3 R0, -~R1, R2, R3", "operand modifier that has no meaning"),
    ("IADD3 R0, R1, c[0x0][R2], R3", "indexed constant"),
    ("IADD3 R0, R1, cx[UR4][0x10], R3", "indexed constant"),
    ("DADD R4, R2, c[0x0][0x214]", "misaligned constant"),
    ("DADD R4, R3, R6", "not the start of a register pair"),
    ("IADD3 R0, R1.H1, R2, R3", "operand suffix H1"),
    ("FFMA R0, ~R1, R2, R3", "operand modifier that has no meaning"),
    ("FADD.RN.RM R0, R1, R2", "contradicting modifiers"),
    # integers
    ("UIADD3.64 UR4, UP0, UR6, UR8, URZ", "carries of a 64-bit addition"),
    ("UIADD3.64.X UR4, UR6, UR8, URZ", "modifier .X|carries of a 64-bit addition"),
    ("UIADD3.64 UR4, UP0, UP1, UR6, UR8, URZ", "carries of a 64-bit addition"),
    ("VIADD.16x2 R0, R1, ~R2", "operand modifier that has no meaning"),
    ("VIADD.S32.ISAT R0, -R1, R2", "operand modifier that has no meaning"),
    ("IMAD.HI R0, R1, -R2, R4", "operand modifier that has no meaning"),
    ("IMAD R0", "an operand is missing"),
    ("SHF.U32 R0, R1, R2, R3", "a shift without a direction"),
    ("SHF.L.R.U32 R0, R1, R2, R3", "a shift without a direction"),
    ("IDP.4A R0, R1, R2, R3", "without two types"),
    ("IDP.4A.2A.S8.S8 R0, R1, R2, R3", "without two types"),
    ("I2IP.S8.SAT R0, R1, R2, R3", "not from 32-bit integers"),
    ("I2IP.S32.SAT R0, R1, R2, R3", "not from 32-bit integers"),
    ("I2I.S8.S32 R0, R1", "does not saturate a 32-bit integer"),
    ("POPC R0, P1, R2", "a predicate result"),
    ("VIMNMX.U8x4 R0, P0, R1, R2, PT", "a predicate result"),
    ("ISETP.AND P0, PT, R1, R2, PT", "a comparison without a relation"),
    ("P2R R0, R1, R2, 0x7f", "a reg operand where other"),
    ("P2R R0, NOTPR, R2, 0x7f", "other than the predicate file"),
    # floating point
    ("HMUL2.F32 R0, R1, R2", "modifier .F32|a float32 result"),
    ("FSETP.AND P0, PT, R1, R2, PT", "a comparison without a relation"),
    ("MUFU R0, R1", "a function that is not known"),
    ("F2F.F32 R0, R1", "without two known types"),
    ("F2FP.F16.E4M3 R0, R1, R2", "a way of packing that is not known"),
    ("F2FP.F16.UNPACK_B R0, R1", "without two known types"),
    ("F2IP.U8.NTZ R0, R1, R2, R3", "not from float32"),
    ("MUFU.SIN.F16 R0, R1", "a function of a half"),
    ("FADD2 R0, R2.F32x2.LO_LO, R4", "a choice of words"),
    ("IMNMX.S64 P0, PT, R0, R2, R4, PT, !PT", "a predicate result"),
    ("IMNMX.S64 PT, PT, R0, R2, R4, PT, P1", "continues another"),
    ("TEX.LL R8, R6, R6, R8, UR4, 0x0, 2D", "textures and surfaces are not modelled"),
    ("UNNAMED", "no name for it"),
    ("F2F.F32.F16 R0, R1.B3", "an operand suffix that is not known"),
    ("HADD2 R0, R1.H0_H0.H1_H1, R2", "an operand suffix that is not known"),
    ("HSETP2.AND P0, PT, R1, R2, PT", "a comparison without a relation"),
    # tensor cores
    ("HMMA.F32 R0, R4, R8, R12", "a matrix shape that is not known"),
    ("HMMA.16816.F32 R0, -R4, R8, R12", "a modified matrix operand"),
    ("HMMA.16816.F32 R0, R4.H1, R8, R12", "a modified matrix operand"),
    ("HMMA.16816.F32 R0, R5, R8, R12", "not aligned"),
    ("IMMA.16832.S8 R0, R4.ROW, R8.COL, R12", "without two source types"),
    ("BMMA.168128.POPC R0, R4.ROW, R8.COL, R12", "a product of bits that is not known"),
    ("HGMMA.F32.BF16 R24, gdesc[UR8], R24, gsb0", "a matrix shape that is not known"),
    ("QGMMA.64x64x32.F32.E4M3 R24, gdesc[UR8], R24, gsb0", "a matrix without two source types"),
    ("IGMMA.64x64x32.S8 R24, gdesc[UR8], R24, gsb0", "without two source types"),
    ("HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8].odd, R24, gsb0", "descriptor flag .odd"),
    ("HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8+0x10], R24, gsb0", "a matrix descriptor of another kind"),
    # bulk copies
    ("STAS [R12.64+0x10], R15", "STAS"),
    ("REDAS.ADD.F32 [R12.64], R15", "REDAS"),
    ("UBLKRED.G.S.MIN.F32.RN [UR16], [UR5], UR7", "UBLKRED"),
    ("UBLKRED.S.G.ADD [UR16], [UR5], UR7", "UBLKRED"),
    ("UTMALDG.4D.W [UR8], [UR6], UR4", "UTMALDG"),
    ("UBLKCP.G.S.DST_G_BYTE_MASK [UR8], [UR4], UR5", "UBLKCP"),
    ("LDSM.8.M88 R6, [R5]", "a matrix shape that is not known"),
    ("UTCBAR [UR4+0x10], URZ", "an mbarrier that is not in a uniform register alone"),
    ("UTCCP.T.S tmem[UR4], gdesc[UR6+0x1]", "an address of tensor memory with an offset"),
    ("UTCCP.T.S tmem[UR4], tmem[UR6]", "an operand of tensor memory of another kind"),
    ("UTCATOMSWS URZ, UR4", "map of tensor memory"),
    ("QMMA.SP.16864.F32.E4M3.E4M3 R8, R8, R12, R16, R0, 0x1", "metadata of threads that are not all"),
    ("RPCMOV.32 R6, Rpc.MID", "RPCMOV"),
    ("LDGMC.E.ADD.32.STRONG.SYS R3, [R2.64+URZ]", "multimem.* not modelled"),
    ("USTGR.E.NA.64.MMIO.SYS [UR4], UR6", "memory-mapped.* not modelled"),
    ("UREDGR.E.ADD.NA.S32.MMIO.SYS [UR4], UR6", "memory-mapped.* not modelled"),
    ("UMEMSETS.64 [UR5], URZ, UR4", "zeros in bulk.* not modelled"),
    ("UBLKCP.G.G [UR8], [UR4], UR7", "from global to global memory"),
    ("UBLKCP.S.G [R8], [UR4], UR6", "not in uniform registers alone"),
    ("UBLKCP.S.G [UR8+0x10], [UR4], UR6", "not in uniform registers alone"),
    ("UBLKRED.G.S [UR16], [UR5], UR7", "a reduction without an operation"),
    ("UTMAREDG.2D [UR8], [UR4]", "a reduction without an operation"),
    # memory
    ("LDG.E R0, [R2.64].H0", "a suffix of the memory operand"),
    ("LDG.E R0, [R2.S7]", "an address suffix that is not known"),
    ("LDG.E R0, [-R2]", "an address suffix that is not known"),
    ("LDG.E R0, [R3.64]", "an address that is not a register pair"),
    ("STG.E.128 [R2.64], R6", "does not start at a multiple of its size"),
    ("STG.E [R2.64], -R6", "a modified data operand"),
    ("STG.E [R2.64], R6.H1", "a modified data operand"),
    ("ATOMG.E PT, R0, [R2.64], R6", "an atomic without an operation"),
    ("LDC R0, cx[UR4][0x10]", "a bindless constant"),
    ("LDC.IL R0, c[0x3][R2]", "modifier .IL|an indexing mode"),
    ("LDSM.16 R0, [R2]", "a matrix shape that is not known"),
    ("QSPC.E.S P0, R4, [R2]", "a result in a register"),
    ("ATOMS.CAST R4, [R2], R6, R8", "does not spin"),
    ("REDG.E.ADD.F32x2.RN.STRONG.GPU [R2.64], R4", "keeps denormal numbers"),
    ("LDGSTS.E [R2+UR4], [R4.64]", "a shared address with a uniform base"),
    ("QSPC.E P0, R0, [R2.64]", "a space that is not known"),
    ("IADD3 R0, R1, c[0x0][0x10000], R3", "a constant outside its bank"),
    # atomics that no GPU has: their result would be a guess
    ("ATOMG.E.MIN.F32.FTZ.RN PT, R0, [R2], R4", "atomics of this type do not have"),
    ("REDG.E.MAX.F64 [R2], R4", "atomics of this type do not have"),
    ("ATOMG.E.OR.F16x2.RN PT, R0, [R2], R4", "atomics of this type do not have"),
    ("ATOMS.INC.64 R0, [R2], R4", "atomics of this type do not have"),
    ("ATOMG.E.ADD.128 PT, R0, [R2], R4", "atomics of this type do not have"),
    ("UBLKRED.G.S.MIN.F32 [UR4], [UR6], UR8", "atomics of this type do not have"),
    # matrices
    ("HMMA.16816.F32.TF32 R0, R4, R8, R12", "a matrix shape that this type does not have"),
    ("IMMA.SP.16864.S4.S4 R0, R4, R8, R12, R14, 0x0", "a sparse matrix of four-bit numbers"),
    # control
    ("DEPBAR.LE SB0, 0x0, {3,7}", "a scoreboard that does not exist"),
    ("DEPBAR {6}", "DEPBAR"),
    ("BRA.DIV `(here)", "a convergence branch without a mask"),
    ("BMOV R0, B1", "not of 32 bits"),
    ("BAR.SYNC.DEFER_BLOCKING 0x10", "a barrier that does not exist"),
    ("BAR.RED.DEFER_BLOCKING 0x0", "a kind of barrier that is not known"),
    ("B2R R0", "a barrier query that is not known"),
    ("SHFL PT, R0, R1, 0x1, 0x1f", "a shuffle without a kind"),
    ("VOTE R0, PT, P0", "a vote without a kind"),
    ("REDUX.SUM UP0, UR4, R2", "a predicate result"),
]  # fmt: skip


ACCEPTED = [
    "ATOMG.E.EXCH.64 PT, R0, [R2], R4",
    "ATOMG.E.CAS.128 PT, R0, [R2], R4, R8",
    "ATOMG.E.MIN.F16x2.RN PT, R0, [R2], R4",
    "ATOMG.E.XOR.64 PT, R0, [R2], R4",
    "ATOMG.E.DEC PT, R0, [R2], R4",
    "RED.E.ADD.F64.RN [R2], R4",
    "VIMNMX.U8x4 R0, PT, R1, R2, PT",
    "IADD3 R0, R1, c[0x0][0xfffc], R3",
    "HMMA.1688.F32.TF32 R0, R4, R8, R12",
    "DEPBAR.LE SB0, 0x0, {5,3}",
]
"""Neighbours of refused ones."""


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text):
    instruction = parse_instruction(0x40, text, 0x123, LABELS, line=12)
    assert lower_instruction(instruction, ConstantPool(), RegisterLayout(100, 200), "kernel").columns is not None


@pytest.mark.parametrize("text, reason", REFUSED, ids=[text for text, _ in REFUSED])
def test_refused_with_a_reason(text, reason):
    instruction = parse_instruction(0x40, text, 0x123, LABELS, line=12)
    with pytest.raises(UnknownInstruction, match=reason) as caught:
        lower_instruction(instruction, ConstantPool(), RegisterLayout(100, 200), "kernel")
    assert text in str(caught.value) and "kernel" in str(caught.value)
