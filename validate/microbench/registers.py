"""Register file: what it costs an FFMA that its three operands lie in one bank, and what reuse of an operand saves.

The compiler chooses registers so that this does not happen. So its machine code is changed: the registers that the 64
FFMA of a loop read are replaced by chosen ones. Their results do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numba.cuda import types

from validate.instructions.encode import RA, RB, RC, field
from validate.microbench.asm import eight
from validate.microbench.bench import Bench, Case, rows_case, span
from validate.microbench.issue import loop_kernel

_MANY, _ROUNDS = 64, 16
_FFMA = 0x223
"""Low bits of an FFMA that reads three registers."""
_REUSE = 122
"""First of the flags that keep an operand for the next instruction."""


def _registers(*sets: tuple[int, int, int], reuse: int = 0) -> Callable[[Sequence[int]], Sequence[int]]:
    """A rewrite that gives the FFMAs these sources in turn, and these reuse flags, the first source's lowest."""

    def rewrite(code: Sequence[int]) -> Sequence[int]:
        changed, count = [], 0
        for word in code:
            if word & 0xFFF == _FFMA:
                for at, register in zip((RA, RB, RC), sets[count % len(sets)], strict=True):
                    word = field(word, at, 8, register)
                word = field(word, _REUSE, 4, reuse)
                count += 1
            changed.append(word)
        if count < _MANY:
            raise ValueError(f"{count} FFMA of three registers, {_MANY} expected")
        return changed

    return rewrite


_LOOP = eight([f"fma.rn.f32 v{k % 8}, v{k % 8}, v{(k + 1) % 8}, w;" for k in range(_MANY)], types.float32)


def _case(warps: int) -> Case:
    each = warps * _MANY * _ROUNDS / 4
    return rows_case(
        f"warps={warps}", 1, 32 * warps, (warps, 2),
        lambda: (np.ones(2, np.float32), np.int32(_ROUNDS)),
        lambda rows: {"each, of a sub-partition": span(rows[:, 0], rows[:, 1]) / each},
    )  # fmt: skip


_VARIANTS = {
    "same": _registers((8, 8, 8)),
    "even_odd": _registers((8, 9, 10)),
    "two_even": _registers((8, 10, 11)),
    "three_even": _registers((8, 10, 12)),
    "three_even_mod_4": _registers((8, 12, 16)),
    "even_and_same": _registers((8, 10, 10)),
    "three_even_reuse": _registers((8, 10, 12), reuse=0b111),
    "three_even_reuse_one": _registers((8, 10, 12), reuse=0b001),
    "alternating": _registers((8, 10, 12), (9, 11, 13)),
}
BENCHES = tuple(
    Bench(
        f"registers_{name}",
        "How many cycles does an FFMA take by the banks (even and odd) of the registers that it reads?",
        "cycles",
        loop_kernel(f"registers_{name}", _LOOP),
        tuple(map(_case, (4, 16))),
        opcodes=("FFMA",),
        rewrite=rewrite,
        slack=0.05,
    )
    for name, rewrite in _VARIANTS.items()
)
