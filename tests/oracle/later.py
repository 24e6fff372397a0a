"""What floating-point instructions after the H200's architecture mean, for one lane: pairs, three operands, halves,
conversions to and from floats of 6 and 4 bits.

The PTX ISA's add, mul and fma .f32x2, min and max of three, add and fma of a float32 with halves, and cvt.
"""

from fractions import Fraction

from isa import microops as m
from tests.oracle import floats
from tests.oracle.floating import extreme, narrowed, part, rounding
from tests.oracle.floats import BF16, F16, F32, Format
from tests.oracle.lane import WORD, View


def least_of_three(v: View) -> None:
    values = [v.floating(k) for k in range(3)]
    if v.has("FTZ"):
        values = [floats.flush(F32, x) for x in values]
    best = values[0]
    for x in values[1:]:
        best = extreme(F32, best, x, v.condition(0), v.has("NAN"))
    v.put(best)


def pairs(v: View) -> None:
    """FADD2, FMUL2, FFMA2: the same of the lower and of the upper of two registers."""
    function = {"FADD2": floats.add, "FMUL2": floats.multiply, "FFMA2": floats.fma}[v.instruction.opcode]
    result = 0
    for place in (0, 32):
        operands = []
        for k, operand in enumerate(v.sources):
            x = v.raw(k) if operand.suffixes == ("F32",) else v.raw(k, 2) >> place & WORD
            x = x & ~F32.sign if operand.absolute else x
            x = x ^ F32.sign if operand.negate else x
            operands.append(floats.flush(F32, x) if v.has("FTZ") else x)
        total = function(F32, *operands, rounding(v))
        result |= (floats.flush(F32, total) if v.has("FTZ") else total) << place
    v.put(result, 2)


def mixed(v: View) -> None:
    """FHADD: float32 + half; FHFMA: half * half + float32, rounded once."""
    form = BF16 if v.has("BF16") else F16
    fused = v.instruction.opcode == "FHFMA"
    halves = [narrowed(F32, form, part(v, k, form), m.ROUND_NEAREST) for k in ((0, 1) if fused else (1,))]
    if fused:
        v.put(floats.fma(F32, *halves, v.floating(2)))
    else:
        v.put(floats.add(F32, v.floating(0), *halves))


NARROW = {"E2M3": Format(6, 3, 0x1F), "E3M2": Format(6, 2, 0x1F), "E2M1": Format(4, 1, 7)}
"""Of which nothing is infinite; their greatest number stands for NaN."""


def power(v: View, source: Format, bits: int) -> int:
    """UE8M0: the exponent of a power of two, whose sign is not there."""
    bits &= ~source.sign
    if floats.is_nan(source, bits):
        return 255
    if floats.is_infinite(source, bits):
        return 254 if v.has("SATFINITE") else 255
    exact, exponent = floats.value(source, bits), -127
    while Fraction(2) ** (exponent + (not v.has("RP"))) <= exact - Fraction(v.has("RP"), 1 << 200):
        exponent += 1
    return min(exponent + 127, 254 if v.has("SATFINITE") else 255)


def narrow_number(v: View, target: Format, source: Format, bits: int) -> int:
    if floats.is_nan(source, bits):
        return target.nan
    if v.has("RELU") and floats.negative(source, bits):
        return 0
    sign = target.sign if floats.negative(source, bits) else 0
    most = target.sign - 1
    if floats.is_infinite(source, bits):
        return sign | most
    exact = abs(floats.value(source, bits))
    if exact > floats.value(target, most):
        return sign | most
    # These formats have numbers where others have infinity: as half of it, and one power of two more.
    last = exact >= floats.value(target, target.infinity)
    return sign | (floats.encode(target, exact / (1 + last)) + (last << target.fraction))


def narrow_pair(v: View, name: str) -> None:
    """F2FP with one of these formats: a pair of numbers to or from them."""
    form, size = NARROW.get(name), 4 if name == "E2M1" else 8
    if v.has("UNPACK_B"):
        suffix = v.sources[0].suffixes
        pair = v.raw(0) >> (2 * size * int(suffix[0][1]) if suffix else 0)
        halves = []
        for at in (0, size):
            bits = pair >> at & (1 << size) - 1
            if form is None:
                halves.append(0x7FFF if bits == 255 else floats.encode(BF16, Fraction(2) ** (bits - 127)))
                continue
            bits &= (1 << form.bits) - 1
            half = floats.encode(F16, floats.value(form, bits), zero_sign=floats.negative(form, bits))
            halves.append(0 if v.has("RELU") and floats.negative(F16, half) else half)
        v.put(halves[1] << 16 | halves[0])
        return
    source = F32 if v.has("F32") else BF16 if v.has("BF16") else F16
    numbers = [v.floating(1), v.floating(0)] if source is F32 else [v.raw(0) >> at & 0xFFFF for at in (0, 16)]
    low, high = (power(v, source, x) if form is None else narrow_number(v, form, source, x) for x in numbers)
    v.put(v.raw(2 if source is F32 else 1) << 2 * size | high << size | low)


MEANINGS = {"FMNMX3": least_of_three, "FHADD": mixed, "FHFMA": mixed}
MEANINGS |= {name: pairs for name in ("FADD2", "FMUL2", "FFMA2")}
NO_RESULT: set[str] = set()
