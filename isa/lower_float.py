"""Lowering of floating-point, half-precision, conversion and transcendental instructions."""

from __future__ import annotations

from dataclasses import replace

from isa import microops as m
from isa.instruction import Operand
from isa.lower_writer import BOOLEANS, BYTES, COMPARES, NO_RELATION, RowWriter, constants, is_zero

_ROUNDINGS = {"RN": m.ROUND_NEAREST, "RM": m.ROUND_DOWN, "RP": m.ROUND_UP, "RZ": m.ROUND_ZERO}
_ROUNDINGS |= {"FLOOR": m.ROUND_DOWN, "CEIL": m.ROUND_UP, "TRUNC": m.ROUND_ZERO}
_SCALES = {"D8": -3, "D4": -2, "D2": -1, "M2": 1, "M4": 2, "M8": 3}
_INTEGERS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "U32": 32, "S32": 32, "U64": 64, "S64": 64}
_FLOATS = {"F16": 16, "BF16": 16, "F32": 32, "F64": 64}
_HALF_FORMATS = {"F16": m.HALF_F16, "BF16": m.HALF_BF16, "BF16_V2": m.HALF_BF16}
_NARROW = constants("HALF_", "F16 BF16") | constants("NARROW_", "E4M3 E5M2 TF32 E2M3 E3M2 E2M1 E8")
_FLAGS = constants("FLAG_", "FTZ SAT NAN XORSIGN NTZ RELU SATFINITE OOB")
_FLAGS["FMZ"] = m.FLAG_FMZ | m.FLAG_FTZ
_MUFU = constants("OP_MUFU_", "RCP RSQ SQRT EX2 LG2 SIN COS TANH RCP64H RSQ64H")


def flags(w: RowWriter) -> int:
    """FLAG_* bits of the modifiers."""
    return sum(bit for name, bit in _FLAGS.items() if w.has(name))


def rounding(w: RowWriter) -> int:
    return w.choose(_ROUNDINGS, m.ROUND_NEAREST)


def float_arithmetic(w: RowWriter) -> None:
    """FADD, FMUL, FFMA, their forms with an immediate in the name (FADD32I ...), and DADD, DMUL, DFMA."""
    opcode = w.instruction.opcode.removeprefix("U").removesuffix("32I")
    bits, way, scale = flags(w), rounding(w), w.choose(_SCALES, 0)
    form = "_MODE" if bits & ~m.FLAG_FTZ or way or scale else "_FTZ" if bits else ""
    w.set(getattr(m, f"OP_{opcode}{form}"), aux0=bits if form == "_MODE" else 0, aux1=way, aux2=scale)
    w.operands("d A B C" if opcode.endswith("FMA") else "d A B", 2 if opcode.startswith("D") else 1, "float")


def float_minmax(w: RowWriter) -> None:
    """FMNMX and, of three numbers, FMNMX3."""
    three = w.instruction.opcode == "FMNMX3"
    w.set(m.OP_FMNMX3 if three else m.OP_FMNMX, aux0=flags(w))
    w.operands("d A B C ps0" if three else "d A B ps0", numeric="float")


def paired_arithmetic(w: RowWriter) -> None:
    """FADD2, FMUL2, FFMA2: two float32 in a pair of registers, or (.F32) one that stands for both."""
    opcode = w.instruction.opcode
    w.set(getattr(m, "OP_" + opcode), aux0=flags(w), aux1=rounding(w))
    w.dst(2)
    for k, column in enumerate(_SLOTS[: 3 if opcode == "FFMA2" else 2]):
        operand = w.take("reg", "ureg", "const")
        if operand.suffixes not in (("F32x2", "HI_LO"), ("F32",), ()):
            raise w.refuse("a choice of words that is not known")
        one = operand.suffixes == ("F32",)
        w.columns[m.COL_AUX3] |= one << k
        w.put(column, replace(operand, suffixes=()), 2 - one, "float")


def compare(w: RowWriter) -> None:
    """FSETP, DSETP (predicates) and FSET, DSET (a register)."""
    opcode = w.instruction.opcode.removeprefix("U")
    rows = 2 if opcode.startswith("D") else 1
    # MIN and MAX are DSETP's alone: PD0 chooses the operand, PD1 says that both are NaN; see exec_double.
    relation = w.choose({"MIN": m.COMPARE_MIN, "MAX": m.COMPARE_MAX}, -1)
    relation = w.one_of(COMPARES, NO_RELATION) if relation < 0 else relation
    op = getattr(m, "OP_" + opcode)
    w.set(op, aux0=relation, aux1=flags(w), aux2=w.choose(BOOLEANS, m.BOOL_AND), aux3=int(w.has("BF")))
    w.operands("d" if op == m.OP_FSET else "pd0 pd1")
    w.operands("A B ps0", rows, "float")


def transcendental(w: RowWriter) -> None:
    w.set(w.one_of(_MUFU, "a function that is not known"), aux0=flags(w))
    w.dst()
    form = w.choose(_HALF_FORMATS, -1)
    if form < 0:
        w.src(m.COL_A, numeric="float")
        return
    if not w.has("EX2", "TANH"):
        raise w.refuse("a function of a half that is not known")
    w.columns[m.COL_AUX0] |= (m.FLAG_BF16 | m.FLAG_TO_BF16) * (form == m.HALF_BF16)
    w.columns[m.COL_AUX1] = 1 + form
    half_source(w, m.COL_A, m.COL_AUX5)


def float_to_integer(w: RowWriter) -> None:
    """F2I[.FTZ][.type][.source type][.rounding][.NTZ]; the result is S32 and the source F32 unless said."""
    kind, source = _integer_kind(w), w.choose(_FLOATS, 32)
    form, bits = flags(w) | m.FLAG_BF16 * w.has("BF16"), _INTEGERS[kind]
    w.set(m.OP_F2I, aux0=form, aux1=rounding(w), aux2=bits, aux3=int(kind.startswith("S")), aux4=source)
    _from_float(w, bits, source)


def _integer_kind(w: RowWriter) -> str:
    return next((name for name in w.modifiers if name in _INTEGERS), "S32")


def integer_to_float(w: RowWriter) -> None:
    """I2F, I2FP: the first type is the result (F32 unless said), the second the source (S32 unless said)."""
    kind, target = _integer_kind(w), w.choose(_FLOATS, 32)
    form, bits = m.FLAG_TO_BF16 * w.has("BF16"), _INTEGERS[kind]
    w.set(m.OP_I2F, aux0=form, aux1=rounding(w), aux2=target, aux3=int(kind.startswith("S")), aux4=bits)
    w.dst(2 if target == 64 else 1)
    operand = w.peek()
    suffixes = operand.suffixes if operand is not None else ()
    if suffixes and operand is not None and suffixes[0] in BYTES and not (operand.negate or operand.invert):
        w.columns[m.COL_AUX5] = BYTES[suffixes[0]]
        w.columns[m.COL_A] = w.register_row(w.take("reg", "ureg"))
    elif bits == 64:
        w.src(m.COL_A, 2, "upper")
    else:
        w.src(m.COL_A)


def float_to_float(w: RowWriter) -> None:
    """F2F.result.source."""
    kinds = [name for name in w.modifiers if name in _FLOATS]
    if len(kinds) != 2:
        raise w.refuse("a conversion without two known types")
    target, source = _FLOATS[kinds[0]], _FLOATS[kinds[1]]
    forms = m.FLAG_TO_BF16 * (kinds[0] == "BF16") | m.FLAG_BF16 * (kinds[1] == "BF16")
    w.set(m.OP_F2F, aux0=flags(w) | forms, aux1=rounding(w), aux2=target, aux4=source)
    _from_float(w, target, source)


def round_to_integral(w: RowWriter) -> None:
    bits = w.choose(_FLOATS, 32)
    forms = (m.FLAG_BF16 | m.FLAG_TO_BF16) * w.has("BF16")
    w.set(m.OP_FRND, aux0=flags(w) | forms, aux1=rounding(w), aux2=bits)
    _from_float(w, bits, bits)


def _from_float(w: RowWriter, target: int, source: int) -> None:
    """A result of so many bits, and a float of so many."""
    w.dst(2 if target == 64 else 1)
    if source == 16:
        half_source(w, m.COL_A, m.COL_AUX5)
    else:
        w.src(m.COL_A, source // 32, "float")


def pack_floats(w: RowWriter) -> None:
    """F2FP.result.source.way: PACK_AB, PACK_B, MERGE_C, UNPACK_B and combinations; see PACK_* of microops."""
    kinds = [name for name in w.modifiers if name in _NARROW or name == "F32"]
    if len(kinds) < 2 and not w.has("UNPACK_B"):  # older GPUs print no more than differs from F16.F32
        kinds = [*kinds, "F32"] if kinds else ["F16", "F32"]
    if len(kinds) != 2 or kinds[0] == "F32":
        raise w.refuse("a conversion without two known types")
    form, narrow = _NARROW[kinds[0]], kinds[0] not in ("F16", "BF16", "TF32")
    merges = w.has("MERGE_C", "PACK_AB_MERGE_C", "UNPACK_B_MERGE_C")
    if w.has("UNPACK_B", "UNPACK_B_MERGE_C"):
        way = m.UNPACK_NARROW if narrow else m.UNPACK_WIDEN
    elif w.has("PACK_AB", "PACK_AB_MERGE_C"):
        way = m.PACK_AB
    elif w.has("PACK_B"):
        way = m.PACK_WORD
    elif merges:
        way = m.PACK_ONE
    else:
        raise w.refuse("a way of packing that is not known")
    of = _NARROW.get(kinds[1], 0)
    op = m.OP_F2FP_NARROW if max(form, of) > m.NARROW_TF32 else m.OP_F2FP
    w.set(op, aux0=flags(w), aux1=rounding(w), aux2=form, aux3=way, aux4=of)
    w.dst()
    w.columns[m.COL_C] = ~0
    if way == m.PACK_AB:
        w.src(m.COL_A, numeric="float")
    if kinds[1] == "F32":
        w.src(m.COL_B, numeric="float")
    else:
        half_source(w, m.COL_B, m.COL_AUX5, BYTES if of == m.NARROW_E2M1 else _ONE_HALF)
    if merges:
        w.src(m.COL_C, numeric="raw")


def pack_as_integers(w: RowWriter) -> None:
    """F2IP.{U8,S8}.F32: two float32 to bytes, over C."""
    kind = next((name for name in w.modifiers if name in ("U8", "S8", "U16", "S16")), None)
    if kind is None or not w.has("F32"):
        raise w.refuse("a packing that is not from float32")
    w.set(m.OP_F2IP, aux0=flags(w), aux1=rounding(w), aux2=_INTEGERS[kind], aux3=int(kind.startswith("S")))
    w.operands("d A B", numeric="float")
    w.src(m.COL_C, numeric="raw")


_ONE_HALF = {"H0_H0": 0, "H1_H1": 1, "H0": 0, "H1": 1}


def half_source(w: RowWriter, column: int, selector: int, choices: dict[str, int] = _ONE_HALF) -> None:
    """A single half: .H0_H0 (the default) or .H1_H1; the selector column gets 0 or 1. Or a byte."""
    operand = w.take("reg", "ureg", "const", "fimm")
    w.columns[selector] = _put_halves(w, column, operand, choices)
    w.sources.append((column, operand, 1))


def _put_halves(w: RowWriter, column: int, operand: Operand, choices: dict[str, int]) -> int:
    """Fills a column and its modifiers. Returns which halves the operand's suffix chooses, 0 without one."""
    if len(operand.suffixes) > 1 or any(name not in choices for name in operand.suffixes):
        raise w.refuse("an operand suffix that is not known")
    w.columns[column] = w.operand_code(operand)
    w.columns[column + 1] = m.MOD_FABS * operand.absolute + m.MOD_FNEG * operand.negate
    return choices[operand.suffixes[0]] if operand.suffixes else 0


# --- packed halves ---------------------------------------------------------------------------------------------------
_HALF_SELECT = {"H1_H0": 0, "H0_H0": 1, "H1_H1": 2}
_SLOTS = (m.COL_A, m.COL_B, m.COL_C)


def half_arithmetic(w: RowWriter) -> None:
    """HADD2, HMUL2, HFMA2, HMNMX2 of two halves; HFMA2.MMA of -RZ * RZ + constant is a move of the constant."""
    opcode = w.instruction.opcode
    op = m.OP_HADD2_F32 if w.has("F32") else getattr(m, "OP_" + opcode)  # F32: of HADD2 alone
    w.set(op, aux0=flags(w), aux1=w.choose(_HALF_FORMATS, m.HALF_F16), tensor=int(w.has("MMA")))
    w.dst()
    first, second = w.peek(0), w.peek(1)
    half2_sources(w, *_SLOTS[: 3 if opcode == "HFMA2" else 2])
    if op == m.OP_HMNMX2:
        w.ps(0)
    zeros = first is not None and second is not None and is_zero(first) and is_zero(second)
    if op == m.OP_HFMA2 and zeros and not w.columns[m.COL_AUX0] and not w.columns[m.COL_AUX2] >> 4:
        _half_constant(w)


def _half_constant(w: RowWriter) -> None:
    """0 * 0 + c is c itself, unless c is a NaN or a zero whose sign the product can change."""
    bits = w.instruction.immediate_bits
    halves = (bits & 0xFFFF, bits >> 16)
    signed_zero_or_nan = any(half == 0x8000 or half & 0x7FFF > 0x7C00 for half in halves)
    third = w.sources[-1][1]
    if third.kind == "fimm" and not signed_zero_or_nan:
        w.columns[m.COL_A], w.columns[m.COL_MOD_A] = w.immediate_code(bits), m.MOD_NONE
        w.columns[m.COL_B] = w.columns[m.COL_C] = ~0
        w.columns[m.COL_MOD_B] = w.columns[m.COL_MOD_C] = m.MOD_NONE
        w.set(m.OP_MOV, aux1=0, aux2=0)


def half2_sources(w: RowWriter, *columns: int) -> None:
    """Pairs of halves; two printed immediates are one operand, whose bits the encoding holds."""
    for column in columns:
        operand = w.take("reg", "ureg", "const", "fimm")
        if operand.kind == "fimm":
            w.take("fimm")
            w.columns[column] = w.immediate_code(w.instruction.immediate_bits)
        else:
            w.columns[m.COL_AUX2] |= _put_halves(w, column, operand, _HALF_SELECT) << 2 * _SLOTS.index(column)
        w.sources.append((column, operand, 1))


def mixed_arithmetic(w: RowWriter) -> None:
    """FHADD: float32 + half; FHFMA: half * half + float32."""
    fused = w.instruction.opcode == "FHFMA"
    w.set(m.OP_FHFMA if fused else m.OP_FHADD, aux0=flags(w), aux1=w.choose(_HALF_FORMATS, m.HALF_F16))
    w.dst()
    columns = (m.COL_A, m.COL_B) if fused else (m.COL_B,)
    if not fused:
        w.src(m.COL_A, numeric="float")
    for column in columns:
        half_source(w, column, m.COL_AUX5)
        # A single half stands where packed arithmetic has the same half twice.
        w.columns[m.COL_AUX2] |= (1 + w.columns[m.COL_AUX5]) << 2 * (column != m.COL_A)
    w.columns[m.COL_AUX5] = 0
    if fused:
        w.src(m.COL_C, numeric="float")


def half_compare(w: RowWriter) -> None:
    """HSETP2 (two predicates, low half first) and HSET2 (two halves: 1.0 with .BF, else all ones)."""
    relation = w.one_of(COMPARES, NO_RELATION)
    form, boolean = w.choose(_HALF_FORMATS, m.HALF_F16), w.choose(BOOLEANS, m.BOOL_AND)
    op = getattr(m, "OP_" + w.instruction.opcode)
    w.set(op, aux0=flags(w), aux1=form, aux3=relation, aux4=boolean, aux5=int(w.has("BF")))
    w.operands("pd0 pd1" if op == m.OP_HSETP2 else "d")
    half2_sources(w, m.COL_A, m.COL_B)
    w.ps(0)
