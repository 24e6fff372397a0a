"""A register file for tests of executors: set operands, run one code row, read rows and predicates back."""

import numpy as np

from isa import microops as m

LANES = 32
_ROWS = 64
_FIRST = 32 * 8  # element offset of the warp; the constant rows lie before it

WORD = 0xFFFFFFFF
SPECIAL_WORDS = (
    0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF,
    0xFFFFFFFE, 0x3F800000, 0xBF800000, 0x00800000, 0x007FFFFF, 0x80800000, 0x807FFFFF, 0x7F800000, 0xFF800000,
    0x7FC00000, 0x7F800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x4B000000, 0x4EFFFFFF, 0x4F000000, 0x5F000000, 31, 32, 33, 64,
)  # fmt: skip


class Warp:
    """One warp's rows and predicates; operands sit in fixed rows, results in row 40."""

    def __init__(self) -> None:
        space = np.zeros(_FIRST + 32 * _ROWS + 16, np.uint32)
        self.regs = space[(-space.ctypes.data // 4) % 16 :]
        self.preds = np.zeros(16, np.uint32)
        self.preds[[7, 15]] = WORD

    def row(self, number: int) -> np.ndarray:
        start = _FIRST + 32 * number
        return self.regs[start : start + 32]

    def execute(self, function, op: int, a=(), b=(), c=(), mask: int = WORD, **columns: int) -> list[int]:
        """Run one micro-operation; a, b, c are sequences of 32 values, of 64 bits for wide operands.

        Returns:
            the 32 words of the first destination row.
        """
        code = np.zeros((1, m.COLUMNS), np.int32)
        code[0, [m.COL_PD0, m.COL_PD1, m.COL_PS0, m.COL_PS1, m.COL_PS2]] = 7
        for first, column, values in ((0, m.COL_A, a), (10, m.COL_B, b), (20, m.COL_C, c)):
            code[0, column] = first
            words = np.array([int(value) for value in values] or [0] * LANES, np.uint64)
            self.row(first)[:] = words & np.uint64(WORD)
            self.row(first + 1)[:] = words >> np.uint64(32)
        code[0, m.COL_OP], code[0, m.COL_CLASS], code[0, m.COL_DST] = op, op // 100, 40
        for name, value in columns.items():
            code[0, getattr(m, "COL_" + name.upper())] = value
        function(code, 0, self.regs, _FIRST, self.preds, 0, np.uint32(mask))
        return self.row(40).tolist()

    def wide(self) -> list[int]:
        """The 32 values of the destination pair."""
        return [low | high << 32 for low, high in zip(self.row(40).tolist(), self.row(41).tolist(), strict=True)]

    def lanes_of(self, predicate: int) -> list[bool]:
        return [bool(int(self.preds[predicate]) >> lane & 1) for lane in range(LANES)]


def mask_of(lanes) -> int:
    return sum(bool(value) << lane for lane, value in enumerate(lanes))


def random_words(rng: np.random.Generator) -> list[int]:
    """32 words, about half of them special."""
    words = rng.integers(0, 1 << 32, LANES)
    special = rng.choice(SPECIAL_WORDS, LANES)
    return np.where(rng.random(LANES) < 0.5, words, special).tolist()


def random_wide(rng: np.random.Generator) -> list[int]:
    return [low | high << 32 for low, high in zip(random_words(rng), random_words(rng), strict=True)]
