"""What integer, logic and move instructions mean, for one lane, in Python's unbounded integers."""

from tests.oracle.lane import WORD, Undefined, View, signed


def mov(v: View) -> None:
    """MOV; its mask has a bit for each lane of a group of four."""
    if v.has("64"):
        v.put(v.raw(0, 2), 2)
        return
    if len(v.sources) < 2 or v.raw(1) >> v.lane.number % 4 & 1:
        v.put(v.word(0))


def sel(v: View) -> None:
    if v.has("64"):
        v.put(v.raw(0 if v.condition(0) else 1, 2), 2)
    else:
        v.put(v.word(0) if v.condition(0) else v.word(1))


def _terms(v: View, bits: int) -> int:
    """Sum of the sources in `bits` bits; a subtraction adds the complement and one, so its carry means no borrow."""
    mask = (1 << bits) - 1
    total = 0
    for k, operand in enumerate(v.sources):
        # A 64-bit addition extends the sign of an immediate.
        value = int(operand.value or 0) & mask if operand.kind == "imm" else v.raw(k, bits // 32)
        if operand.negate:
            total += (~value & mask) + 1
        else:
            total += ~value & mask if operand.invert else value
    return total


def iadd3(v: View) -> None:
    bits = 64 if v.has("64") else 32
    total = _terms(v, bits)
    if v.has("X"):
        total += v.condition(0, False) + v.condition(1, False)
    v.put(total, bits // 32)
    v.decide(0, total >> bits >= 1)
    v.decide(1, total >> bits >= 2)


def viadd(v: View) -> None:
    if v.has("16x2"):
        low, high = (
            sum(-(v.raw(k) >> s) if v.sources[k].negate else v.raw(k) >> s for k in (0, 1)) & 0xFFFF for s in (0, 16)
        )
        v.put(low | high << 16)
    elif v.has("U8x4"):
        sign = -1 if v.sources[1].negate else 1
        v.put(sum(((v.raw(0) >> s) + sign * (v.raw(1) >> s) & 0xFF) << s for s in (0, 8, 16, 24)))
    elif v.has("ISAT"):
        total = signed(v.raw(0)) + (-1 if v.sources[1].negate else 1) * signed(v.raw(1))
        v.put(min(max(total, -(1 << 31)), (1 << 31) - 1))
    else:
        v.put(v.word(0) + v.word(1))


def imad(v: View) -> None:
    unsigned = v.has("U32")
    wide = v.has("WIDE", "HI")
    a, b = (v.raw(k) if unsigned else signed(v.raw(k)) for k in (0, 1))
    sign = -1 if v.sources[0].negate != v.sources[1].negate else 1
    bits = 64 if wide else 32
    mask = (1 << bits) - 1
    c = v.raw(2, bits // 32)
    third = v.sources[2]
    addend = (~c & mask) + 1 if third.negate else ~c & mask if third.invert else c
    total = (sign * a * b & mask) + addend + (v.condition(0, False) if v.has("X") else 0)
    v.decide(0, total > mask)
    if v.has("HI"):
        v.put(total >> 32)
    else:
        v.put(total, bits // 32)


def lea(v: View) -> None:
    amount = v.raw(len(v.sources) - 1) & 31
    a = v.raw(0)
    if v.has("HI"):
        wide = signed(a) if v.has("SX32") else a | v.raw(2) << 32
        value = wide << amount >> 32 & WORD
    else:
        value = a << amount & WORD
    first, second = v.sources[0], v.sources[1]
    total = (~value & WORD) + 1 if first.negate else ~value & WORD if first.invert else value
    b = v.raw(1)
    total += (~b & WORD) + 1 if second.negate else ~b & WORD if second.invert else b
    total += v.condition(0, False) if v.has("X") else 0
    v.put(total)
    v.decide(0, total > WORD)


def lop3(v: View) -> None:
    table = v.raw(3)
    rows = [v.word(k) for k in range(3)]
    result = 0
    for bit in range(32):
        index = sum((rows[k] >> bit & 1) << (2 - k) for k in range(3))
        result |= (table >> index & 1) << bit
    v.put(result)
    some = result != 0
    v.decide(0, some and v.condition(0) if v.has("PAND") else some or v.condition(0, False))


def shf(v: View) -> None:
    kind = next((name for name in ("U32", "S32", "U64", "S64") if v.has(name)), "U32")
    bits = int(kind[1:])
    low, count, high = v.word(0), v.word(1), v.word(2)
    count = count % bits if v.has("W") else min(count, bits)
    pair = low | high << 32
    if v.has("L"):
        shifted = pair << count
        v.put(shifted >> 32 if v.has("HI") else shifted)
    else:
        shifted = (signed(pair, 64) if kind[0] == "S" else pair) >> count
        v.put(shifted >> 32 if v.has("HI") else shifted)


def bmsk(v: View) -> None:
    """PTX bmsk: `width` ones from bit `position` on."""
    position, width = v.word(0), v.word(1)
    if v.has("W"):
        position, width = position & 31, width & 31
    v.put(((1 << min(width, 32)) - 1) << min(position, 32))


def sgxt(v: View) -> None:
    """PTX szext: extend from `width` bits."""
    value, width = v.word(0), v.word(1)
    width = width & 31 if v.has("W") else min(width, 32)
    value &= (1 << width) - 1
    v.put(value if v.has("U32") or not width else signed(value, width))


def prmt(v: View) -> None:
    """PTX prmt and its modes; the selector is the second source."""
    a, selector, b = v.word(0), v.word(1), v.word(2)
    data = [(a | b << 32) >> 8 * k & 255 for k in range(8)]
    n = selector & 3
    if v.has("F4E"):
        picked = [(n + k) & 7 for k in range(4)]
    elif v.has("B4E"):
        picked = [(n - k) & 7 for k in range(4)]
    elif v.has("RC8"):
        picked = [n] * 4
    elif v.has("ECL"):
        picked = [max(k, n) for k in range(4)]
    elif v.has("ECR"):
        picked = [min(k, n) for k in range(4)]
    elif v.has("RC16"):
        picked = [2 * (n & 1), 2 * (n & 1) + 1] * 2
    else:
        nibbles = [selector >> 4 * k & 15 for k in range(4)]
        v.put(sum(((0xFF * (data[x & 7] >> 7)) if x & 8 else data[x & 7]) << 8 * k for k, x in enumerate(nibbles)))
        return
    v.put(sum(data[x] << 8 * k for k, x in enumerate(picked)))


def iabs(v: View) -> None:
    v.put(abs(signed(v.word(0))))


def _parts(v: View, k: int, bits: int, is_signed: bool) -> list[int]:
    """Numbers of `bits` bits in a word, the lowest first."""
    parts = [v.word(k) >> s & (1 << bits) - 1 for s in range(0, 32, bits)]
    return [signed(x, bits) if is_signed else x for x in parts]


def minmax(v: View) -> None:
    """IMNMX, VIMNMX, VIMNMX3, VIADDMNMX: minimum if the predicate holds; .RELU: not below zero."""
    is_signed = not v.has("U32", "U16x2", "U8x4", "U64")
    choose = min if v.condition(0) else max
    if v.has("S64", "U64"):
        v.put(choose(v.raw(0, 2), v.raw(1, 2), key=lambda x: signed(x, 64) if is_signed else x), 2)
        return
    adds = v.instruction.opcode == "VIADDMNMX"
    bits = 16 if v.has("S16x2", "U16x2") else 8 if v.has("S8x4", "U8x4") else 32
    columns = zip(*(_parts(v, k, bits, is_signed) for k in range(len(v.sources))), strict=True)
    result, firsts = 0, []
    for place, values in enumerate(columns):
        firsts.append(choose(values[:2]) == values[0] and not (v.has("RELU") and values[0] < 0))
        if adds:
            total = values[0] + values[1]
            values = [signed(total, bits) if is_signed else total & (1 << bits) - 1, values[2]]
        best = choose(values)
        best = max(best, 0) if v.has("RELU") else best
        result |= (best & (1 << bits) - 1) << bits * place
    v.put(result)
    v.decide(1, firsts[-1])
    v.decide(0, firsts[0])


def dot_product(v: View) -> None:
    """PTX dp4a and dp2a: the first type is a's, the second b's."""
    kinds = [name for name in v.instruction.modifiers if name[0] in "SU" and name[1:] in ("8", "16")]
    a, b = v.raw(0), v.raw(1)
    if v.has("4A"):
        left, right = (
            [signed(x >> 8 * k, 8) if kind[0] == "S" else x >> 8 * k & 255 for k in range(4)]
            for x, kind in ((a, kinds[0]), (b, kinds[1]))
        )
    else:
        left = [signed(a >> 16 * k, 16) if kinds[0][0] == "S" else a >> 16 * k & 0xFFFF for k in range(2)]
        first = 2 if v.has("HI") else 0
        right = [
            signed(b >> 8 * (first + k), 8) if kinds[1][0] == "S" else b >> 8 * (first + k) & 255 for k in range(2)
        ]
    v.put(sum(x * y for x, y in zip(left, right, strict=True)) + v.word(2))


def difference(v: View) -> None:
    a, b = v.raw(0), v.raw(1)
    if v.instruction.opcode == "VABSDIFF":
        d = abs(a - b) if v.has("U32") else abs(signed(a) - signed(b))
        v.put(d + v.word(2))
        v.decide(0, d + v.word(2) > WORD)
        return
    v.decide(0, False)
    bytes_ = [
        abs((a >> s & 255) - (b >> s & 255)) if v.has("U8") else abs(signed(a >> s, 8) - signed(b >> s, 8))
        for s in (0, 8, 16, 24)
    ]
    v.put(sum(bytes_) + v.word(2) if v.has("ACC") else sum(d << 8 * k for k, d in enumerate(bytes_)))


def _saturated(v: View, k: int) -> tuple[int, int]:
    """Source `k` limited to the type that the first modifier names, with .SAT, and that type's bits."""
    name = v.instruction.modifiers[0]
    bits = int(name[1:])
    if not v.has("SAT"):
        return v.word(k), bits
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if name[0] == "S" else (0, (1 << bits) - 1)
    return min(max(signed(v.word(k)), low), high), bits


def i2ip(v: View) -> None:
    """PTX cvt.pack.sat: b lowest, then a, then c's low bits."""
    (a, bits), (b, _) = _saturated(v, 0), _saturated(v, 1)
    mask = (1 << bits) - 1
    third = v.word(2) >> (16 if "H1" in v.sources[2].suffixes else 0)
    above = third << 2 * bits if bits < 16 else 0
    v.put(above | (a & mask) << bits | b & mask)


def i2i(v: View) -> None:
    v.put(_saturated(v, 0)[0])


def popc(v: View) -> None:
    v.put(bin(v.word(0)).count("1"))


def brev(v: View) -> None:
    v.put(int(f"{v.word(0):032b}"[::-1], 2))


def flo(v: View) -> None:
    """PTX bfind: highest one, or highest bit unlike the sign; .SH counts from the top."""
    value = v.word(0)
    if not v.has("U32") and value >> 31:
        value ^= WORD
    position = value.bit_length() - 1
    v.put(WORD if position < 0 else 31 - position if v.has("SH") else position)
    v.decide(0, position >= 0)


def relation(v: View, less: bool, equal: bool) -> bool:
    """The relation that the modifiers name, of two numbers that are ordered."""
    name = next(each for each in v.instruction.modifiers if each in RELATIONS)
    return {"<": "LT" in name or "LE" in name or name in ("NE", "NEU", "T", "NUM"),
            "=": name in ("EQ", "LE", "GE", "EQU", "LEU", "GEU", "T", "NUM"),
            ">": "GT" in name or "GE" in name or name in ("NE", "NEU", "T", "NUM")}[
        "<" if less else "=" if equal else ">"]  # fmt: skip


RELATIONS = [
    "F",
    "LT",
    "EQ",
    "LE",
    "GT",
    "NE",
    "GE",
    "NUM",
    "NAN",
    "LTU",
    "EQU",
    "LEU",
    "GTU",
    "NEU",
    "GEU",
    "T",
]


def combined(v: View, value: bool, other: bool) -> bool:
    return value and other if v.has("AND") else value or other if v.has("OR") else value != other


def isetp(v: View) -> None:
    """ISETP.EX compares the upper words, given what the lower ones said in the last predicate."""
    is_signed = not v.has("U32", "U64")
    bits = 64 if v.has("S64", "U64") else 32
    values = [v.raw(k, 2) if bits == 64 else v.word(k) for k in (0, 1)]
    a, b = (signed(value, bits) if is_signed else value for value in values)
    holds = relation(v, a < b, a == b)
    if v.has("EX") and a == b:
        # Equal upper words: the lower words decide.
        if v.has("F", "T"):
            raise Undefined(v.instruction.mnemonic)
        holds = v.condition(1)
    elif v.has("EX") and v.has("EQ", "NE"):
        holds = v.has("NE")
    first, second = (combined(v, each, v.condition(0)) for each in (holds, not holds))
    v.decide(0, first)
    v.decide(1, second)


def plop3(v: View) -> None:
    """Two tables of three inputs, each a predicate or the sign of a register."""
    first, second, *inputs = v.instruction.operands[:5]
    index = 0
    for k, operand in enumerate(inputs):
        if operand.kind in ("pred", "upred"):
            bit = v.predicate(operand)
        else:
            bit = bool(v.raw(v.sources.index(operand)) >> 31) != operand.invert
        index |= bit << (2 - k)
    tables = [int(operand.value or 0) for operand in v.instruction.operands[5:7]]
    v.results = [first, second]
    for k, table in enumerate(tables):
        v.decide(k, bool(table >> index & 1))


def _byte(v: View, suffixes: tuple[str, ...] = ()) -> int:
    return next((int(name[1]) for name in (*suffixes, *v.modifiers) if name in ("B0", "B1", "B2", "B3")), 0)


def p2r(v: View) -> None:
    """Predicates 0..6 into the byte's bits that the mask names; its top bit becomes zero."""
    uniform = v.instruction.opcode.startswith("U")
    file = v.lane.uniform_predicates if uniform else v.lane.predicates
    bits = sum(file[k] << k for k in range(7))
    mask, shift = v.word(2) & 255, 8 * _byte(v)
    v.put(v.word(1) & ~(mask << shift) | (bits & mask) << shift)


def r2p(v: View) -> None:
    uniform = v.instruction.opcode.startswith("U")
    file = v.lane.uniform_predicates if uniform else v.lane.predicates
    bits, mask = v.raw(1) >> 8 * _byte(v, v.sources[1].suffixes), v.word(2)
    for k in range(7):
        if mask >> k & 1:
            file[k] = bool(bits >> k & 1)


MEANINGS = {
    "MOV": mov, "SEL": sel, "IADD3": iadd3, "IADD": iadd3, "VIADD": viadd, "IMAD": imad, "LEA": lea, "LOP3": lop3,
    "SHF": shf,
    "BMSK": bmsk, "SGXT": sgxt, "PRMT": prmt, "IABS": iabs, "IMNMX": minmax, "VIMNMX": minmax, "VIMNMX3": minmax,
    "VIADDMNMX": minmax, "IDP": dot_product, "VABSDIFF": difference, "VABSDIFF4": difference, "I2IP": i2ip, "I2I": i2i,
    "POPC": popc, "FLO": flo, "BREV": brev, "ISETP": isetp, "PLOP3": plop3, "P2R": p2r, "R2P": r2p,
}  # fmt: skip
NO_RESULT = {"ISETP", "PLOP3", "R2P"}
