"""What floating-point, half and conversion instructions mean, for one lane, in exact fractions.

The PTX manual gives the values; which NaN comes out is from recordings of an H200: single and half precision make the
one NaN of all ones, double precision keeps the payload of an operand.
"""

from fractions import Fraction
from math import ceil, floor, trunc

from isa import microops as m
from tests.oracle import floats
from tests.oracle.floats import BF16, F16, F32, F64, Format
from tests.oracle.integers import RELATIONS, combined
from tests.oracle.lane import WORD, Undefined, View, signed

_ROUNDINGS = {
    "RM": m.ROUND_DOWN, "FLOOR": m.ROUND_DOWN, "RP": m.ROUND_UP, "CEIL": m.ROUND_UP, "RZ": m.ROUND_ZERO,
    "TRUNC": m.ROUND_ZERO,
}  # fmt: skip
TO_INTEGER = {m.ROUND_NEAREST: round, m.ROUND_DOWN: floor, m.ROUND_UP: ceil, m.ROUND_ZERO: trunc}
_SCALES = {"D8": -3, "D4": -2, "D2": -1, "M2": 1, "M4": 2, "M8": 3}
FORMATS = {"F16": F16, "BF16": BF16, "F32": F32, "F64": F64}
_INTEGERS = ("U8", "S8", "U16", "S16", "U32", "S32", "U64", "S64")


def rounding(v: View) -> int:
    return next((_ROUNDINGS[name] for name in v.instruction.modifiers if name in _ROUNDINGS), m.ROUND_NEAREST)


def saturated(form: Format, bits: int) -> int:
    """Limited to [0, 1]; NaN becomes zero."""
    if floats.is_nan(form, bits) or floats.order_key(form, bits) <= 0:
        return 0
    return min(bits, floats.one(form))


def scaled_product(a: int, b: int, scale: int, way: int) -> int:
    """a * b * 2**scale in single precision, rounded once."""
    if any(floats.is_nan(F32, x) or floats.is_infinite(F32, x) for x in (a, b)):
        return floats.multiply(F32, a, b, way)
    minus = floats.negative(F32, a) != floats.negative(F32, b)
    exact = floats.value(F32, a) * floats.value(F32, b) * Fraction(2) ** scale
    return floats.encode(F32, exact, way, minus)


def arithmetic(v: View) -> None:
    """FADD, FMUL, FFMA. .FTZ flushes operands and result; .FMZ does too, and zero times anything is zero."""
    kind = v.instruction.opcode.removeprefix("U")[:4]
    operands = [v.floating(k) for k in range(3 if kind == "FFMA" else 2)]
    flushes, way = v.has("FTZ", "FMZ"), rounding(v)
    if flushes:
        operands = [floats.flush(F32, x) for x in operands]
    zero = v.has("FMZ") and any(x & ~F32.sign == 0 for x in operands[:2])
    if kind == "FADD":
        result = floats.add(F32, *operands, way)
    elif kind == "FMUL":
        scale = next((_SCALES[name] for name in v.instruction.modifiers if name in _SCALES), 0)
        result = 0 if zero else scaled_product(*operands, scale, way)
    else:
        result = floats.add(F32, 0, operands[2], way) if zero else floats.fma(F32, *operands, way)
    result = floats.flush(F32, result) if flushes else result
    v.put(saturated(F32, result) if v.has("SAT") else result)


def select(v: View) -> None:
    chosen = v.floating(0) if v.condition(0) else v.floating(1)
    v.put(floats.flush(F32, chosen) if v.has("FTZ") else chosen)


def extreme(form: Format, a: int, b: int, smaller: bool, nan_wins: bool) -> int:
    """IEEE 754 minimumNumber or maximumNumber, or with `nan_wins` minimum or maximum; -0 is less than +0."""
    unordered = [floats.is_nan(form, x) for x in (a, b)]
    if all(unordered) or (nan_wins and any(unordered)):
        return form.nan
    if any(unordered):
        return b if unordered[0] else a
    pair = sorted((a, b), key=lambda x: (floats.order_key(form, x), not floats.negative(form, x)))
    return pair[0] if smaller else pair[1]


def minmax(v: View) -> None:
    a, b = v.floating(0), v.floating(1)
    if v.has("FTZ"):
        a, b = floats.flush(F32, a), floats.flush(F32, b)
    best = extreme(F32, a, b, v.condition(0), v.has("NAN"))
    if v.has("XORSIGN") and not floats.is_nan(F32, best):
        best = best & ~F32.sign | (v.raw(0) ^ v.raw(1)) & F32.sign
    v.put(best)


def holds(v: View, form: Format, a: int, b: int) -> bool:
    """The relation that the modifiers name; those in U and NAN hold for NaN, the others do not."""
    name = next(each for each in v.instruction.modifiers if each in RELATIONS)
    found = floats.compare(form, a, b)
    if found == m.COMPARE_UNORDERED:
        return name in ("NAN", "T") or name.endswith("U")
    base = name.removesuffix("U")
    return {
        m.COMPARE_LT: base in ("LT", "LE", "NE", "NUM", "T"),
        m.COMPARE_EQ: base in ("EQ", "LE", "GE", "NUM", "T"),
        m.COMPARE_GT: base in ("GT", "GE", "NE", "NUM", "T"),
    }[found]


def compare(v: View) -> None:
    """FSETP, DSETP: the second result is the first with the relation negated. FSET: all ones, or 1.0 for .BF."""
    if v.has("MIN", "MAX"):
        raise Undefined(v.instruction.mnemonic)
    double = v.instruction.opcode.startswith("D")
    form, bits = (F64, 64) if double else (F32, 32)
    a, b = v.floating(0, bits), v.floating(1, bits)
    if v.has("FTZ"):
        a, b = floats.flush(form, a), floats.flush(form, b)
    other = v.condition(0)
    outcome = holds(v, form, a, b)
    if v.instruction.opcode in ("FSET", "UFSET"):
        v.put((floats.one(F32) if v.has("BF") else WORD) if combined(v, outcome, other) else 0)
        return
    opposite = combined(v, not outcome, other)
    v.decide(0, combined(v, outcome, other))
    v.decide(1, opposite)


def double(v: View) -> None:
    """DADD, DMUL, DFMA; of NaN operands the second wins, then the third, then the first."""
    kind, way = v.instruction.opcode, rounding(v)
    count = 3 if kind == "DFMA" else 2
    for k in (*range(1, count), 0):
        if floats.is_nan(F64, v.raw(k, 2)):
            v.put(v.raw(k, 2) | 1 << 51, 2)  # quiet; its sign is not changed by '-' or bars
            return
    operands = [v.floating(k, 64) for k in range(count)]
    function = {"DADD": floats.add, "DMUL": floats.multiply, "DFMA": floats.fma}[kind]
    v.put(function(F64, *operands, way), 2)


# --- conversions -----------------------------------------------------------------------------------------------------
def part(v: View, k: int, form: Format) -> int:
    """Source `k` in its format; a half may be the upper one. An immediate has its sign already."""
    if form.bits >= 32:
        return v.floating(k, form.bits)
    operand, word = v.sources[k], v.raw(k)
    half = word >> 16 if any(name.startswith("H1") for name in operand.suffixes) else word & 0xFFFF
    if operand.kind == "fimm":
        return half
    return (half & 0x7FFF if operand.absolute else half) ^ (0x8000 if operand.negate else 0)


def f2i(v: View) -> None:
    kind = next((name for name in v.instruction.modifiers if name in _INTEGERS), "S32")
    form = next((FORMATS[name] for name in v.instruction.modifiers if name in FORMATS), F32)
    bits, is_signed = int(kind[1:]), kind[0] == "S"
    x = part(v, 0, form)
    if v.has("FTZ"):
        x = floats.flush(form, x)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    if floats.is_nan(form, x):
        result = 0 if v.has("NTZ") else 1 << bits - 1
    elif floats.is_infinite(form, x):
        result = low if floats.negative(form, x) else high
    else:
        result = min(max(TO_INTEGER[rounding(v)](floats.value(form, x)), low), high)
    v.put(result, 2 if bits == 64 else 1)


def i2f(v: View) -> None:
    form = next((FORMATS[name] for name in v.instruction.modifiers if name in FORMATS), F32)
    kind = next((name for name in v.instruction.modifiers if name in _INTEGERS), "S32")
    bits = int(kind[1:])
    value = v.raw(0, 2) if bits == 64 else v.word(0)
    byte = next((int(name[1]) for name in v.sources[0].suffixes if name in ("B0", "B1", "B2", "B3")), 0)
    half = any(name.startswith("H1") for name in v.sources[0].suffixes)
    value = value >> (16 if half else 8 * byte) & (1 << bits) - 1
    exact = signed(value, bits) if kind[0] == "S" else value
    v.put(floats.encode(form, Fraction(exact), rounding(v)), 2 if form is F64 else 1)


def frnd(v: View) -> None:
    form = next((FORMATS[name] for name in v.instruction.modifiers if name in FORMATS), F32)
    x = part(v, 0, form)
    if v.has("FTZ"):
        x = floats.flush(form, x)
    if floats.is_nan(form, x):
        x = v.raw(0, 2) | 1 << 51 if form is F64 else form.nan
    elif not floats.is_infinite(form, x):
        whole = Fraction(TO_INTEGER[rounding(v)](floats.value(form, x)))
        x = floats.encode(form, whole, zero_sign=floats.negative(form, x))
    v.put(x, 2 if form is F64 else 1)


def narrowed(target: Format, source: Format, bits: int, way: int) -> int:
    """A number in another format, NaN apart."""
    sign = target.sign if floats.negative(source, bits) else 0
    if floats.is_nan(source, bits):
        return target.nan
    if floats.is_infinite(source, bits):
        return target.infinity | sign
    return floats.encode(target, floats.value(source, bits), way, bool(sign))


# --- packed halves ---------------------------------------------------------------------------------------------------
_SELECT = {"H0_H0": (0, 0), "H1_H1": (1, 1), "H1_H0": (0, 1)}


class Pairs:
    """The sources of a packed instruction as pairs of halves, low first; two printed immediates are one source."""

    def __init__(self, v: View):
        self.form = BF16 if v.has("BF16_V2") else F16
        self.values: list[tuple[int, int]] = []
        self.own: list[tuple[int, int]] = []  # before modifiers
        k = 0
        while k < len(v.sources):
            operand = v.sources[k]
            word = v.raw(k)
            low, high = _SELECT[operand.suffixes[0]] if operand.suffixes else (0, 1)
            halves = [word >> 16 * low & 0xFFFF, word >> 16 * high & 0xFFFF]
            self.own.append((halves[0], halves[1]))
            if operand.kind == "fimm":
                k += 1
            else:
                halves = [(x & 0x7FFF if operand.absolute else x) ^ (0x8000 if operand.negate else 0) for x in halves]
            if v.has("FTZ", "FMZ"):
                halves = [floats.flush(self.form, x) for x in halves]
            self.values.append((halves[0], halves[1]))
            k += 1


def packed(v: View) -> None:
    pairs = Pairs(v)
    form = pairs.form
    function = {"HADD2": floats.add, "HMUL2": floats.multiply, "HFMA2": floats.fma}[v.instruction.opcode]
    if v.has("F32"):
        wide = [narrowed(F32, form, halves[0], m.ROUND_NEAREST) for halves in pairs.values]
        total = floats.add(F32, *wide)
        v.put(saturated(F32, total) if v.has("SAT") else total)
        return
    result = 0
    for place in (0, 1):
        operands = [halves[place] for halves in pairs.values]
        if v.has("FMZ") and any(x & ~form.sign == 0 for x in operands[:2]):
            operands[:2] = [0, 0]
        x = function(form, *operands)
        x = floats.flush(form, x) if v.has("FTZ", "FMZ") else x
        x = saturated(form, x) if v.has("SAT") else x
        if v.has("RELU") and floats.negative(form, x) and not floats.is_nan(form, x):
            x = 0
        result |= x << 16 * place
    v.put(result)


def packed_minmax(v: View) -> None:
    pairs = Pairs(v)
    a, b = pairs.values
    results = [extreme(pairs.form, a[k], b[k], v.condition(0), v.has("NAN")) for k in (0, 1)]
    if v.has("XORSIGN"):
        signs = [(x ^ y) & 0x8000 for x, y in zip(pairs.own[0], pairs.own[1], strict=True)]
        results = [
            x if floats.is_nan(pairs.form, x) else x & 0x7FFF | sign for x, sign in zip(results, signs, strict=True)
        ]
    v.put(results[0] | results[1] << 16)


def packed_compare(v: View) -> None:
    """HSETP2: low half, high half. HSET2: all ones or 1.0 in each half."""
    pairs = Pairs(v)
    a, b = pairs.values
    outcomes = [combined(v, holds(v, pairs.form, a[k], b[k]), v.condition(0)) for k in (0, 1)]
    if v.instruction.opcode == "HSETP2":
        v.decide(0, outcomes[0])
        v.decide(1, outcomes[1])
        return
    true = floats.one(pairs.form) if v.has("BF") else 0xFFFF
    v.put(sum(true << 16 * k for k in (0, 1) if outcomes[k]))


MEANINGS = {
    "FADD": arithmetic, "FMUL": arithmetic, "FFMA": arithmetic, "FADD32I": arithmetic, "FMUL32I": arithmetic,
    "FFMA32I": arithmetic, "FSEL": select, "FMNMX": minmax, "FSET": compare, "FSETP": compare, "DSETP": compare,
    "DADD": double, "DMUL": double, "DFMA": double, "F2I": f2i, "I2F": i2f, "I2FP": i2f, "FRND": frnd,
    "HADD2": packed, "HMUL2": packed, "HFMA2": packed, "HMNMX2": packed_minmax, "HSETP2": packed_compare,
    "HSET2": packed_compare,
}  # fmt: skip
NO_RESULT = {"FSETP", "DSETP", "HSETP2"}
