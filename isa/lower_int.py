"""Lowering of integer, logic, move and predicate instructions."""

from __future__ import annotations

from dataclasses import replace

from isa import microops as m
from isa.lower_writer import BOOLEANS, BYTES, COMPARES, NO_RELATION, RowWriter, constants, is_zero

_PRMT = constants("PRMT_", "IDX F4E B4E RC8 ECL ECR RC16")


def mov(w: RowWriter) -> None:
    if w.has("64"):
        w.set(m.OP_MOV_WIDE)
        w.operands("d A", 2, "raw")
        return
    w.set(m.OP_MOV)
    w.operands("d A")
    lanes = w.number() & 0xF if w.next_is("imm") else 0xF
    if lanes != 0xF:
        w.set(m.OP_MOV_LANES, aux0=lanes)


def select(w: RowWriter) -> None:
    rows = 2 if w.has("64") else 1
    w.set(m.OP_SEL_WIDE if rows == 2 else m.OP_SEL)
    w.operands("d A B ps0", rows, "raw" if rows == 2 else "int")


def add(w: RowWriter) -> None:
    """IADD3, and IADD with two addends; .64 of both."""
    three, rows = not w.instruction.opcode.endswith("IADD"), 2 if w.has("64") else 1
    w.dst(rows)
    carries_out = w.pd(0)
    carries_out = w.pd(1) or carries_out
    signs, third = _addends(w, rows), w.peek()
    w.columns[m.COL_C] = ~0
    if three:
        w.src(m.COL_C, rows, "raw" if rows == 2 else "int")
    w.ps(0, default=False)
    w.ps(1, default=False)
    if rows == 1:
        w.set(m.OP_IADD3_CARRY if carries_out else m.OP_IADD3_X if w.has("X") else m.OP_IADD3)
        return
    if three and (w.writes_predicates() or w.has("X")):
        raise w.refuse("carries of a 64-bit addition")
    if three and signs and third is not None and not is_zero(third):
        raise w.refuse("a negated operand among three of 64 bits")
    w.set(m.OP_ADD2_WIDE if signs or not three else m.OP_ADD3_WIDE, aux0=signs)


def _addends(w: RowWriter, rows: int) -> int:
    """Two addends. What is to be done with the signs of 64 bits is returned, as OP_ADD2_WIDE takes it."""
    signs = 0
    for k, column in enumerate((m.COL_A, m.COL_B)):
        operand = w.peek()
        if rows == 2 and operand is not None and operand.kind in ("reg", "ureg", "const"):
            signs |= operand.negate << k | operand.invert << k + 2
            w.put(column, replace(w.take(), negate=False, invert=False), 2, "raw")
        else:
            w.src(column, rows)
    return signs


def viadd(w: RowWriter) -> None:
    w.operands("d A B")
    if w.has("16x2", "U8x4"):
        negations = _negation(w, m.COL_A) | _negation(w, m.COL_B) << 1
        w.set(m.OP_ADD_16X2 if w.has("16x2") else m.OP_ADD_8X4, aux0=negations)
        return
    w.columns[m.COL_C] = ~0
    if w.has("ISAT"):
        w.set(m.OP_ADD_SAT, aux0=_negation(w, m.COL_A, may=False) | _negation(w, m.COL_B))
    else:
        w.set(m.OP_IADD3)


def _negation(w: RowWriter, column: int, may: bool = True) -> int:
    """1 if the source is negated, which it may be. The executor sees to it: a modifier column acts on one word."""
    modifier, w.columns[column + 1] = w.columns[column + 1], m.MOD_NONE
    if modifier != m.MOD_NONE and not (may and modifier == m.MOD_INEG):
        raise w.refuse("an operand modifier that has no meaning here")
    return int(modifier == m.MOD_INEG)


def imad(w: RowWriter) -> None:
    """IMAD and its moves, additions and shifts; .MOV, .IADD and .SHL name what the operands already say."""
    wide, upper = w.has("WIDE"), w.has("HI")
    w.dst(2 if wide else 1)
    carries_out = w.pd(0)
    w.operands("A B", 1, "raw" if wide or upper else "int")
    w.src(m.COL_C, 2 if wide or upper else 1)
    w.ps(0, default=False)
    first, second = (operand for _, operand, _ in w.sources[:2])
    carry = carries_out or w.has("X")
    if wide or upper:
        flags = carry | _negation(w, m.COL_C, may=not carry) << 1
        names = (m.OP_IMAD_WIDE_S, m.OP_IMAD_WIDE_U) if wide else (m.OP_IMAD_HI_S, m.OP_IMAD_HI_U)
        w.set(names[w.has("U32")], aux0=flags)
    elif carries_out:
        w.set(m.OP_IMAD_CARRY)
    elif second.kind == "imm" and second.value == 1:
        # A product with one is an addition, which the host does faster.
        w.columns[m.COL_B], w.columns[m.COL_MOD_B] = ~0, m.MOD_NONE
        w.set(m.OP_IADD3_X if w.has("X") else m.OP_IADD3)
        w.ps_false(1)
    elif w.has("X"):
        w.set(m.OP_IMAD_X)
    elif is_zero(first) and is_zero(second):
        w.columns[m.COL_A], w.columns[m.COL_MOD_A] = w.columns[m.COL_C], w.columns[m.COL_MOD_C]
        w.set(m.OP_MOV)
    else:
        w.set(m.OP_IMAD)


def lea(w: RowWriter) -> None:
    """LEA: d = (a << n) + b; .HI takes the high word of the shifted 64-bit (c:a), .SX32 of the sign-extended a."""
    w.dst()
    carries_out = w.pd(0)
    w.src(m.COL_A)
    negation = {m.MOD_NONE: 0, m.MOD_INEG: 1, m.MOD_NOT: 2}[w.columns[m.COL_MOD_A]]
    w.columns[m.COL_MOD_A] = m.MOD_NONE
    w.src(m.COL_B)
    form = 0 if not w.has("HI") else 2 if w.has("SX32") else 1
    if form == 1:
        w.src(m.COL_C)
    amount = w.number() & 31
    w.ps(0, default=False)
    plain = not (carries_out or negation or form or w.has("X"))
    w.set(m.OP_LEA if plain else m.OP_LEA_CARRY, aux0=amount, aux1=negation, aux2=form)


def lop3(w: RowWriter) -> None:
    w.operands("pd0 d A B C")
    table = w.number() & 0xFF
    w.ps(0, default=w.has("PAND"))
    if w.writes_predicates():
        w.set(m.OP_LOP3_PRED, aux0=table, aux1=int(w.has("PAND")))
    else:
        _simplest_logic(w, table)


def _simplest_logic(w: RowWriter, table: int) -> None:
    """For a C of zero most tables are one operation of A and B, which the host does faster than a table."""
    by_ab = sum((table >> 2 * k & 1) << k for k in range(4))  # bit 2a + b of the table with c = 0
    simple = {
        0b1000: (m.OP_AND, False, False),
        0b1110: (m.OP_OR, False, False),
        0b0110: (m.OP_XOR, False, False),
        0b0100: (m.OP_AND, False, True),
        0b0010: (m.OP_AND, True, False),
        0b1101: (m.OP_OR, False, True),
        0b1011: (m.OP_OR, True, False),
        0b1001: (m.OP_XOR, False, True),
        0b1100: (m.OP_MOV, False, False),
        0b0011: (m.OP_MOV, True, False),
        0b1010: (m.OP_OR, False, False),
        0b0101: (m.OP_XOR, False, True),
    }
    unmodified = not (w.columns[m.COL_MOD_A] or w.columns[m.COL_MOD_B])
    if w.columns[m.COL_C] != ~0 or w.columns[m.COL_MOD_C] or by_ab not in simple or not unmodified:
        w.set(m.OP_LOP3, aux0=table)
        return
    op, invert_a, invert_b = simple[by_ab]
    if by_ab in (0b1010, 0b0101):
        w.columns[m.COL_A] = ~0  # A does not matter
    w.set(op, mod_a=m.MOD_NOT * invert_a, mod_b=m.MOD_NOT * invert_b)


def shf(w: RowWriter) -> None:
    """Funnel shift of the 64-bit (c:a); the forms that are plain 32-bit shifts become those."""
    w.operands("d A B C")
    right, upper, wrap = w.has("R"), w.has("HI"), w.has("W")
    if right == w.has("L"):
        raise w.refuse("a shift without a direction")
    signed = w.has("S32", "S64")
    bits = 64 if w.has("S64", "U64") else 32
    plain = bits == 32 and not wrap
    if plain and right and upper:
        w.columns[m.COL_A], w.columns[m.COL_MOD_A] = w.columns[m.COL_C], w.columns[m.COL_MOD_C]
        w.set(m.OP_SHR_S if signed else m.OP_SHR_U)
    elif plain and not right and not upper:
        w.set(m.OP_SHL)
    elif plain and right and w.columns[m.COL_C] == ~0 and not w.columns[m.COL_MOD_C]:
        w.set(m.OP_SHR_U)
    else:
        op = (m.OP_SHF_R_S if signed else m.OP_SHF_R_U) if right else m.OP_SHF_L
        w.set(op, aux0=int(upper), aux1=bits, aux2=int(wrap))


def prmt(w: RowWriter) -> None:
    w.set(m.OP_PRMT, aux0=w.choose(_PRMT, m.PRMT_IDX))
    w.operands("d A B C")


def minmax(w: RowWriter) -> None:
    """IMNMX, VIMNMX: the predicate that is true chooses the minimum."""
    if w.has("S64", "U64"):
        _wide_minmax(w)
        return
    w.dst()
    w.operands("pd0 pd1")  # of later GPUs; the compiler mostly leaves them at PT
    chooses = w.writes_predicates()
    packed = w.has("S16x2", "U16x2", "U8x4", "S8x4")
    w.operands("A B ps0", numeric="raw" if packed else "int")
    signed, relu = not w.has("U32", "U16x2"), int(w.has("RELU"))
    if chooses and w.has("U8x4", "S8x4"):
        raise w.refuse("a predicate result")
    if chooses:
        w.set(m.OP_MNMX_CHOICE, aux0=int(signed), aux1=relu, aux2=int(packed))
    elif w.has("U8x4", "S8x4"):
        w.set(m.OP_MNMX_8X4, aux0=int(w.has("S8x4")))
    elif packed:
        w.set(m.OP_MNMX_16X2, aux0=int(signed), aux1=relu)
    elif relu:
        # min or max of three with C = A is that of two, and has the RELU step.
        w.columns[m.COL_C], w.columns[m.COL_MOD_C] = w.columns[m.COL_A], w.columns[m.COL_MOD_A]
        w.set(m.OP_MNMX3_S, aux1=1)
    else:
        w.set(m.OP_MNMX_S if signed else m.OP_MNMX_U)


def _wide_minmax(w: RowWriter) -> None:
    """IMNMX.S64 and .U64; the low words' predicate is there for chains of them and stays !PT."""
    w.operands("pd0 pd1")
    if w.writes_predicates():
        raise w.refuse("a predicate result")
    w.operands("d A B ps0", 2, "raw")
    if w.ps(1) and (w.columns[m.COL_PS1] not in (7, 15) or not w.columns[m.COL_PS1_NEG]):
        raise w.refuse("a comparison that continues another")
    w.set(m.OP_MNMX_WIDE_S if w.has("S64") else m.OP_MNMX_WIDE_U)


def minmax3(w: RowWriter) -> None:
    """VIMNMX3: minimum or maximum of a, b and c; VIADDMNMX: of a + b and c."""
    packed, adds = w.has("S16x2", "U16x2"), w.instruction.opcode == "VIADDMNMX"
    w.operands("d A B C ps0", numeric="raw" if packed else "int")
    signed, relu = not w.has("U32", "U16x2"), int(w.has("RELU"))
    if packed:
        w.set(m.OP_MNMX_16X2 if adds else m.OP_MNMX3_16X2, aux0=int(signed), aux1=relu, aux2=int(adds))
    elif adds:
        w.set(m.OP_ADDMNMX_S if signed else m.OP_ADDMNMX_U, aux1=relu)
    else:
        w.set(m.OP_MNMX3_S if signed else m.OP_MNMX3_U, aux1=relu)


def dot_product(w: RowWriter) -> None:
    """IDP.4A and IDP.2A; the two type modifiers belong to a and b in this order."""
    kinds = [name for name in w.modifiers if name in ("S8", "U8", "S16", "U16")]
    if len(kinds) != 2 or w.has("4A") == w.has("2A"):
        raise w.refuse("a dot product without two types")
    signs = kinds[0].startswith("S") | kinds[1].startswith("S") << 1
    w.set(m.OP_IDP_4A if w.has("4A") else m.OP_IDP_2A, aux0=signs, aux1=int(w.has("HI")))
    w.operands("d A B", numeric="raw")
    w.src(m.COL_C)


def difference(w: RowWriter) -> None:
    """VABSDIFF and VABSDIFF4."""
    signed = int(not w.has("U32", "U8"))
    packed = w.instruction.opcode == "VABSDIFF4"
    w.set(m.OP_VABSDIFF4 if packed else m.OP_VABSDIFF, aux0=signed, aux1=int(w.has("ACC")))
    w.operands("d pd0 A B", numeric="raw")
    w.src(m.COL_C)


def pack_integers(w: RowWriter) -> None:
    """I2IP.{S8,U8,..}.S32[.SAT]: pack two 32-bit integers, saturated or cut, over c."""
    target = w.choose({"S8": 8, "U8": 8, "S16": 16, "U16": 16, "S4": 4, "U4": 4, "S2": 2, "U2": 2}, 0)
    if not target or not w.has("S32"):
        raise w.refuse("a packing that is not from 32-bit integers")
    w.set(m.OP_I2IP, aux0=target, aux1=int(w.modifiers[0].startswith("S")), aux2=int(w.has("SAT")))
    w.operands("d A B")
    above = w.take("reg", "ureg", "imm", "const")
    # R6.24 names the bits of C that stay, which the shift leaves anyway.
    w.columns[m.COL_AUX3] = 16 * ("H1" in above.suffixes)
    w.put(m.COL_C, replace(above, suffixes=()))


def saturate_integer(w: RowWriter) -> None:
    """I2I.{S8,U8,S16,U16}.S32.SAT."""
    target = w.choose({"S8": 8, "U8": 8, "S16": 16, "U16": 16}, 0)
    if not target or not w.has("S32") or not w.has("SAT"):
        raise w.refuse("a conversion that does not saturate a 32-bit integer")
    w.set(m.OP_I2I_SAT, aux0=target, aux1=int(w.modifiers[0].startswith("S")))
    w.operands("d A")


def bit_count(w: RowWriter) -> None:
    """POPC, BREV and FLO (find leading one; signed: leading bit that differs from the sign)."""
    opcode = w.instruction.opcode.removeprefix("U")
    if opcode == "FLO":
        w.set(m.OP_FLO_U if w.has("U32") else m.OP_FLO_S, aux0=int(w.has("SH")))
    else:
        w.set(m.OP_POPC if opcode == "POPC" else m.OP_BREV)
    w.operands("d pd0 A")
    if opcode != "FLO" and w.writes_predicates():
        raise w.refuse("a predicate result")


def isetp(w: RowWriter) -> None:
    extended = w.has("EX")
    rows = 2 if w.has("S64", "U64") else 1
    relation, boolean = w.one_of(COMPARES, NO_RELATION), w.choose(BOOLEANS, m.BOOL_AND)
    op, unsigned = m.OP_ISETP_WIDE if rows == 2 else m.OP_ISETP, w.has("U32", "U64")
    w.set(op, aux0=relation, aux1=int(unsigned), aux2=boolean, aux3=int(extended))
    w.operands("pd0 pd1 A B ps0", rows, "raw" if rows == 2 else "int")
    if extended:
        w.ps(1)


def plop3(w: RowWriter) -> None:
    """PLOP3 of predicates and of signs of registers (R3.SIGN)."""
    w.operands("pd0 pd1")
    signs = 0
    for k, column in enumerate((m.COL_A, m.COL_B, m.COL_C)):
        operand = w.peek()
        if operand is not None and operand.kind in ("reg", "ureg", "const") and operand.suffixes == ("SIGN",):
            signs |= 1 << k
            w.put(column, replace(w.take(), suffixes=()))
        else:
            w.ps(k)
    first, second = w.number(), w.number()
    w.set(m.OP_PLOP3, aux0=first & 0xFF, aux1=second & 0xFF, aux2=signs)


def predicates_to_register(w: RowWriter) -> None:
    """P2R and UP2UR: predicate bits into a byte of a register."""
    w.set(m.OP_P2R, aux0=w.choose(BYTES, 0), aux1=int(w.instruction.opcode == "UP2UR"))
    w.dst()
    _predicate_file(w)
    w.operands("A B")


def register_to_predicates(w: RowWriter) -> None:
    """R2P and UR2UP: bits of a register's byte into predicates."""
    w.set(m.OP_R2P, aux1=int(w.instruction.opcode == "UR2UP"))
    _predicate_file(w)
    source = w.take("reg", "ureg")
    suffixes = [name for name in source.suffixes if name in BYTES]
    w.columns[m.COL_AUX0] = BYTES[suffixes[0]] if suffixes else w.choose(BYTES, 0)
    w.columns[m.COL_A] = w.register_row(source)
    if w.peek() is None:
        w.columns[m.COL_B] = w.immediate_code(0x7F)  # all of them
    else:
        w.src(m.COL_B)


def _predicate_file(w: RowWriter) -> None:
    if w.take("other").value not in ("PR", "UPR"):
        raise w.refuse("something other than the predicate file")
