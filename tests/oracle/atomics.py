"""What atomics mean, for one lane: the PTX ISA's atom and red, one old value and one or two operands at a time."""

from tests.oracle import floats
from tests.oracle.floating import extreme
from tests.oracle.floats import BF16, F16, F32, F64, Format
from tests.oracle.lane import Undefined, View, signed
from tests.oracle.memory import place

# Format and number of elements of the floating-point types.
_FLOATS: dict[str, tuple[Format, int]] = {
    "F64": (F64, 1), "F32": (F32, 1), "F32x2": (F32, 2), "F32x4": (F32, 4), "F16x2": (F16, 2), "F16x4": (F16, 4),
    "F16x8": (F16, 8), "BF16x2": (BF16, 2), "BF16x4": (BF16, 4), "BF16x8": (BF16, 8),
}  # fmt: skip


def _floating(v: View, form: Format, old: int, b: int) -> int:
    if v.has("FTZ"):
        old, b = floats.flush(form, old), floats.flush(form, b)
    if v.has("MIN", "MAX"):
        return extreme(form, old, b, v.has("MIN"), False)
    total = floats.add(form, old, b)
    if form is F64 and floats.is_nan(form, total):
        raise Undefined("which NaN a sum of doubles in memory is")
    return floats.flush(form, total) if v.has("FTZ") else total


def integer(v: View, bits: int, old: int, b: int, c: int) -> int:
    """The new value; PTX's inc wraps at b, dec starts again at b."""
    ones = (1 << bits) - 1
    is_signed = v.has("S32", "S64")
    x, y = (signed(old, bits), signed(b, bits)) if is_signed else (old, b)
    return {
        "ADD": old + b & ones,
        "MIN": (b if y < x else old),
        "MAX": (b if y > x else old),
        "INC": 0 if old >= b else old + 1,
        "DEC": b if old == 0 or old > b else old - 1,
        "AND": old & b,
        "OR": old | b,
        "XOR": old ^ b,
        "EXCH": b,
        "CAS": c if old == b else old,
        "POPC": old + 1 & ones,
    }[next(name for name in v.instruction.modifiers if name in _OPERATIONS)]


_OPERATIONS = ("POPC", "ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "CAS")


def atomic(v: View) -> None:
    """ATOM, ATOMG, ATOMS give what was there; RED and REDG nothing. POPC.INC has no operand and counts lanes."""
    if v.has("CAST"):
        return compare_and_store(v)
    name = next((name for name in v.instruction.modifiers if name in _FLOATS), "")
    if name:
        form, elements = _FLOATS[name]
        bits = form.bits * elements
    else:
        bits = 128 if v.has("128") else 64 if v.has("64", "S64", "U64") else 32
    space, address = place(v, v.sources[0])
    if space == "local":
        raise Undefined("atomics on local memory are the program's")
    words = bits // 32
    b = 0 if v.has("POPC") else v.raw(1, words)
    c = v.raw(2, words) if v.has("CAS") else 0
    old = v.lane.memory.read(space, address, bits // 8)
    if name:
        new = 0
        for k in range(elements):
            x, y = (whole >> form.bits * k & (1 << form.bits) - 1 for whole in (old, b))
            new |= _floating(v, form, x, y) << form.bits * k
    else:
        new = integer(v, bits, old, b, c)
    v.lane.memory.write(space, address, bits // 8, new)
    if not v.instruction.opcode.startswith("RED"):
        v.put(old, words)
    # With a generic address: the operation was done here. An H200's ATOMG says no to whatever its predicate means.
    v.decide(0, v.instruction.opcode == "ATOM")


def compare_and_store(v: View) -> None:
    """ATOMS.CAST: a compare-and-swap that gives 1 if it stored. On global memory it never does."""
    if v.instruction.opcode != "ATOMS" or v.has("SPIN"):
        raise Undefined(v.instruction.mnemonic)
    space, address = place(v, v.sources[0])
    words = 2 if v.has("64") else 1
    same = v.lane.memory.read(space, address, 4 * words) == v.raw(1, words)
    if same:
        v.lane.memory.write(space, address, 4 * words, v.raw(2, words))
    v.put(int(same))
    v.decide(0, same)


MEANINGS = {name: atomic for name in ("ATOM", "ATOMG", "ATOMS", "RED", "REDG")}
NO_RESULT = {"RED", "REDG"}
