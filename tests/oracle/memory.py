"""What loads, stores, constant loads, asynchronous copies and special registers mean, for one lane.

From the PTX ISA's ld, st, ldc, cp.async, isspacep and special registers; the H200's recording has the rest.
"""

from isa.instruction import RZ, Operand
from tests.oracle.lane import WORD, Undefined, View, signed

_SIZES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_SCALES = {"X4": 4, "X8": 8, "X16": 16}
_SPACES = {"G": "global", "S": "shared", "L": "local"}


def size(v: View) -> int:
    """Bytes that each lane moves."""
    return next((_SIZES[name] for name in v.instruction.modifiers if name in _SIZES), 4)


def place(v: View, operand: Operand) -> tuple[str, int]:
    """Space and address of an operand in brackets.

    .E makes addresses 64 bits wide, but for a register that says .U32; a scale concerns the register only.
    """
    wide = v.has("E")
    address = operand.offset
    if operand.base is not None and operand.base.index != RZ:
        own = operand.base.suffixes
        value = v.lane.registers[operand.base.index]
        if "U32" not in own and (wide or "64" in own):
            value |= v.lane.registers[operand.base.index + 1] << 32
        address += value * next((_SCALES[name] for name in own if name in _SCALES), 1)
    if operand.ubase is not None:
        address += v.lane.uniform[operand.ubase.index]
        if wide:
            address += v.lane.uniform[operand.ubase.index + 1] << 32
    address &= (1 << 64) - 1 if wide else WORD
    return _space(v, address)


def _space(v: View, address: int) -> tuple[str, int]:
    """The opcode names the space, or the address is generic and a window decides."""
    last = v.instruction.opcode[-1]
    if v.instruction.opcode in ("LDS", "STS", "LDL", "STL", "LDG", "STG", "ATOMG", "REDG", "ATOMS"):
        return _SPACES[last], address
    for space, start in v.lane.memory.windows.items():
        if start <= address < start + (1 << 32):
            return space, address - start
    return "global", address


def load(v: View) -> None:
    count = size(v)
    value = v.lane.memory.read(*place(v, v.sources[0]), count)
    v.put(signed(value, 8 * count) if v.has("S8", "S16") else value, max(1, count // 4))


def store(v: View) -> None:
    count = size(v)
    v.lane.memory.write(*place(v, v.sources[0]), count, v.raw(1, max(1, count // 4)))


def load_constant(v: View) -> None:
    """LDC and ULDC: an offset in a bank, from registers too."""
    operand, count = v.sources[0], size(v)
    if v.has("IL", "IS", "ISL"):
        raise Undefined(v.instruction.mnemonic)
    offset = operand.offset
    if operand.base is not None and operand.base.index != RZ:
        offset += v.lane.registers[operand.base.index]
    if operand.ubase is not None:
        offset += v.lane.uniform[operand.ubase.index]
    words = [v.lane.constants[(offset & ~3) + 4 * k] for k in range(max(1, count // 4))]
    value = sum(word << 32 * k for k, word in enumerate(words)) >> 8 * (offset & 3) & (1 << 8 * count) - 1
    v.put(signed(value, 8 * count) if v.has("S8", "S16") else value, len(words))


def copy(v: View) -> None:
    """LDGSTS, PTX cp.async: global to shared memory, and with .ZFILL zeros where a predicate is false.

    The bytes that cp.async does not copy are told by an address that is so far from a multiple of the size.
    """
    shared, distant = v.sources
    count = size(v)
    value = 0
    if v.condition(0):
        address = place(v, distant)[1]
        missing = address % count if v.has("ZFILL") else 0
        value = v.lane.memory.read("global", address - missing, count - missing)
    address = shared.offset + (v.lane.registers[shared.base.index] if shared.base is not None else 0)
    v.lane.memory.write("shared", address & WORD, count, value)


def query_space(v: View) -> None:
    """PTX isspacep. The register is 1 for a global address; for others nothing says what it is."""
    space, _ = place(v, v.sources[0])
    asked = next(_SPACES[name] for name in v.instruction.modifiers if name in _SPACES)
    assert v.result is not None
    if space != "global" and v.result.index != RZ:
        raise Undefined(v.instruction.mnemonic)
    v.put(1)
    v.decide(0, space == asked)


def special_register(v: View) -> None:
    """S2R. S2UR and CS2R do not see what differs between the lanes of a warp: they read zero there."""
    name = str(v.sources[0].value)
    own = v.instruction.opcode == "S2R"
    of_lane = {
        "SR_LANEID": v.lane.number,
        "SR_EQMASK": 1 << v.lane.number,
        "SR_LTMASK": (1 << v.lane.number) - 1,
        "SR_LEMASK": (2 << v.lane.number) - 1,
        "SR_GTMASK": WORD & ~((2 << v.lane.number) - 1),
        "SR_GEMASK": WORD & ~((1 << v.lane.number) - 1),
        "SR_TID": v.lane.number,
        "SR_TID.X": v.lane.number,
        "SR_TID.Y": 0,
        "SR_TID.Z": 0,
        "SRZ": 0,
    }
    if name in of_lane:
        value = of_lane[name] if own else 0
    else:
        value = v.lane.special[name] if v.instruction.opcode != "CS2R" else 0
    v.put(value, 2 if v.instruction.opcode == "CS2R" and not v.has("32") else 1)


MEANINGS = {name: load for name in ("LD", "LDG", "LDS", "LDL")}
MEANINGS |= {name: store for name in ("ST", "STG", "STS", "STL")}
MEANINGS |= {name: load_constant for name in ("LDC", "ULDC", "LDCU")}
MEANINGS |= {name: special_register for name in ("S2R", "S2UR", "CS2R")}
MEANINGS |= {"LDGSTS": copy, "QSPC": query_space}
NO_RESULT = {"ST", "STG", "STS", "STL", "LDGSTS"}
