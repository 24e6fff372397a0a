"""The opcode table: one line per SASS instruction.

A line names the opcode, the unit that executes it, whether its latency is variable (its result is announced by a
scoreboard), the lowering function that gives its meaning in micro-operations, and every modifier that is understood;
any other modifier is refused. Names and groups follow the instruction list for Hopper in NVIDIA's "CUDA Binary
Utilities"; units follow the pipes that Nsight Compute reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from isa import lower_bulk as bulk
from isa import lower_control as control
from isa import lower_float as floats
from isa import lower_int as ints
from isa import lower_memory as memory
from isa import lower_tensor as tensor
from isa.lower_writer import RowWriter
from isa.microops import (
    UNIT_ADU,
    UNIT_ALU,
    UNIT_CBU,
    UNIT_FMA,
    UNIT_FMAHEAVY,
    UNIT_FP64,
    UNIT_HALF,
    UNIT_LSU,
    UNIT_NONE,
    UNIT_TENSOR,
    UNIT_TEX,
    UNIT_UNIFORM,
    UNIT_XU,
)


@dataclass(frozen=True)
class Opcode:
    """One line of the table.

    Attributes:
        name: opcode without modifiers.
        unit: UNIT_* of isa.microops.
        variable: the result is announced by a scoreboard instead of a fixed number of cycles.
        lower: fills the rest of a code row, or raises UnknownInstruction.
        modifiers: those that `lower` understands.
        uniform: executes once for the warp, in the uniform datapath.
        refused: why a program with this instruction does not run; empty if it does.
    """

    name: str
    unit: int
    variable: bool
    lower: Callable[[RowWriter], None]
    modifiers: frozenset[str]
    uniform: bool = False
    refused: str = ""


FIXED, VARIABLE = False, True
_COMPARE = "F LT EQ LE GT NE GE T AND OR XOR"
_FLOAT_COMPARE = _COMPARE + " NUM NAN LTU EQU LEU GTU NEU GEU"
_ROUND = "RN RM RP RZ"
_ROUND_INTEGER = _ROUND + " FLOOR CEIL TRUNC"
_INTEGERS = "U8 S8 U16 S16 U32 S32 U64 S64"
_HALF = "BF16_V2 FTZ SAT"
_PACKED = "S16x2 U16x2 RELU U32 S32"
_ACCESS = "E U8 S8 U16 S16 32 64 128"
_ORDER = "STRONG WEAK MMIO CTA SM GPU SYS VC CONSTANT EF EL NA LU EU LTC64B LTC128B LTC256B PRIVATE"
_GROUP = " ".join(f"64x{n}x{k}" for n in range(8, 257, 8) for k in (8, 16, 32, 256))
_BULK = "ADD MIN MAX INC DEC AND OR XOR S32 U64 S64 64 F32 RN"
_ATOMIC = "ADD MIN MAX INC DEC AND OR XOR EXCH CAS S32 U64 S64 F32 FTZ RN F64 F16x2 BF16x2"
_ATOMIC += " F32x2 F32x4 F16x4 F16x8 BF16x4 BF16x8"


def _row(
    name: str, unit: int, variable: bool, lower: Callable[[RowWriter], None], modifiers: str = ""
) -> Opcode:
    return Opcode(name, unit, variable, lower, frozenset(modifiers.split()))


_ROWS = [
    # integer, logic, moves
    _row("MOV", UNIT_ALU, FIXED, ints.mov, "64"),
    _row("SEL", UNIT_ALU, FIXED, ints.select, "64"),
    _row("IADD3", UNIT_ALU, FIXED, ints.iadd3, "X"),
    _row("IADD", UNIT_ALU, FIXED, ints.add_two, "64 X"),
    _row("VIADD", UNIT_ALU, FIXED, ints.viadd, "16x2 U8x4 S32 ISAT"),
    _row("IMAD", UNIT_FMAHEAVY, FIXED, ints.imad, "MOV IADD SHL U32 X WIDE HI"),
    _row("LEA", UNIT_ALU, FIXED, ints.lea, "HI X SX32"),
    _row("LOP3", UNIT_ALU, FIXED, ints.lop3, "LUT PAND"),
    _row("SHF", UNIT_ALU, FIXED, ints.shf, "L R W HI U32 S32 U64 S64"),
    _row("BMSK", UNIT_ALU, FIXED, ints.bmsk, "W C"),
    _row("SGXT", UNIT_ALU, FIXED, ints.sgxt, "W U32"),
    _row("PRMT", UNIT_ALU, FIXED, ints.prmt, "IDX F4E B4E RC8 ECL ECR RC16"),
    _row("IABS", UNIT_ALU, FIXED, ints.iabs),
    _row("IMNMX", UNIT_ALU, FIXED, ints.minmax, "U32 U64 S64"),
    _row("VIMNMX", UNIT_ALU, FIXED, ints.minmax, _PACKED + " U8x4 S8x4"),
    _row("VIMNMX3", UNIT_ALU, FIXED, ints.minmax3, _PACKED),
    _row("VIADDMNMX", UNIT_ALU, FIXED, ints.add_minmax, _PACKED),
    _row("IDP", UNIT_FMAHEAVY, FIXED, ints.dot_product, "4A 2A LO HI S8 U8 S16 U16"),
    _row("VABSDIFF", UNIT_ALU, FIXED, ints.difference, "U32"),
    _row("VABSDIFF4", UNIT_ALU, FIXED, ints.difference, "U8 S8 ACC"),
    _row("I2IP", UNIT_ALU, FIXED, ints.pack_integers, "S2 U2 S4 U4 S8 U8 S16 U16 S32 SAT"),
    _row("I2I", UNIT_XU, VARIABLE, ints.saturate_integer, "S8 U8 S16 U16 S32 SAT"),
    _row("POPC", UNIT_XU, VARIABLE, ints.bit_count),
    _row("FLO", UNIT_XU, VARIABLE, ints.bit_count, "U32 SH"),
    _row("BREV", UNIT_XU, VARIABLE, ints.bit_count),
    # predicates
    _row("ISETP", UNIT_ALU, FIXED, ints.isetp, _COMPARE + " U32 EX U64 S64"),
    _row("PLOP3", UNIT_ALU, FIXED, ints.plop3, "LUT"),
    _row("P2R", UNIT_ALU, FIXED, ints.predicates_to_register, "B0 B1 B2 B3"),
    _row("R2P", UNIT_ALU, FIXED, ints.register_to_predicates, "B0 B1 B2 B3"),
    # single precision
    _row("FADD", UNIT_FMA, FIXED, floats.float_arithmetic, _ROUND + " FTZ SAT"),
    _row("FMUL", UNIT_FMA, FIXED, floats.float_arithmetic, _ROUND + " FTZ FMZ SAT D2 D4 D8 M2 M4 M8"),
    _row("FFMA", UNIT_FMA, FIXED, floats.float_arithmetic, _ROUND + " FTZ FMZ SAT"),
    _row("FADD32I", UNIT_FMA, FIXED, floats.float_arithmetic, "FTZ"),
    _row("FMUL32I", UNIT_FMA, FIXED, floats.float_arithmetic, "FTZ FMZ SAT"),
    _row("FFMA32I", UNIT_FMA, FIXED, floats.float_arithmetic, "FTZ FMZ SAT"),
    _row("FSEL", UNIT_ALU, FIXED, floats.float_select, "FTZ"),
    _row("FMNMX", UNIT_ALU, FIXED, floats.float_minmax, "FTZ NAN XORSIGN"),
    _row("FMNMX3", UNIT_ALU, FIXED, floats.float_minmax3, "FTZ NAN"),
    _row("FADD2", UNIT_FMA, FIXED, floats.paired_arithmetic, "FTZ"),
    _row("FMUL2", UNIT_FMA, FIXED, floats.paired_arithmetic, "FTZ"),
    _row("FFMA2", UNIT_FMA, FIXED, floats.paired_arithmetic, "FTZ"),
    _row("FSET", UNIT_ALU, FIXED, floats.compare, _FLOAT_COMPARE + " BF FTZ"),
    _row("FSETP", UNIT_ALU, FIXED, floats.compare, _FLOAT_COMPARE + " FTZ"),
    _row("FCHK", UNIT_XU, VARIABLE, floats.float_check, "DIVIDE"),
    _row(
        "MUFU",
        UNIT_XU,
        VARIABLE,
        floats.transcendental,
        "RCP RSQ SQRT EX2 LG2 SIN COS TANH RCP64H RSQ64H FTZ F16 BF16",
    ),
    # double precision
    _row("DADD", UNIT_FP64, FIXED, floats.double_arithmetic, _ROUND),
    _row("DMUL", UNIT_FP64, FIXED, floats.double_arithmetic, _ROUND),
    _row("DFMA", UNIT_FP64, FIXED, floats.double_arithmetic, _ROUND),
    _row("DSETP", UNIT_FP64, FIXED, floats.compare, _FLOAT_COMPARE + " MIN MAX"),
    # conversions
    _row(
        "F2I",
        UNIT_XU,
        VARIABLE,
        floats.float_to_integer,
        _INTEGERS + " F16 BF16 F32 F64 FTZ NTZ " + _ROUND_INTEGER,
    ),
    _row("I2F", UNIT_XU, VARIABLE, floats.integer_to_float, _INTEGERS + " F16 BF16 F32 F64 " + _ROUND),
    _row("I2FP", UNIT_ALU, FIXED, floats.integer_to_float, "S32 U32 F32 " + _ROUND),
    _row("F2F", UNIT_XU, VARIABLE, floats.float_to_float, "F16 BF16 F32 F64 FTZ " + _ROUND),
    _row("FRND", UNIT_XU, VARIABLE, floats.round_to_integral, "F16 BF16 F32 F64 FTZ NTZ " + _ROUND_INTEGER),
    _row(
        "F2FP",
        UNIT_ALU,
        FIXED,
        floats.pack_floats,
        "F16 BF16 F32 E4M3 E5M2 TF32 PACK_AB PACK_B MERGE_C PACK_AB_MERGE_C UNPACK_B UNPACK_B_MERGE_C "
        "RELU SATFINITE RN RZ",
    ),
    _row("F2IP", UNIT_ALU, FIXED, floats.pack_as_integers, "U8 S8 F32 FTZ NTZ " + _ROUND_INTEGER),
    # packed halves
    _row("HADD2", UNIT_HALF, FIXED, floats.half_arithmetic, _HALF + " F32"),
    _row("HMUL2", UNIT_HALF, FIXED, floats.half_arithmetic, _HALF + " FMZ"),
    _row("HFMA2", UNIT_HALF, FIXED, floats.half_arithmetic, _HALF + " FMZ MMA RELU OOB"),
    _row("HMNMX2", UNIT_ALU, FIXED, floats.half_minmax, "BF16_V2 FTZ NAN XORSIGN"),
    _row("HSETP2", UNIT_HALF, FIXED, floats.half_compare, _FLOAT_COMPARE + " BF16_V2 FTZ"),
    _row("HSET2", UNIT_HALF, FIXED, floats.half_compare, _FLOAT_COMPARE + " BF16_V2 BF FTZ"),
    _row("FHADD", UNIT_FMA, FIXED, floats.mixed_arithmetic, "BF16"),
    _row("FHFMA", UNIT_FMA, FIXED, floats.mixed_arithmetic, "BF16"),
    # tensor cores
    _row("HMMA", UNIT_TENSOR, FIXED, tensor.half_matrix, "16816 1688 16832 F16 F32 BF16 TF32 1684 SP"),
    _row(
        "IMMA", UNIT_TENSOR, FIXED, tensor.integer_matrix, "16832 16816 16864 8816 8832 S8 U8 S4 U4 SAT SP"
    ),
    _row("BMMA", UNIT_TENSOR, FIXED, tensor.bit_matrix, "88128 168128 168256 AND XOR POPC"),
    _row("DMMA", UNIT_TENSOR, VARIABLE, tensor.double_matrix, "8x8x4 16x8x4 16x8x8 16x8x16"),
    _row("HGMMA", UNIT_TENSOR, FIXED, tensor.group_matrix, f"{_GROUP} F16 F32 BF16 TF32"),
    _row("QGMMA", UNIT_TENSOR, FIXED, tensor.group_matrix, f"{_GROUP} F16 F32 E4M3 E5M2"),
    _row("IGMMA", UNIT_TENSOR, FIXED, tensor.group_matrix, f"{_GROUP} S8 U8 SAT"),
    _row("BGMMA", UNIT_TENSOR, FIXED, tensor.group_matrix, f"{_GROUP} AND POPC"),
    _row("WARPGROUP", UNIT_NONE, FIXED, tensor.group_order, "ARRIVE DEPBAR LE"),
    _row("MOVM", UNIT_XU, VARIABLE, tensor.transpose, "16 MT88"),
    # between lanes
    _row("SHFL", UNIT_LSU, VARIABLE, control.shuffle, "IDX UP DOWN BFLY"),
    _row("VOTE", UNIT_ALU, FIXED, control.vote, "ALL ANY EQ"),
    _row("VOTEU", UNIT_UNIFORM, FIXED, control.vote, "ALL ANY EQ"),
    _row("MATCH", UNIT_ADU, VARIABLE, control.match, "ANY ALL U32 U64"),
    _row("REDUX", UNIT_ALU, VARIABLE, control.redux, "SUM MIN MAX AND OR XOR S32 U32"),
    _row("CREDUX", UNIT_ALU, VARIABLE, control.redux, "MIN MAX MINABS MAXABS S32 U32 F32 NAN"),
    _row("R2UR", UNIT_ALU, FIXED, control.register_to_uniform),
    _row("ELECT", UNIT_ALU, FIXED, control.elect),
    # special registers
    _row("S2R", UNIT_ADU, VARIABLE, control.special_register),
    _row("CS2R", UNIT_ALU, FIXED, control.special_register, "32 64"),
    # memory
    _row("LDG", UNIT_LSU, VARIABLE, memory.load, f"{_ACCESS} {_ORDER}"),
    _row("LD", UNIT_LSU, VARIABLE, memory.load, f"{_ACCESS} {_ORDER}"),
    _row("LDS", UNIT_LSU, VARIABLE, memory.load, "U8 S8 U16 S16 32 64 128 U"),
    _row("LDL", UNIT_LSU, VARIABLE, memory.load, "U8 S8 U16 S16 32 64 128 EF EL LU NA EU"),
    _row("STG", UNIT_LSU, VARIABLE, memory.store, f"{_ACCESS} {_ORDER}"),
    _row("ST", UNIT_LSU, VARIABLE, memory.store, f"{_ACCESS} {_ORDER}"),
    _row("STS", UNIT_LSU, VARIABLE, memory.store, "U8 S8 U16 S16 32 64 128"),
    _row("STL", UNIT_LSU, VARIABLE, memory.store, "U8 S8 U16 S16 32 64 128 EF EL LU NA EU"),
    _row("ATOM", UNIT_LSU, VARIABLE, memory.atomic, f"{_ATOMIC} CAST SPIN E 64 128 {_ORDER}"),
    _row("ATOMG", UNIT_LSU, VARIABLE, memory.atomic, f"{_ATOMIC} E 64 128 {_ORDER}"),
    _row("ATOMS", UNIT_LSU, VARIABLE, memory.atomic, f"{_ATOMIC} CAST SPIN POPC 32 64 128"),
    _row("RED", UNIT_LSU, VARIABLE, memory.atomic, f"{_ATOMIC} E 64 {_ORDER}"),
    _row("REDG", UNIT_LSU, VARIABLE, memory.atomic, f"{_ATOMIC} E 64 {_ORDER}"),
    _row("LDC", UNIT_ADU, VARIABLE, memory.load_constant, "U8 S8 U16 S16 32 64 128"),
    _row("LDGSTS", UNIT_LSU, VARIABLE, memory.async_copy, f"E BYPASS ACCESS ZFILL 32 64 128 {_ORDER}"),
    _row("LDGDEPBAR", UNIT_LSU, VARIABLE, control.copy_barrier),
    _row("LDSM", UNIT_LSU, VARIABLE, memory.matrix_load, "16 M88 MT88 2 4"),
    _row("STSM", UNIT_LSU, VARIABLE, memory.matrix_store, "16 M88 MT88 2 4"),
    _row(
        "SYNCS",
        UNIT_LSU,
        VARIABLE,
        memory.barrier_object,
        "EXCH 64 ARRIVE TRANS64 RED OPTOUT A1TR A1T0 ART0 A0TR A0TX A0T1 PHASECHK TRYWAIT CCTL IV",
    ),
    _row("ARRIVES", UNIT_LSU, VARIABLE, memory.copies_arrive, "LDGSTSBAR 64 ARVCNT TRANSCNT"),
    _row("UBLKCP", UNIT_LSU, VARIABLE, bulk.plain_copy, "S G"),
    _row("UBLKRED", UNIT_LSU, VARIABLE, bulk.plain_reduction, f"S G {_BULK}"),
    _row("UTMALDG", UNIT_LSU, VARIABLE, bulk.tensor_load, "1D 2D 3D 4D 5D"),
    _row("UTMASTG", UNIT_LSU, VARIABLE, bulk.tensor_store, "1D 2D 3D 4D 5D"),
    _row("UTMAREDG", UNIT_LSU, VARIABLE, bulk.tensor_store, "1D 2D 3D 4D 5D ADD MIN MAX INC DEC AND OR XOR"),
    _row("UBLKPF", UNIT_LSU, VARIABLE, bulk.hint, "L2"),
    _row("UTMAPF", UNIT_LSU, VARIABLE, bulk.hint, "L2 1D 2D 3D 4D 5D"),
    _row("UTMACCTL", UNIT_LSU, VARIABLE, bulk.hint, "PF IV"),
    _row("UTMACMDFLUSH", UNIT_LSU, VARIABLE, bulk.hint),
    _row("CCTL", UNIT_LSU, VARIABLE, memory.cache_control, "E IVALL DML2 RML2 PML2 PF1 PF2 IV"),
    _row("QSPC", UNIT_LSU, VARIABLE, memory.query_space, "E S D L G"),
    _row("MEMBAR", UNIT_LSU, VARIABLE, control.membar, "SC ALL CTA SM GPU SYS VC"),
    _row("ERRBAR", UNIT_LSU, VARIABLE, control.error_barrier),
    _row("CGAERRBAR", UNIT_LSU, VARIABLE, control.error_barrier),
    _row("FENCE", UNIT_LSU, VARIABLE, control.error_barrier, "VIEW ASYNC S G T"),
    # control flow
    _row("BRA", UNIT_CBU, FIXED, control.branch, "U DIV CONV ANY"),
    _row("BRX", UNIT_CBU, FIXED, control.indirect_branch),
    _row("BRXU", UNIT_CBU, FIXED, control.indirect_branch),
    _row("JMX", UNIT_CBU, FIXED, control.indirect_branch),
    _row("JMXU", UNIT_CBU, FIXED, control.indirect_branch),
    _row("JMP", UNIT_CBU, FIXED, control.jump),
    _row("CALL", UNIT_CBU, FIXED, control.call, "REL ABS NOINC"),
    _row("RET", UNIT_CBU, FIXED, control.ret, "REL ABS NODEC"),
    _row("EXIT", UNIT_CBU, FIXED, control.exit_),
    _row("BSSY", UNIT_CBU, FIXED, control.bssy, "RECONVERGENT RELIABLE"),
    _row("BSYNC", UNIT_CBU, FIXED, control.bsync, "RECONVERGENT RELIABLE"),
    _row("BREAK", UNIT_CBU, FIXED, control.bsync, "RELIABLE"),
    _row("WARPSYNC", UNIT_CBU, FIXED, control.warpsync, "ALL EXCLUSIVE COLLECTIVE"),
    _row("ENDCOLLECTIVE", UNIT_CBU, FIXED, control.end_collective),
    _row("BMOV", UNIT_CBU, VARIABLE, control.barrier_move, "32 CLEAR"),
    _row("YIELD", UNIT_CBU, FIXED, control.yield_),
    _row("NANOSLEEP", UNIT_CBU, FIXED, control.nanosleep, "WARP SYNCS"),
    _row("DEPBAR", UNIT_NONE, FIXED, control.depbar, "LE"),
    _row("KILL", UNIT_CBU, FIXED, control.trap),
    _row("BPT", UNIT_CBU, FIXED, control.trap, "TRAP INT DRAIN"),
    _row("LEPC", UNIT_ALU, FIXED, control.program_counter),
    _row("SYSCALL", UNIT_CBU, FIXED, control.system_call),  # not the hardware's: see isa.link
    _row("NOP", UNIT_NONE, FIXED, control.nothing),
    _row("PMTRIG", UNIT_NONE, FIXED, control.nothing),
    _row("USETMAXREG", UNIT_NONE, FIXED, control.register_limit, "DEALLOC TRY_ALLOC CTAPOOL"),
    _row("PREEXIT", UNIT_NONE, FIXED, control.nothing),
    _row("ACQBULK", UNIT_NONE, FIXED, control.nothing),
    # block barriers
    _row("BAR", UNIT_ADU, VARIABLE, control.block_barrier, "SYNC ARV RED POPC AND OR SYNCALL DEFER_BLOCKING"),
    _row("B2R", UNIT_ADU, VARIABLE, control.barrier_result, "RESULT"),
    _row("UCGABAR_ARV", UNIT_ADU, VARIABLE, control.cluster_barrier),
    _row("UCGABAR_WAIT", UNIT_ADU, VARIABLE, control.cluster_barrier),
]

# Uniform instructions mean what the vector ones do, on registers that all lanes share.
_UNIFORM = {
    "UMOV": "MOV",
    "USEL": "SEL",
    "UIADD3": "IADD3",
    "UIMAD": "IMAD",
    "ULEA": "LEA",
    "ULOP3": "LOP3",
    "USHF": "SHF",
    "UBMSK": "BMSK",
    "USGXT": "SGXT",
    "UPRMT": "PRMT",
    "UISETP": "ISETP",
    "UPLOP3": "PLOP3",
    "UPOPC": "POPC",
    "UFLO": "FLO",
    "UBREV": "BREV",
    "ULDC": "LDC",
    "LDCU": "LDC",
    "UI2FP": "I2FP",
    "UIADD": "IADD",
    "UVIADD": "VIADD",
    "UVIMNMX": "VIMNMX",
    "UIMNMX": "IMNMX",
    "UIABS": "IABS",
    "UFADD": "FADD",
    "UFMUL": "FMUL",
    "UFFMA": "FFMA",
    "UFSETP": "FSETP",
    "UFSEL": "FSEL",
    "UFSET": "FSET",
    "UFMNMX": "FMNMX",
    "UF2I": "F2I",
    "UI2F": "I2F",
    "UF2F": "F2F",
    "UFRND": "FRND",
    "UF2FP": "F2FP",
    "UP2UR": "P2R",
    "UR2UP": "R2P",
}


def _uniform_rows(rows: Iterable[Opcode]) -> list[Opcode]:
    by_name = {row.name: row for row in rows}
    result = []
    for name, vector in _UNIFORM.items():
        row = by_name[vector]
        modifiers = row.modifiers | ({"64"} if name == "UIADD3" else set())
        result.append(
            replace(row, name=name, unit=UNIT_UNIFORM, variable=False, modifiers=modifiers, uniform=True)
        )
    special = by_name["S2R"]
    result.append(replace(special, name="S2UR", uniform=True))
    return result


def build_table(rows: Iterable[Opcode]) -> dict[str, Opcode]:
    """Index the rows by name.

    Raises:
        ValueError: two rows have one name, or a uniform row leaves the uniform datapath (S2UR, which reads a special
            register, excepted).
    """
    table: dict[str, Opcode] = {}
    for row in rows:
        if row.name in table:
            raise ValueError(f"two rows for opcode {row.name}")
        if row.uniform and row.unit != UNIT_UNIFORM and row.name != "S2UR":
            raise ValueError(f"uniform opcode {row.name} is not in the uniform datapath")
        table[row.name] = row
    return table


_REFUSED = {
    "textures and surfaces are not modelled": "TEX TLD TLD4 TMML TXA TXD TXQ SULD SUST SURED SUATOM SUQUERY",
    "the disassembler has no name for it on this architecture": "UNNAMED",
    "tensor memory is not modelled": "UTCHMMA UTCQMMA UTCOMMA UTCIMMA UTCCP UTCSHIFT UTCBAR UTCATOMSWS LDTM STTM",
}


def _refused_rows() -> list[Opcode]:
    """Instructions of which nothing but the name is known."""
    units = dict(zip(_REFUSED, (UNIT_TEX, UNIT_NONE, UNIT_TENSOR), strict=True))
    return [
        Opcode(name, units[reason], VARIABLE, control.nothing, frozenset(), refused=reason)
        for reason, names in _REFUSED.items()
        for name in names.split()
    ]


OPCODES = build_table([*_ROWS, *_uniform_rows(_ROWS), *_refused_rows()])
