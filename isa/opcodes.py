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
from isa import microops as m
from isa.instruction import RZ, Instruction
from isa.lower_writer import RowWriter, plain


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


FIXED, VARIABLE = False, True
_PIPES = {
    m.UNIT_NONE: "",
    m.UNIT_FMA: "fma",
    m.UNIT_FMAHEAVY: "fma fmaheavy",
    m.UNIT_ALU: "alu",
    m.UNIT_FP64: "fp64",
    m.UNIT_HALF: "fma fmaheavy fma_type_fp16",
    m.UNIT_XU: "xu",
    m.UNIT_LSU: "lsu",
    m.UNIT_UNIFORM: "uniform",
    m.UNIT_CBU: "cbu",
    m.UNIT_TENSOR: "tensor",
    m.UNIT_ADU: "adu",
    m.UNIT_TEX: "tex",
}
"""The pipe that an instruction counts in if its row names no other, in Nsight Compute's words: as recorded of every row
below that code for an H200 can hold. `fmaheavy` is what always takes the heavy half of the FMA pipe."""
_HMMA, _IMMA, _DMMA, _GMMA = (f"tensor tensor_op_{kind}" for kind in ("hmma", "imma", "dmma", "gmma"))
PIPES = tuple(sorted({*f"{' '.join(_PIPES.values())} tma {_HMMA} {_IMMA} {_DMMA} {_GMMA}".split()}))
"""All of them."""
_BY_LANE = "TID TID.X TID.Y TID.Z LANEID EQMASK LTMASK LEMASK GTMASK GEMASK VIRTID"
_LANE_REGISTERS = frozenset(f"SR_{name}" for name in _BY_LANE.split())
_COMPARE = "F LT EQ LE GT NE GE T AND OR XOR"
_FLOAT_COMPARE = _COMPARE + " NUM NAN LTU EQU LEU GTU NEU GEU"
_ROUND = "RN RM RP RZ"
_ROUND_INTEGER = _ROUND + " FLOOR CEIL TRUNC"
_INTEGERS = "U8 S8 U16 S16 U32 S32 U64 S64"
_FLOATS = "F16 BF16 F32 F64"
_FUNCTIONS = "RCP RSQ SQRT EX2 LG2 SIN COS TANH RCP64H RSQ64H"
_PACKING = "PACK_AB PACK_B MERGE_C PACK_AB_MERGE_C UNPACK_B UNPACK_B_MERGE_C"
_HALF = "BF16_V2 FTZ SAT"
_PACKED = "S16x2 U16x2 RELU U32 S32"
_ACCESS = "E U8 S8 U16 S16 32 64 128"
_ORDER = "STRONG WEAK MMIO CTA SM GPU SYS VC CONSTANT EF EL NA LU EU LTC64B LTC128B LTC256B PRIVATE"
_GROUP = " ".join(f"64x{n}x{k}" for n in range(8, 257, 8) for k in (8, 16, 32, 64, 256))
_BULK = "ADD MIN MAX INC DEC AND OR XOR S32 U64 S64 64 F16 BF16 F32 F64 RN"
_BOX = "1D 2D 3D 4D 5D IM2COL"
_ATOMIC = "ADD MIN MAX INC DEC AND OR XOR EXCH CAS S32 U64 S64 F32 FTZ RN F64 F16x2 BF16x2"
_ATOMIC += " F32x2 F32x4 F16x4 F16x8 BF16x4 BF16x8"
_BARRIER = "EXCH 64 ARRIVE TRANS64 TMASK RED OPTOUT A1TR A1T0 ART0 A0TR A0TX A0T1 PHASECHK TRYWAIT CCTL IV IVALL"
_INTEGER_MATRIX = "16832 16816 16864 8816 8832 S8 U8 S4 U4 SAT SP"


def _row(
    name: str,
    unit: int,
    variable: bool,
    lower: Callable[[RowWriter], None],
    modifiers: str = "",
    pipes: str | None = None,
) -> Opcode:
    return Opcode(name, unit, variable, lower, frozenset(modifiers.split()), _kinds(unit, pipes))


def _kinds(unit: int, pipes: str | None) -> dict[str, tuple[str, ...]]:
    """'lsu, GPU: lsu tex' as {'': ('lsu',), 'GPU': ('lsu', 'tex')}; None stands for what the unit says."""
    kinds = {}
    for kind in (_PIPES[unit] if pipes is None else pipes).split(", "):
        condition, _, names = kind.rpartition(":")
        kinds[condition] = tuple(dict.fromkeys(names.split()))
    return kinds


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


_ROWS = [
    # integer, logic, moves
    _row("MOV", m.UNIT_ALU, FIXED, ints.mov, "64"),
    _row("SEL", m.UNIT_ALU, FIXED, ints.select, "64"),
    _row("IADD3", m.UNIT_ALU, FIXED, ints.iadd3, "X"),
    _row("IADD", m.UNIT_ALU, FIXED, ints.add_two, "64 X"),
    _row("VIADD", m.UNIT_FMAHEAVY, FIXED, ints.viadd, "16x2 U8x4 S32 ISAT"),
    _row("IMAD", m.UNIT_FMAHEAVY, FIXED, ints.imad, "MOV IADD SHL U32 X WIDE HI"),
    _row("LEA", m.UNIT_ALU, FIXED, ints.lea, "HI X SX32"),
    _row("LOP3", m.UNIT_ALU, FIXED, ints.lop3, "LUT PAND"),
    _row("SHF", m.UNIT_ALU, FIXED, ints.shf, "L R W HI U32 S32 U64 S64"),
    _row("BMSK", m.UNIT_ALU, FIXED, plain(m.OP_BMSK, "d A B", aux0="W"), "W C"),
    _row("SGXT", m.UNIT_ALU, FIXED, ints.sgxt, "W U32"),
    _row("PRMT", m.UNIT_ALU, FIXED, ints.prmt, "IDX F4E B4E RC8 ECL ECR RC16"),
    _row("IABS", m.UNIT_ALU, FIXED, plain(m.OP_IABS, "d A")),
    _row("IMNMX", m.UNIT_ALU, FIXED, ints.minmax, "U32 U64 S64"),
    _row("VIMNMX", m.UNIT_ALU, FIXED, ints.minmax, _PACKED + " U8x4 S8x4"),
    _row("VIMNMX3", m.UNIT_ALU, FIXED, ints.minmax3, _PACKED),
    _row("VIADDMNMX", m.UNIT_ALU, FIXED, ints.minmax3, _PACKED),
    _row("IDP", m.UNIT_FMAHEAVY, FIXED, ints.dot_product, "4A 2A LO HI S8 U8 S16 U16"),
    _row("VABSDIFF", m.UNIT_ALU, FIXED, ints.difference, "U32"),
    _row("VABSDIFF4", m.UNIT_ALU, FIXED, ints.difference, "U8 S8 ACC"),
    _row("I2IP", m.UNIT_ALU, FIXED, ints.pack_integers, "S2 U2 S4 U4 S8 U8 S16 U16 S32 SAT"),
    _row("I2I", m.UNIT_ALU, VARIABLE, ints.saturate_integer, "S8 U8 S16 U16 S32 SAT"),
    _row("POPC", m.UNIT_XU, VARIABLE, ints.bit_count),
    _row("FLO", m.UNIT_XU, VARIABLE, ints.bit_count, "U32 SH"),
    _row("BREV", m.UNIT_XU, VARIABLE, ints.bit_count),
    # predicates
    _row("ISETP", m.UNIT_ALU, FIXED, ints.isetp, _COMPARE + " U32 EX U64 S64"),
    _row("PLOP3", m.UNIT_ALU, FIXED, ints.plop3, "LUT"),
    _row("P2R", m.UNIT_ALU, FIXED, ints.predicates_to_register, "B0 B1 B2 B3"),
    _row("R2P", m.UNIT_ALU, FIXED, ints.register_to_predicates, "B0 B1 B2 B3"),
    # single precision
    _row("FADD", m.UNIT_FMA, FIXED, floats.float_arithmetic, _ROUND + " FTZ SAT"),
    _row("FMUL", m.UNIT_FMA, FIXED, floats.float_arithmetic, _ROUND + " FTZ FMZ SAT D2 D4 D8 M2 M4 M8"),
    _row("FFMA", m.UNIT_FMA, FIXED, floats.float_arithmetic, _ROUND + " FTZ FMZ SAT"),
    _row("FADD32I", m.UNIT_FMA, FIXED, floats.float_arithmetic, "FTZ"),
    _row("FMUL32I", m.UNIT_FMA, FIXED, floats.float_arithmetic, "FTZ FMZ SAT"),
    _row("FFMA32I", m.UNIT_FMA, FIXED, floats.float_arithmetic, "FTZ FMZ SAT"),
    _row("FSEL", m.UNIT_ALU, FIXED, floats.float_select, "FTZ"),
    _row("FMNMX", m.UNIT_ALU, FIXED, floats.float_minmax, "FTZ NAN XORSIGN"),
    _row("FMNMX3", m.UNIT_ALU, FIXED, floats.float_minmax, "FTZ NAN"),
    _row("FADD2", m.UNIT_FMA, FIXED, floats.paired_arithmetic, "FTZ"),
    _row("FMUL2", m.UNIT_FMA, FIXED, floats.paired_arithmetic, "FTZ"),
    _row("FFMA2", m.UNIT_FMA, FIXED, floats.paired_arithmetic, "FTZ"),
    _row("FSET", m.UNIT_ALU, FIXED, floats.compare, _FLOAT_COMPARE + " BF FTZ"),
    _row("FSETP", m.UNIT_ALU, FIXED, floats.compare, _FLOAT_COMPARE + " FTZ"),
    _row("FCHK", m.UNIT_XU, VARIABLE, plain(m.OP_FCHK, "pd0 A B", "float"), "DIVIDE"),
    _row("MUFU", m.UNIT_XU, VARIABLE, floats.transcendental, _FUNCTIONS + " FTZ F16 BF16"),
    # double precision
    _row("DADD", m.UNIT_FP64, FIXED, floats.double_arithmetic, _ROUND),
    _row("DMUL", m.UNIT_FP64, FIXED, floats.double_arithmetic, _ROUND),
    _row("DFMA", m.UNIT_FP64, FIXED, floats.double_arithmetic, _ROUND),
    _row("DSETP", m.UNIT_FP64, FIXED, floats.compare, _FLOAT_COMPARE + " MIN MAX"),
    # conversions
    _row("F2I", m.UNIT_XU, VARIABLE, floats.float_to_integer, f"{_INTEGERS} {_FLOATS} FTZ NTZ {_ROUND_INTEGER}"),
    _row("I2F", m.UNIT_XU, VARIABLE, floats.integer_to_float, f"{_INTEGERS} {_FLOATS} {_ROUND}"),
    _row("I2FP", m.UNIT_ALU, FIXED, floats.integer_to_float, "S32 U32 F32 " + _ROUND),
    _row("F2F", m.UNIT_XU, VARIABLE, floats.float_to_float, f"{_FLOATS} FTZ {_ROUND}"),
    _row("FRND", m.UNIT_XU, VARIABLE, floats.round_to_integral, f"{_FLOATS} FTZ NTZ {_ROUND_INTEGER}"),
    _row("F2FP", m.UNIT_ALU, FIXED, floats.pack_floats, _PACKING + " F16 BF16 F32 E4M3 E5M2 TF32 RELU SATFINITE RN RZ"),
    _row("F2IP", m.UNIT_ALU, FIXED, floats.pack_as_integers, "U8 S8 F32 FTZ NTZ " + _ROUND_INTEGER),
    # packed halves
    _row("HADD2", m.UNIT_HALF, FIXED, floats.half_arithmetic, _HALF + " F32"),
    _row("HMUL2", m.UNIT_HALF, FIXED, floats.half_arithmetic, _HALF + " FMZ"),
    _row(
        *("HFMA2", m.UNIT_HALF, FIXED, floats.half_arithmetic, _HALF + " FMZ MMA RELU OOB"),
        pipes=f"{_PIPES[m.UNIT_HALF]}, MMA: {_HMMA}",
    ),
    _row("HMNMX2", m.UNIT_ALU, FIXED, floats.half_minmax, "BF16_V2 FTZ NAN XORSIGN"),
    _row("HSETP2", m.UNIT_ALU, FIXED, floats.half_compare, _FLOAT_COMPARE + " BF16_V2 FTZ"),
    _row("HSET2", m.UNIT_ALU, FIXED, floats.half_compare, _FLOAT_COMPARE + " BF16_V2 BF FTZ"),
    _row("FHADD", m.UNIT_FMA, FIXED, floats.mixed_arithmetic, "BF16"),
    _row("FHFMA", m.UNIT_FMA, FIXED, floats.mixed_arithmetic, "BF16"),
    # tensor cores
    _row("HMMA", m.UNIT_TENSOR, FIXED, tensor.half_matrix, "16816 1688 16832 F16 F32 BF16 TF32 1684 SP", _HMMA),
    _row("IMMA", m.UNIT_TENSOR, FIXED, tensor.integer_matrix, _INTEGER_MATRIX, _IMMA),
    _row("BMMA", m.UNIT_TENSOR, FIXED, tensor.bit_matrix, "88128 168128 168256 AND XOR POPC", _IMMA),
    _row("DMMA", m.UNIT_TENSOR, VARIABLE, tensor.double_matrix, "8x8x4 16x8x4 16x8x8 16x8x16", _DMMA),
    _row("HGMMA", m.UNIT_TENSOR, FIXED, tensor.group_matrix, f"{_GROUP} SP F16 F32 BF16 TF32", f"{_GMMA} {_HMMA}"),
    _row("QGMMA", m.UNIT_TENSOR, FIXED, tensor.group_matrix, f"{_GROUP} SP F16 F32 E4M3 E5M2", f"{_GMMA} {_HMMA}"),
    _row("IGMMA", m.UNIT_TENSOR, FIXED, tensor.group_matrix, f"{_GROUP} SP S8 U8 SAT", f"{_GMMA} {_IMMA}"),
    _row("BGMMA", m.UNIT_TENSOR, FIXED, tensor.group_matrix, f"{_GROUP} AND POPC", f"{_GMMA} {_IMMA}"),
    _row("WARPGROUP", m.UNIT_NONE, FIXED, tensor.group_order, "ARRIVE DEPBAR LE"),
    _row("MOVM", m.UNIT_LSU, VARIABLE, plain(m.OP_MOVM, "d A", "raw"), "16 MT88"),
    # between lanes
    _row("SHFL", m.UNIT_LSU, VARIABLE, control.shuffle, "IDX UP DOWN BFLY"),
    _row("VOTE", m.UNIT_ALU, FIXED, control.vote, "ALL ANY EQ"),
    _row("VOTEU", m.UNIT_UNIFORM, FIXED, control.vote, "ALL ANY EQ", pipes=""),
    _row("MATCH", m.UNIT_ADU, VARIABLE, control.match, "ANY ALL U32 U64"),
    _row("REDUX", m.UNIT_ADU, VARIABLE, control.redux, "SUM MIN MAX AND OR XOR S32 U32"),
    _row("CREDUX", m.UNIT_ADU, VARIABLE, control.redux, "MIN MAX MINABS MAXABS S32 U32 F32 NAN"),
    _row("R2UR", m.UNIT_ALU, FIXED, control.register_to_uniform, "BROADCAST OR"),
    _row("RPCMOV", m.UNIT_ALU, FIXED, control.return_pair_move, "32"),
    _row("ELECT", m.UNIT_ALU, FIXED, plain(m.OP_ELECT, "pd0 d ps0")),
    # special registers
    _row("S2R", m.UNIT_ADU, VARIABLE, control.special_register, pipes="adu, LANE: lsu"),
    _row("CS2R", m.UNIT_ALU, FIXED, control.special_register, "32 64"),
    # memory
    _row("LDG", m.UNIT_LSU, VARIABLE, memory.load, f"{_ACCESS} {_ORDER}"),
    _row("LD", m.UNIT_LSU, VARIABLE, memory.load, f"{_ACCESS} {_ORDER}"),
    _row("LDS", m.UNIT_LSU, VARIABLE, memory.load, "U8 S8 U16 S16 32 64 128 U"),
    _row("LDL", m.UNIT_LSU, VARIABLE, memory.load, "U8 S8 U16 S16 32 64 128 EF EL LU NA EU"),
    _row("STG", m.UNIT_LSU, VARIABLE, memory.store, f"{_ACCESS} {_ORDER}"),
    _row("ST", m.UNIT_LSU, VARIABLE, memory.store, f"{_ACCESS} {_ORDER}"),
    _row("STS", m.UNIT_LSU, VARIABLE, memory.store, "U8 S8 U16 S16 32 64 128"),
    _row("STL", m.UNIT_LSU, VARIABLE, memory.store, "U8 S8 U16 S16 32 64 128 EF EL LU NA EU"),
    _row("ATOM", m.UNIT_LSU, VARIABLE, memory.atomic, f"{_ATOMIC} CAST SPIN E 64 128 {_ORDER}"),
    _row("ATOMG", m.UNIT_LSU, VARIABLE, memory.atomic, f"{_ATOMIC} E 64 128 {_ORDER}"),
    _row("ATOMS", m.UNIT_LSU, VARIABLE, memory.atomic, f"{_ATOMIC} CAST SPIN POPC 32 64 128"),
    _row("RED", m.UNIT_LSU, VARIABLE, memory.atomic, f"{_ATOMIC} E 64 {_ORDER}"),
    _row("REDG", m.UNIT_LSU, VARIABLE, memory.atomic, f"{_ATOMIC} E 64 {_ORDER}"),
    _row("LDC", m.UNIT_ADU, VARIABLE, memory.load_constant, "U8 S8 U16 S16 32 64 128"),
    _row("LDGSTS", m.UNIT_LSU, VARIABLE, memory.async_copy, f"E BYPASS ACCESS ZFILL 32 64 128 {_ORDER}"),
    _row("LDGDEPBAR", m.UNIT_LSU, VARIABLE, plain(m.OP_LDGDEPBAR)),
    _row("LDSM", m.UNIT_LSU, VARIABLE, memory.matrices, "16 M88 MT88 2 4"),
    _row("STSM", m.UNIT_LSU, VARIABLE, memory.matrices, "16 M88 MT88 2 4"),
    _row("SYNCS", m.UNIT_LSU, VARIABLE, memory.barrier_object, _BARRIER, "adu"),
    _row("ARRIVES", m.UNIT_LSU, VARIABLE, memory.copies_arrive, "LDGSTSBAR 64 ARVCNT TRANSCNT"),
    _row("UBLKCP", m.UNIT_LSU, VARIABLE, bulk.plain_copy, "S G MULTICAST", "tma"),
    _row("UBLKRED", m.UNIT_LSU, VARIABLE, bulk.plain_reduction, f"S G {_BULK}", "tma"),
    _row("UBLKPF", m.UNIT_LSU, VARIABLE, bulk.plain_prefetch, "L2", "tma"),
    _row("UTMALDG", m.UNIT_LSU, VARIABLE, bulk.tensor_copy, f"{_BOX} MULTICAST", "tma"),
    _row("UTMASTG", m.UNIT_LSU, VARIABLE, bulk.tensor_copy, _BOX, "tma"),
    _row("UTMAREDG", m.UNIT_LSU, VARIABLE, bulk.tensor_copy, f"{_BOX} ADD MIN MAX INC DEC AND OR XOR", "tma"),
    _row("UTMAPF", m.UNIT_LSU, VARIABLE, bulk.tensor_copy, f"L2 {_BOX}", "tma"),
    _row("STAS", m.UNIT_LSU, VARIABLE, bulk.remote_store, "64 128"),
    _row("REDAS", m.UNIT_LSU, VARIABLE, bulk.remote_store, "ADD MIN MAX INC DEC AND OR XOR S32 64"),
    _row("UGETNEXTWORKID", m.UNIT_LSU, VARIABLE, bulk.next_block, "SELFCAST"),
    _row("UTMACCTL", m.UNIT_LSU, VARIABLE, control.nothing, "PF IV", "tma"),
    _row("UTMACMDFLUSH", m.UNIT_LSU, FIXED, plain(m.OP_BULK_COMMIT), pipes="tma"),
    _row("CCTL", m.UNIT_LSU, VARIABLE, memory.cache_control, "E IVALL DML2 RML2 PML2 PF1 PF2 IV C LDCU DEEP"),
    _row("CCTLL", m.UNIT_LSU, VARIABLE, memory.cache_control, "PF1 PF2"),
    _row("QSPC", m.UNIT_LSU, VARIABLE, memory.query_space, "E S D L G"),
    _row("MEMBAR", m.UNIT_LSU, VARIABLE, control.membar, "SC ALL CTA SM GPU SYS VC", "lsu, GPU: lsu tex, SYS: lsu tex"),
    _row("ERRBAR", m.UNIT_LSU, VARIABLE, plain(m.OP_ERRBAR), pipes=""),
    _row("CGAERRBAR", m.UNIT_LSU, VARIABLE, plain(m.OP_ERRBAR), pipes="adu"),
    _row("FENCE", m.UNIT_LSU, VARIABLE, plain(m.OP_ERRBAR), "VIEW ASYNC S G T"),
    # control flow
    _row("BRA", m.UNIT_CBU, FIXED, control.branch, "U DIV CONV ANY", pipes=""),
    _row("BRX", m.UNIT_CBU, FIXED, control.indirect_branch, pipes="cbu adu"),
    _row("BRXU", m.UNIT_CBU, FIXED, control.indirect_branch),
    _row("JMX", m.UNIT_CBU, FIXED, control.indirect_branch, pipes="cbu adu"),
    _row("JMXU", m.UNIT_CBU, FIXED, control.indirect_branch),
    _row("JMP", m.UNIT_CBU, FIXED, control.jump),
    _row("CALL", m.UNIT_CBU, FIXED, control.call, "REL ABS NOINC", "cbu, REGISTER: cbu adu"),
    _row("RET", m.UNIT_CBU, FIXED, control.ret, "REL ABS NODEC", pipes="cbu adu"),
    _row("EXIT", m.UNIT_CBU, FIXED, plain(m.OP_EXIT, "ps0")),
    _row("BSSY", m.UNIT_CBU, FIXED, control.bssy, "RECONVERGENT RELIABLE"),
    _row("BSYNC", m.UNIT_CBU, FIXED, control.bsync, "RECONVERGENT RELIABLE"),
    _row("BREAK", m.UNIT_CBU, FIXED, control.bsync, "RELIABLE"),
    _row("WARPSYNC", m.UNIT_CBU, FIXED, control.warpsync, "ALL EXCLUSIVE COLLECTIVE", pipes="cbu, REGISTER: cbu adu"),
    _row("ENDCOLLECTIVE", m.UNIT_CBU, FIXED, plain(m.OP_ENDCOLLECTIVE)),
    _row("BMOV", m.UNIT_CBU, VARIABLE, control.barrier_move, "32 CLEAR"),
    _row("YIELD", m.UNIT_CBU, FIXED, plain(m.OP_YIELD)),
    _row("NANOSLEEP", m.UNIT_CBU, FIXED, control.sleep, "WARP SYNCS", pipes="cbu, REGISTER: cbu adu"),
    _row("DEPBAR", m.UNIT_NONE, FIXED, control.depbar, "LE"),
    _row("KILL", m.UNIT_CBU, FIXED, plain(m.OP_KILL, "ps0")),
    _row("BPT", m.UNIT_CBU, FIXED, control.trap, "TRAP INT DRAIN"),
    _row("LEPC", m.UNIT_ALU, FIXED, control.program_counter),
    _row("SYSCALL", m.UNIT_CBU, FIXED, control.system_call),  # not the hardware's: see isa.link
    _row("NOP", m.UNIT_NONE, FIXED, control.nothing),
    _row("PMTRIG", m.UNIT_NONE, FIXED, control.nothing),
    _row("USETMAXREG", m.UNIT_NONE, VARIABLE, control.register_limit, "DEALLOC TRY_ALLOC CTAPOOL", pipes="adu"),
    _row("PREEXIT", m.UNIT_NONE, FIXED, plain(m.OP_GRID_TRIGGER), pipes="adu"),
    _row("ACQBULK", m.UNIT_NONE, FIXED, plain(m.OP_GRID_WAIT)),
    # block barriers
    _row("BAR", m.UNIT_ADU, VARIABLE, control.block_barrier, "SYNC ARV RED POPC AND OR SYNCALL DEFER_BLOCKING"),
    _row("B2R", m.UNIT_ADU, VARIABLE, control.barrier_result, "RESULT"),
    _row("UCGABAR_ARV", m.UNIT_ADU, VARIABLE, plain(m.OP_CLUSTER_ARRIVE)),
    _row("UCGABAR_WAIT", m.UNIT_ADU, VARIABLE, plain(m.OP_CLUSTER_WAIT), pipes=""),
]

# Uniform instructions mean what the vector ones do, on registers that all lanes share.
_ALSO_UNIFORM = """MOV SEL IADD IADD3 VIADD IMAD LEA LOP3 SHF BMSK SGXT PRMT IABS IMNMX VIMNMX ISETP PLOP3 POPC FLO BREV
    LDC FADD FMUL FFMA FSEL FSET FSETP FMNMX F2I I2F I2FP F2F F2FP FRND"""
_UNIFORM = {"U" + name: name for name in _ALSO_UNIFORM.split()}
_UNIFORM |= {"LDCU": "LDC", "UP2UR": "P2R", "UR2UP": "R2P"}


def _uniform_rows(rows: Iterable[Opcode]) -> list[Opcode]:
    by_name = {row.name: row for row in rows}
    result = []
    for name, vector in _UNIFORM.items():
        row = by_name[vector]
        modifiers = row.modifiers | ({"64"} if name == "UIADD3" else set())
        pipes = _kinds(m.UNIT_UNIFORM, "" if name in ("UMOV", "ULDC", "LDCU") else None)
        result.append(
            replace(row, name=name, unit=m.UNIT_UNIFORM, variable=False, modifiers=modifiers, uniform=True, pipes=pipes)
        )
    special = by_name["S2R"]
    result.append(replace(special, name="S2UR", uniform=True, pipes=_kinds(special.unit, None)))
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
        if row.uniform and row.unit != m.UNIT_UNIFORM and row.name != "S2UR":
            raise ValueError(f"uniform opcode {row.name} is not in the uniform datapath")
        table[row.name] = row
    return table


_REFUSED = {
    "textures and surfaces are not modelled": "TEX TLD TLD4 TMML TXA TXD TXQ SULD SUST SURED SUATOM SUQUERY",
    "the disassembler has no name for it on this architecture": "UNNAMED",
    "tensor memory is not modelled": "UTCHMMA UTCQMMA UTCOMMA UTCIMMA UTCCP UTCSHIFT UTCBAR UTCATOMSWS LDTM STTM "
    "UVIRTCOUNT",
    "memory of several GPUs at one address (multimem) is not modelled": "LDGMC",
    "asynchronous stores to memory-mapped registers are not modelled": "USTGR UREDGR",
    "stores of zeros in bulk are not modelled": "UMEMSETS",
}


def _refused_rows() -> list[Opcode]:
    """Instructions of which nothing but the name is known."""
    units = dict(zip(_REFUSED, (m.UNIT_TEX, m.UNIT_NONE, m.UNIT_TENSOR, *[m.UNIT_LSU] * 3), strict=True))
    return [
        Opcode(name, units[reason], VARIABLE, control.nothing, frozenset(), _kinds(units[reason], None), refused=reason)
        for reason, names in _REFUSED.items()
        for name in names.split()
    ]


OPCODES = build_table([*_ROWS, *_uniform_rows(_ROWS), *_refused_rows()])
