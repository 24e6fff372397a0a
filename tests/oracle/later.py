"""What floating-point instructions after the H200's architecture mean, for one lane: pairs, three operands, halves.

The PTX ISA's add, mul and fma .f32x2, min and max of three, and add and fma of a float32 with halves.
"""

from isa import microops as m
from tests.oracle import floats
from tests.oracle.floating import extreme, narrowed, part
from tests.oracle.floats import BF16, F16, F32
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
            x = v.raw(k, 2) >> place & WORD
            x = x & ~F32.sign if operand.absolute else x
            x = x ^ F32.sign if operand.negate else x
            operands.append(floats.flush(F32, x) if v.has("FTZ") else x)
        total = function(F32, *operands)
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


MEANINGS = {"FMNMX3": least_of_three, "FHADD": mixed, "FHFMA": mixed}
MEANINGS |= {name: pairs for name in ("FADD2", "FMUL2", "FFMA2")}
NO_RESULT: set[str] = set()
