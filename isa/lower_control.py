"""Lowering of control flow, barriers, special registers and everything between lanes."""

from __future__ import annotations

from isa import microops as m
from isa.instruction import INSTRUCTION_BYTES
from isa.lower_memory import SCOPES
from isa.lower_writer import RowWriter, constants, is_zero


def branch(w: RowWriter) -> None:
    """BRA, with an optional extra condition; .DIV compares the executing lanes with the mask in a uniform register."""
    kind = w.choose({"DIV": m.BRANCH_DIV, "CONV": m.BRANCH_CONV, "ANY": m.BRANCH_ANY}, m.BRANCH_PLAIN)
    if w.has("U") and kind == m.BRANCH_PLAIN:
        kind = m.BRANCH_UNIFORM
    w.set(m.OP_BRA, aux1=kind)
    w.ps(0)
    if w.next_is("reg", "ureg"):
        w.src(m.COL_A, numeric="int")
    elif kind in (m.BRANCH_DIV, m.BRANCH_CONV):
        raise w.refuse("a convergence branch without a mask")
    w.operands("label")


def indirect_branch(w: RowWriter) -> None:
    """BRX: next address + Ra + offset; AUX0 = the sum of the fixed parts. JMX: Ra is absolute."""
    relative = w.instruction.opcode.startswith("BRX")
    w.set(m.OP_BRX if relative else m.OP_JMX)
    w.ps(0)
    w.columns[m.COL_A] = w.register_row(w.take("reg", "ureg"))
    behind = w.instruction.address + INSTRUCTION_BYTES if relative else 0
    w.columns[m.COL_AUX0] = int(w.take().value or 0) if w.next_is("label") else behind + w.number()


def call(w: RowWriter) -> None:
    """CALL: the return address is in registers already (.NOINC). AUX1 = 1: the address in A is absolute."""
    w.set(m.OP_CALL, aux0=-1, aux1=int(w.has("ABS")))
    w.ps(0)
    if w.next_is("label"):
        w.operands("label")
    else:
        w.columns[m.COL_A] = w.register_row(w.take("reg", "ureg"))
        if w.next_is("label"):
            w.columns[m.COL_AUX2] = int(w.take().value or 0)


def ret(w: RowWriter) -> None:
    """RET.REL: address in the pair A, counted from the label; RET.ABS: an absolute address."""
    w.set(m.OP_RET, aux1=int(w.has("ABS")))
    w.ps(0)
    w.columns[m.COL_A] = w.register_row(w.take("reg", "ureg"))
    if w.next_is("label", "imm"):
        w.columns[m.COL_AUX0] = int(w.take().value or 0)


def warpsync(w: RowWriter) -> None:
    """WARPSYNC mask; .ALL; .COLLECTIVE [mask,] label. AUX0: 1 ALL, 2 EXCLUSIVE, 4 COLLECTIVE; AUX1 target or -1."""
    kind = w.has("ALL") + 2 * w.has("EXCLUSIVE") + 4 * w.has("COLLECTIVE")
    w.set(m.OP_WARPSYNC, aux0=kind, aux1=-1)
    w.ps(0)
    if w.next_is("reg", "ureg", "imm"):
        w.src(m.COL_A)
    elif w.has("ALL"):
        w.columns[m.COL_A] = w.immediate_code(0xFFFFFFFF)
    if w.next_is("label"):
        w.columns[m.COL_AUX1] = w.target()


def barrier_move(w: RowWriter) -> None:
    """BMOV.32 between a convergence barrier and a register, or another barrier (code for sm_87 begins with these)."""
    if not w.has("32"):
        raise w.refuse("a barrier move that is not of 32 bits")
    if w.next_is("barrier"):
        to = w.take().index
        if w.next_is("barrier"):
            w.set(m.OP_BMOV, aux0=m.BMOV_MOVE if w.has("CLEAR") else m.BMOV_COPY, aux1=to, aux2=w.take().index)
            return
        w.set(m.OP_BMOV, aux0=m.BMOV_FROM_REGISTER, aux1=to)
        w.src(m.COL_A)
    else:
        w.dst()
        clear = m.BMOV_CLEAR if w.has("CLEAR") else m.BMOV_TO_REGISTER
        w.set(m.OP_BMOV, aux0=clear, aux1=w.take("barrier").index)


def nothing(w: RowWriter) -> None:
    """Instructions without an effect that the simulator models: NOP and hints to hardware that is not there."""
    w.set(m.OP_NOP)
    while w.peek() is not None:
        w.take()


def depbar(w: RowWriter) -> None:
    """DEPBAR.LE SBn, count [, {mask}]: wait until scoreboard n is at most count, and the masked ones are zero; DEPBAR
    {mask} alone. To wait for the masked ones is what any instruction can."""
    w.set(m.OP_DEPBAR, aux0=7)
    if w.next_is("scoreboard"):
        w.columns[m.COL_AUX0] = w.take().index
        w.columns[m.COL_AUX1] = w.number()
    if w.next_is("other"):
        digits = str(w.take().value).strip("{}").split(",")
        if not all(digit in ("0", "1", "2", "3", "4", "5") for digit in digits):
            raise w.refuse("a scoreboard that does not exist")
        w.columns[m.COL_WAIT] |= sum(1 << int(digit) for digit in digits)


def trap(w: RowWriter) -> None:
    """BPT.TRAP ends the kernel with an error."""
    w.set(m.OP_BPT, aux0=int(not w.has("TRAP")))
    if w.next_is("imm"):
        w.number()


def membar(w: RowWriter) -> None:
    w.set(m.OP_MEMBAR, aux0=w.choose(SCOPES, m.SCOPE_GPU))


def program_counter(w: RowWriter) -> None:
    """LEPC: d = address of the label, or of the instruction itself (so the code that ptxas puts behind it for sm_75
    counts)."""
    w.set(m.OP_LEPC)
    w.dst(2)
    w.columns[m.COL_AUX0] = int(w.take().value or 0) if w.next_is("label") else w.instruction.address


def register_limit(w: RowWriter) -> None:
    """USETMAXREG.TRY_ALLOC.CTAPOOL UP, count asks for more registers, .DEALLOC.CTAPOOL count gives some back. A thread
    starts with its kernel's, in whole eights."""
    w.set(m.OP_REGISTERS, aux1=int(w.has("TRY_ALLOC")), aux2=-(-w.launched_with // 8) * 8)
    w.pd(0)
    w.columns[m.COL_AUX0] = w.number()


# --- block barriers ---------------------------------------------------------------------------------------------------
_BAR = {"SYNC": m.BAR_SYNC, "ARV": m.BAR_ARRIVE, "SYNCALL": m.BAR_SYNC_ALL}
_BAR_RED = constants("BAR_RED_", "POPC AND OR")


def block_barrier(w: RowWriter) -> None:
    """BAR.kind barrier [, threads] [, predicate]."""
    kind = w.one_of(_BAR_RED if w.has("RED") else _BAR, "a kind of barrier that is not known")
    w.set(m.OP_BAR, aux0=kind, aux3=int(w.has("DEFER_BLOCKING")))
    if w.peek() is not None:
        _number_or_row(w, m.COL_AUX1, m.COL_A)
        if w.columns[m.COL_AUX1] not in range(-1, 16) or (w.columns[m.COL_AUX1] < 0 <= ~w.columns[m.COL_A]):
            raise w.refuse("a barrier that does not exist")
    if w.next_is("imm", "reg", "ureg"):
        _number_or_row(w, m.COL_AUX2, m.COL_B)
    w.ps(0)


def _number_or_row(w: RowWriter, immediate: int, row: int) -> None:
    operand = w.peek()
    if operand is not None and operand.kind in ("reg", "ureg") and not is_zero(operand):
        w.columns[immediate] = -1
        w.columns[row] = w.register_row(w.take())
    else:
        w.columns[immediate] = w.number()


def barrier_result(w: RowWriter) -> None:
    if not w.has("RESULT"):
        raise w.refuse("a barrier query that is not known")
    w.dst()
    w.set(m.OP_B2R, aux0=int(w.pd(0)))


# --- special registers and exchanges between lanes -----------------------------------------------------------------
_MASKS = {f"SR_{name}MASK" for name in ("EQ", "LT", "LE", "GT", "GE")}
_OF_LANES_AND_BLOCKS = {f"SR_{name}{axis}" for name in ("TID", "CTAID") for axis in (".X", ".Y", ".Z")}
_UNSEEN = {"S2UR": _MASKS, "CS2R": _MASKS | _OF_LANES_AND_BLOCKS | {"SR_LANEID", "SR_TID"}}


def special_register(w: RowWriter) -> None:
    """S2R, S2UR, CS2R; CS2R reads 64 bits unless it says .32, and reading SRZ is a move of zero.

    An H200's S2UR reads zero for the masks of lanes, and its CS2R for everything of a lane or a block.
    """
    rows = 2 if w.instruction.opcode == "CS2R" and not w.has("32") else 1
    w.dst(rows)
    name = str(w.take("special").value)
    if name not in m.SPECIAL_REGISTERS:
        raise w.refuse(f"special register {name}")
    number = m.SPECIAL_REGISTERS[name]
    if number == m.SR_ZERO or name in _UNSEEN.get(w.instruction.opcode, ()):
        w.set(m.OP_MOV_WIDE if rows == 2 else m.OP_MOV)
    else:
        w.set(m.OP_CS2R if w.instruction.opcode == "CS2R" else m.OP_S2R, aux0=number)


def shuffle(w: RowWriter) -> None:
    w.set(m.OP_SHFL, aux0=w.one_of(constants("SHFL_", "IDX UP DOWN BFLY"), "a shuffle without a kind"))
    w.operands("pd0 d A B C", numeric="raw")


def vote(w: RowWriter) -> None:
    """VOTE.kind [Rd,] Pd, Ps: Rd = ballot; VOTEU writes uniform registers and predicates."""
    kind = w.one_of(constants("VOTE_", "ALL ANY EQ"), "a vote without a kind")
    w.set(m.OP_VOTE, aux0=kind, aux5=int(w.instruction.opcode == "VOTEU"))
    if w.next_is("reg", "ureg"):
        w.dst()
    w.operands("pd0 ps0")


def match(w: RowWriter) -> None:
    wide = w.has("U64")
    w.set(m.OP_MATCH_ALL if w.has("ALL") else m.OP_MATCH_ANY, aux0=int(wide))
    w.operands("pd0 d")
    w.src(m.COL_A, 2 if wide else 1, "raw")


def redux(w: RowWriter) -> None:
    """REDUX: reduction over the executing lanes into a uniform register; the plain form is AND."""
    kinds = constants("REDUX_", "SUM OR XOR")
    if w.has("F32"):
        kinds |= dict.fromkeys(("MIN", "MINABS"), m.REDUX_MIN_F)
        kinds |= dict.fromkeys(("MAX", "MAXABS"), m.REDUX_MAX_F)
    elif w.has("S32"):
        kinds |= {"MIN": m.REDUX_MIN_S, "MAX": m.REDUX_MAX_S}
    else:
        kinds |= {"MIN": m.REDUX_MIN_U, "MAX": m.REDUX_MAX_U}
    w.set(m.OP_REDUX, aux0=w.choose(kinds, m.REDUX_AND), aux1=m.FLAG_NAN * w.has("NAN"))
    _uniform_result(w)
    if w.has("MINABS", "MAXABS"):
        w.columns[m.COL_MOD_A] = m.MOD_FABS


def register_to_uniform(w: RowWriter) -> None:
    """R2UR [Pd,] URd, Ra. No document says what Pd is; on an H200 it is false where all lanes hold one value. In the
    compiler's loops over lanes with several values, .OR comes behind the first: it tells which differ in any.
    .BROADCAST stands in code for sm_100, under the predicate of one lane, which ELECT has chosen."""
    w.set(m.OP_R2UR, aux0=int(w.has("OR")))
    _uniform_result(w)


def return_pair_move(w: RowWriter) -> None:
    """RPCMOV.32 from a register to half of Rpc or back: compilers put two words aside there."""
    w.set(m.OP_MOV, dst_count=1)
    for column in (m.COL_DST, m.COL_A):
        operand = w.take("reg", "other")
        if operand.kind == "reg":
            w.columns[column] = w.register_row(operand, column == m.COL_DST)
        elif operand.value in ("Rpc.LO", "Rpc.HI"):
            w.columns[column] = w.return_pair_row(int(operand.value == "Rpc.HI"))
        else:
            raise w.refuse("a part of Rpc that is not known")


def _uniform_result(w: RowWriter) -> None:
    w.pd(0)
    operand = w.peek()
    w.columns[m.COL_AUX5] = int(operand is not None and operand.kind == "ureg")
    w.operands("d A", numeric="raw")
    if w.instruction.opcode != "R2UR" and w.writes_predicates():
        raise w.refuse("a predicate result")
