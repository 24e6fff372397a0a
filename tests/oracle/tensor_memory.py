"""What instructions on tensor memory mean, cell by cell: the PTX ISA's chapter on tcgen05, with exact fractions.

Matrices in shared memory lie as CuTe's canonical layouts say that the manual has; sums are those that MMA-Sim (arXiv
2511.10909) found on a B200. Cells are `cells[lane][column]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from isa import microops as m
from tests.oracle import floats
from tests.oracle.floats import BF16, F16, F32, Format

Cells = Sequence[Sequence[int]]
TF32 = Format(19, 10, 0x3FFFF)
E4M3, E5M2 = Format(8, 3, 0x7F), Format(8, 2, 0x7F)
E2M3, E3M2, E2M1 = Format(6, 3, 0), Format(6, 2, 0), Format(4, 1, 0)
FORMATS = {"f16": F16, "bf16": BF16, "tf32": TF32, "e4m3": E4M3, "e5m2": E5M2, "e2m3": E2M3, "e3m2": E3M2, "e2m1": E2M1}
CODES = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0, "s8": 1}
SWIZZLES = {0: (0, 4, 3), 1: (2, 5, 2), 2: (3, 4, 3), 4: (2, 4, 3), 6: (1, 4, 3)}
LINES = {0: 16, 1: 128, 2: 128, 4: 64, 6: 32}


# --- elements -------------------------------------------------------------------------------------------------------
def bits_of(kind: str) -> int:
    """Bits that an element takes in memory."""
    return 8 if kind in ("u8", "s8") else 32 if kind == "tf32" else FORMATS[kind].bits


def place(descriptor: int, row: int, k: int, bits: int, across: bool) -> tuple[int, int]:
    """(Byte in shared memory, bit in it) of an element, of so many bits with their padding, of a matrix that is K-major
    or (`across`) MN-major."""
    start, leading, stride = (16 * (descriptor >> at & 0x3FFF) for at in (0, 16, 32))
    swizzle = descriptor >> 61
    line, per = LINES[swizzle], 128 // bits  # T elements in 16 bytes
    if across:
        t, piece = row % per, row // per
        rows = 4 if swizzle == 1 else 8
        if swizzle == 0:
            at = start + t * bits // 8 + piece * stride + k % 8 * 16 + k // 8 * leading
        else:
            pieces = line // 16
            at = start + t * bits // 8 + piece % pieces * 16 + piece // pieces * leading
            at += k % rows * line + k // rows * stride
        bit = 0
    else:
        at = start + row % 8 * line + row // 8 * stride + k // per * (leading if swizzle == 0 else 16)
        bit = k % per * bits
    width, base, shift = SWIZZLES[swizzle]
    chosen = (at >> base + shift) - (descriptor >> 49 & 7 if shift + base == 7 else 0) & (1 << width) - 1
    return at ^ chosen << base, bit


def element(shared: bytes, descriptor: int, row: int, k: int, kind: str, across: bool, packed: bool) -> int:
    """Bits of an element in shared memory. Of 6 and 4 bits sixteen have 16 bytes, unless they are packed."""
    bits = bits_of(kind)
    at, bit = place(descriptor, row, k, bits if packed else max(bits, 8), across)
    if bits < 8 and not packed:
        bit = k % 16 * bits
    return int.from_bytes(shared[at : at + 16], "little") >> bit & (1 << bits) - 1


def element_of_cells(cells: Cells, lane: int, column: int, k: int, kind: str, packed: bool) -> int:
    """Bits of an element of A in tensor memory."""
    bits = bits_of(kind)
    container = bits if packed else max(bits, 8)
    word = cells[lane][column + k * container // 32] >> k * container % 32
    return (word >> 2 if bits == 4 and not packed else word) & (1 << bits) - 1


def value(kind: str, bits: int) -> tuple[Fraction | float, int | None]:
    """(Value, exponent by which products are aligned) of an element; None for the exponent of a zero."""
    if kind in ("u8", "s8"):
        return Fraction(bits - 256 if kind == "s8" and bits > 127 else bits), 0
    form = FORMATS[kind]
    if kind == "tf32":
        bits >>= 13
    if kind == "e4m3" and bits & 0x7F == 0x7F:
        return float("nan"), 9
    if kind in ("f16", "bf16", "tf32", "e5m2"):
        if floats.is_nan(form, bits):
            return float("nan"), form.bias + 1
        if floats.is_infinite(form, bits):
            return float("-inf" if floats.negative(form, bits) else "inf"), form.bias + 1
    exact = floats.value(form, bits)
    return exact, max(bits >> form.fraction & form.exponent_ones, 1) - form.bias if exact else None


def scale(kind: str, byte: int) -> tuple[Fraction | float, int | None]:
    """The same of a scale: ue8m0 or ue4m3."""
    if kind == "ue8m0":
        return (float("nan"), 0) if byte == 255 else (Fraction(2) ** (byte - 127), byte - 127)
    return value("e4m3", byte & 0x7F)


# --- sums -----------------------------------------------------------------------------------------------------------
Term = tuple[Fraction | float, int | None]


def aligned_sum(target: Format, terms: list[Term], c: int, less: int, places: int) -> int:
    """Terms with their exponents and an addend, whose exponent is `less` less, cut `places` below the largest one."""
    if floats.is_nan(target, c) or floats.is_infinite(target, c):
        addend: Term = (
            float("nan" if floats.is_nan(target, c) else "-inf" if floats.negative(target, c) else "inf"),
            0,
        )
    else:
        exact = floats.value(target, c)
        exponent = max(c >> target.fraction & target.exponent_ones, 1) - target.bias
        addend = exact / (1 << less), exponent - less if exact else None
    everything = [*terms, addend]
    special = [float(x) for x, _ in everything if isinstance(x, float)]
    if special:
        total = sum(special)
        return target.nan if total != total else target.infinity | (target.sign if total < 0 else 0)
    known = [exponent for _, exponent in everything if exponent is not None]
    if not known:
        return 0
    unit = Fraction(2) ** (max(known) - places)
    total = sum(int(x / unit) for x, _ in everything) * unit
    if abs(total) >= Fraction(2) ** (target.bias + 1):
        return target.infinity | (target.sign if total < 0 else 0)
    return floats.encode(target, total, m.ROUND_ZERO if target is F32 else m.ROUND_NEAREST)


def times(*factors: Term) -> Term:
    """A product, whose exponent is the sum of theirs."""
    exact: Fraction | float = Fraction(1)
    for x, _ in factors:
        both = isinstance(exact, float) or isinstance(x, float)
        exact = float(exact) * float(x) if both else exact * x  # type: ignore[operator]
    exponents = [exponent for _, exponent in factors]
    return exact, None if None in exponents else sum(exponents)  # type: ignore[arg-type]


# --- products -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Product:
    """tcgen05.mma of one block. a: descriptor, or (lane, column) of tensor memory. scales: kind of the scales, and how
    many each row of A has; masks: lanes that are left out. Addresses of scales and metadata are columns."""

    rows: int
    columns: int
    a_kind: str
    b_kind: str
    result: str  # f32, f16, s32
    a: int | tuple[int, int]
    b: int
    d: int = 0  # first column of D
    adds: bool = True
    a_across: bool = False
    b_across: bool = False
    negative: bool = False
    saturate: bool = False
    packed: bool = False
    ws: bool = False
    less: int = 0
    lane: int = 0  # of D
    scales: tuple[str, int] | None = None
    scale_a: tuple[int, int] = (0, 0)  # column, byte
    scale_b: tuple[int, int] = (0, 0)
    metadata: int | None = None
    selector: int = 0
    zero_columns: int | None = None
    ashift: bool = False
    pair: bool = False  # one of both blocks: `rows` of them, and B's columns half in each

    @property
    def depth(self) -> int:
        """Elements along K of B."""
        dense = 256 // bits_of(self.a_kind) if bits_of(self.a_kind) > 8 else 64 if self.packed else 32
        return dense * (2 if self.metadata is not None else 1)

    def lane_and_column(self, row: int, n: int) -> tuple[int, int]:
        """Where D[row, n] lies: data path layouts D, E, F and G."""
        if self.rows == 64 and not self.ws and (not self.pair or self.metadata is not None):
            return 32 * (row // 16) + row % 16 + self.lane, n
        share = self.columns * self.rows // 128
        return row + self.rows * (n // share), n % share

    def sparse_places(self, cells: Cells, row: int) -> list[int]:
        """Where along K each stored element of a row of a structured sparse A belongs."""
        assert self.metadata is not None
        of_pairs, half = 2 if self.packed else 1, bits_of(self.a_kind) >= 16
        places = []
        for chunk in range(self.depth // (2 if self.a_kind == "tf32" else 4 * of_pairs)):
            lane, _ = self.lane_and_column(row, 0)
            if half:  # 16 bits for a row: rows 8 to 15 of 16 have the upper half word, the end of K is 8 lanes further
                lane = lane - row % 16 + row % 8 + 8 * (chunk // 4)
                bits = cells[lane][self.metadata + self.selector] >> 16 * (row // 8 % 2) + 4 * (chunk % 4) & 15
            else:
                bits = cells[lane][self.metadata + chunk // 8] >> 4 * (chunk % 8) & 15
            if self.a_kind == "tf32":
                places.append(2 * chunk + {0b1110: 1, 0b0100: 0}[bits])
                continue
            for index in (bits & 3, bits >> 2):
                places += [4 * of_pairs * chunk + of_pairs * index + n for n in range(of_pairs)]
        return places

    def zeroed(self, n: int) -> bool:
        """Whether the zero-column mask leaves column n of B out."""
        mask = self.zero_columns
        if mask is None or not mask >> 39 & 1:
            return False
        part = self.columns * self.rows // 128
        span = [mask >> 48 & 255, mask >> 40 & 255]  # zeros of the mask, ones
        kind, k = mask >> 32 + n // part & 1, n % part + (mask >> 8 * (n // part) & 255)
        while k > span[kind]:
            k -= span[kind] + 1
            kind ^= 1
        return bool(kind)

    def cell(self, shared: bytes, cells: Cells, row: int, n: int, of_b: Sequence[bytes] = ()) -> int:
        """D[row, n]. of_b: shared memory of both blocks of a pair."""
        lane, _ = self.lane_and_column(row, n)
        stored = self.depth // (2 if self.metadata is not None else 1)
        if isinstance(self.a, tuple):
            at = min(lane + 1, 127) if self.ashift else lane
            a = [element_of_cells(cells, at, self.a[1], k, self.a_kind, self.packed) for k in range(stored)]
        else:
            a = [element(shared, self.a, row, k, self.a_kind, self.a_across, self.packed) for k in range(stored)]
        where = range(stored) if self.metadata is None else self.sparse_places(cells, row)
        shift = (self.zero_columns or 0) >> 56 & 63
        of, at = (of_b[n // (self.columns // 2)], n % (self.columns // 2)) if self.pair else (shared, n + shift)
        factors = []
        for bits, k in zip(a, where, strict=True):
            b = 0 if self.zeroed(n) else element(of, self.b, at, k, self.b_kind, self.b_across, self.packed)
            x, exponent = value(self.a_kind, bits)
            factors.append(((-x if self.negative else x, exponent), value(self.b_kind, b), k))
        column = self.lane_and_column(row, n)[1]
        c = cells[lane][self.d + column] if self.adds else 0
        if self.result == "s32":
            total = int(sum(x * y for (x, _), (y, _), _ in factors)) + (c - (1 << 32) if c >> 31 else c)
            if self.saturate:
                total = min(max(total, -(1 << 31)), (1 << 31) - 1)
            return total & 0xFFFFFFFF
        target = F32 if self.result == "f32" else F16
        if target is F16:
            c &= 0xFFFF
        if self.scales is None:
            return aligned_sum(target, [times(x, y) for x, y, _ in factors], c, self.less, 25)
        kind, count = self.scales
        part = 32 * (lane // 32)

        def of(where: tuple[int, int], number: int, k: int) -> Term:
            word = cells[part + number % 32][where[0] + number // 32]
            return scale(kind, word >> 8 * (where[1] + k * count // self.depth) & 255)

        if not self.packed:
            terms = [times(x, y, of(self.scale_a, row, 0), of(self.scale_b, column, 0)) for x, y, _ in factors]
            return aligned_sum(target, terms, c, 0, 25)
        terms = []
        for group in range(4):
            inside = [(x, y) for x, y, k in factors if k * 4 // self.depth == group]
            exact = sum(x * y for (x, _), (y, _) in inside)
            first = group * self.depth // 4
            scales = times(of(self.scale_a, row, first), of(self.scale_b, column, first))
            terms.append((times((exact, 0), scales)[0], scales[1]))
        return aligned_sum(target, terms, c, 0, 35)

    def descriptor(self, kind: str) -> int:
        """The instruction descriptor, for .kind::`kind`."""
        word = (self.metadata is not None) << 2 | self.selector | self.saturate << 3 | self.negative << 13
        word |= self.a_across << 15 | self.b_across << 16 | self.columns >> 3 << 17
        codes = [1, 1] if self.packed else [CODES[self.a_kind], CODES[self.b_kind]]
        word |= codes[0] << 7 | codes[1] << 10
        rows = self.rows * (2 if self.pair else 1)
        if self.scales is not None:
            word |= self.scale_b[1] << 4 | self.scale_a[1] << 29 | rows >> 7 << 27
            return word | (self.scales[0] == "ue8m0") << 23
        return word | {"f16": 0, "f32": 1, "s32": 2}[self.result] << 4 | rows >> 4 << 24


# --- data movement --------------------------------------------------------------------------------------------------
WORDS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}


def moved(shape: str, thread: int, register: int, split: int = 0) -> tuple[int, int]:
    """(Lane, column) that a thread's register of tcgen05.ld or .st stands for: matrix fragments, figures 183 to 187."""
    if shape == "32x32b":
        return thread, register
    if shape == "16x32bx2":
        return thread % 16, register + (split if thread >= 16 else 0)
    if shape == "16x64b":
        return thread // 4 + 8 * (thread % 2), 2 * register + thread // 2 % 2
    if shape == "16x128b":
        return thread // 4 + 8 * (register % 2), 4 * (register // 2) + thread % 4
    return thread // 4 + 8 * (register // 2 % 2), 8 * (register // 4) + 2 * (thread % 4) + register % 2
