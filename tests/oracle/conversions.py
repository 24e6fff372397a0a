"""What conversions between floating-point formats mean, for one lane: the PTX ISA's cvt and cvt.pack.

What the manual leaves open is from recordings of an H200: which NaN comes out, the order of the halves, and what .FTZ
flushes.
"""

from dataclasses import dataclass

from tests.oracle import floats
from tests.oracle.floating import FORMATS, TO_INTEGER, narrowed, part, rounding
from tests.oracle.floats import BF16, F16, F32, F64, Format
from tests.oracle.lane import View
from tests.oracle.later import NARROW, narrow_pair


@dataclass(frozen=True)
class NoInfinity(Format):
    """Exponents of all ones are numbers too, but for the one NaN, in the place where infinity would begin."""

    @property
    def infinity(self) -> int:
        return self.nan


E4M3, E5M2 = NoInfinity(8, 3, 0x7F), Format(8, 2, 0x7F)
TF32 = Format(19, 10, 0x3FFFF)
_EIGHT = {"E4M3": E4M3, "E5M2": E5M2}


def with_payload(target: Format, source: Format, bits: int) -> int:
    """A quiet NaN with the upper bits of the source's; its sign goes along."""
    fraction = bits & (1 << source.fraction) - 1
    kept = fraction << target.fraction if source.fraction < target.fraction else fraction
    kept = kept >> source.fraction - target.fraction if source.fraction > target.fraction else kept >> source.fraction
    sign = target.sign if floats.negative(source, bits) else 0
    return sign | target.exponent_ones << target.fraction | 1 << target.fraction - 1 | kept


def f2f(v: View) -> None:
    """Target, then source. .FTZ flushes source and result, halves too."""
    names = [name for name in v.instruction.modifiers if name in FORMATS]
    target, source = FORMATS[names[0]], FORMATS[names[1]]
    x = part(v, 0, source)
    if floats.is_nan(source, x):
        double = F64 in (target, source)
        v.put(with_payload(target, source, x) if double else target.nan, target.bits // 32 or 1)
        return
    if v.has("FTZ"):
        x = floats.flush(source, x)
    result = narrowed(target, source, x, rounding(v))
    if v.has("FTZ"):
        result = floats.flush(target, result)
    v.put(result, target.bits // 32 or 1)


def packed(v: View, target: Format, source: Format, bits: int) -> int:
    """A number of a pair: .SATFINITE stays below infinity, .RELU makes negative numbers zero."""
    result = narrowed(target, source, bits, rounding(v))
    if floats.is_nan(source, bits):
        return target.nan
    if v.has("SATFINITE") and result & ~target.sign >= target.infinity:
        result = result & target.sign | target.infinity - 1
    return 0 if v.has("RELU") and floats.negative(target, result) else result


def f2fp(v: View) -> None:
    """Two numbers beside each other, the first above; .MERGE_C puts the last source's lower half above them."""
    for name in (*NARROW, "E8"):
        if v.has(name):
            narrow_pair(v, name)
            return
    eight = next((_EIGHT[name] for name in v.instruction.modifiers if name in _EIGHT), None)
    sixteen = BF16 if v.has("BF16") else F16
    if v.has("UNPACK_B") and eight:
        word = v.raw(0) >> (16 if v.sources[0].suffixes else 0)
        values = [packed(v, sixteen, eight, word >> s & 0xFF) for s in (0, 8)]
        v.put(values[1] << 16 | values[0])
        return
    if v.has("UNPACK_B_MERGE_C") and eight:
        values = [packed(v, eight, sixteen, v.raw(0) >> s & 0xFFFF) for s in (0, 16)]
        v.put(v.raw(1) << 16 | values[1] << 8 | values[0])
        return
    target = eight or sixteen
    if v.has("PACK_AB", "PACK_AB_MERGE_C"):
        values = [packed(v, target, F32, v.floating(k)) for k in (1, 0)]
        above = v.raw(2) << 16 if v.has("PACK_AB_MERGE_C") else 0
        v.put(above | values[1] << target.bits | values[0])
    elif v.has("TF32"):
        v.put(packed(v, TF32, F32, v.floating(0)) << 13)
    else:
        v.put(v.raw(1) << 16 | packed(v, target, F32, v.floating(0)))


def f2ip(v: View) -> None:
    """Two bytes as I2IP has them: the second source lowest, then the first, then the third's low half."""
    is_signed = v.has("S8")
    low, high = (-128, 127) if is_signed else (0, 255)
    values = []
    for k in (1, 0):
        x = v.floating(k)
        if floats.is_nan(F32, x):
            values.append(0 if v.has("NTZ") else 0x80)
        elif floats.is_infinite(F32, x):
            values.append((low if floats.negative(F32, x) else high) & 0xFF)
        else:
            way = rounding(v)
            values.append(min(max(TO_INTEGER[way](floats.value(F32, x)), low), high) & 0xFF)
    v.put(v.raw(2) << 16 | values[1] << 8 | values[0])


MEANINGS = {"F2F": f2f, "F2FP": f2fp, "F2IP": f2ip}
NO_RESULT: set[str] = set()
