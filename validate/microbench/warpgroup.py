"""Products by warpgroups (`wgmma`): how long each takes by shape, type and place of A, alone and beside others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import after, clear, ptx, shared_address
from validate.microbench.bench import Case, bench, rows_case, span

_FEW, _MORE = 1, 17
_ROUNDS = 4
_ROOM_BYTES = 160 << 10
_SWIZZLED_128 = 1 << 62 | 64 << 32 | 1 << 16
"""Descriptor of rows of 128 bytes that are swizzled, eight of them 1,024 bytes apart (PTX ISA, "Matrix Descriptor")."""


@dataclass(frozen=True)
class GroupOp:
    """A product of 64 x k by k x n. registers: A comes out of them. sums: type of the accumulators."""

    name: str
    kind: str
    k: int
    n: int
    sums: str = "f32"
    registers: bool = False

    def lines(self, count: int) -> str:
        """PTX of `count` of them on the same accumulators, as one group that is waited for. x, y: descriptors.

        The compiler leaves out products whose sums nobody uses. The store is there since a warp reads the clock behind
        a barrier before others have come to it, but goes to memory only then.
        """
        letter = "f32" if self.sums == "f32" else "b32"
        words = self.n // 4 if self.sums == "f16" else self.n // 2
        sums = ", ".join(f"c{k}" for k in range(words))
        left = "{r, r, r, r}" if self.registers else "x"
        tail = "1" if self.sums == "s32" else "1, 1, 1"
        if self.kind in ("f16", "bf16"):
            tail += ", 0" if self.registers else ", 0, 0"
        kinds = f"{self.sums}.{self.kind}.{self.kind}"
        one = f"wgmma.mma_async.sync.aligned.m64n{self.n}k{self.k}.{kinds} {{{sums}}}, {left}, y, {tail};"
        zero = " ".join(f"mov.{letter} c{k}, {'0f00000000' if letter == 'f32' else 0};" for k in range(words))
        start = f".reg .{letter} c<{words}>; .reg .b32 r; .reg .b64 x, y; mov.b32 r, 0; {zero}"
        use = " ".join(f"mov.b32 r, c{k}; xor.b32 all, all, r;" for k in range(words))
        return (
            f"{start} mov.b64 x, $4; mov.b64 y, $5; st.volatile.shared.u32 [$6], 0; mov.u32 $0, %clock;"
            f"wgmma.fence.sync.aligned; {one * count}"
            "wgmma.commit_group.sync.aligned; mov.u32 $1, %clock; wgmma.wait_group.sync.aligned 0; mov.u32 $2, %clock;"
            f".reg .b32 all; mov.b32 all, 0; {use} mov.b32 $3, all;"
        )


_WIDTHS = (8, 16, 32, 64, 96, 128, 192, 256)
OPS = (
    *(GroupOp(f"f16_n{n}", "f16", 16, n) for n in _WIDTHS),
    *(GroupOp(f"f16_n{n}_registers", "f16", 16, n, registers=True) for n in (8, 64, 128, 256)),
    *(GroupOp(f"f16_n{n}_halves", "f16", 16, n, sums="f16") for n in (64, 256)),
    *(GroupOp(f"bf16_n{n}", "bf16", 16, n) for n in (64, 256)),
    *(GroupOp(f"tf32_n{n}", "tf32", 8, n) for n in (8, 64, 256)),
    *(GroupOp(f"e4m3_n{n}", "e4m3", 32, n) for n in (8, 64, 256)),
    *(GroupOp(f"e4m3_n{n}_registers", "e4m3", 32, n, registers=True) for n in (64, 256)),
    *(GroupOp(f"s8_n{n}", "s8", 32, n, sums="s32") for n in (8, 64, 256)),
)


@bench("group_{0.name}", over=OPS)
def _products(op: GroupOp) -> Any:
    few, more = (ptx(f"{{ {op.lines(count)} }}", "llr", results=4) for count in (_FEW, _MORE))

    def kernel(rounds: Any, out: Any) -> None:
        """Each warpgroup multiplies zeros that lie in shared memory. out [warp, 6]: clocks of few, and of more."""
        room = cuda.shared.array(0, np.uint32)
        t = np.int32(cuda.threadIdx.x)
        clear(room, _ROOM_BYTES // 4)
        group = np.uint32(t) >> np.uint32(7)
        place = (shared_address(room) + np.uint32(1023)) & np.uint32(0xFFFFFC00)
        left = np.uint64(_SWIZZLED_128) | np.uint64((place + group * np.uint32(16384)) >> np.uint32(4))
        right = np.uint64(_SWIZZLED_128) | np.uint64((place + np.uint32(65536)) >> np.uint32(4))
        last = shared_address(room) + np.uint32(_ROOM_BYTES - 4)
        k = np.int32(0)
        while k < rounds:
            cuda.syncthreads()
            first = few(left, right, last)
            cuda.syncthreads()
            second = more(left, right, last)
            if t & 31 == 0:
                at = np.int64(6) * (t >> 5)
                for n in range(3):
                    out[at + n] = first[n]
                    out[at + 3 + n] = second[n]
            if first[3] + second[3] == np.uint32(12345):
                out[0] = first[3]
            k = after(k)

    def case(groups: int) -> Case:
        def reduce(rows: np.ndarray) -> dict[str, float]:
            """Cycles of the SM for each product of a group; of one alone, and until it is issued."""
            few, more = (span(rows[:, k], rows[:, k + 2]) for k in (0, 3))
            issued = ((rows[:, 4] - rows[:, 3]) % 2**32).mean()
            return {"one": few, "each": (more - few) / (_MORE - _FEW), "issue": float(issued)}

        inputs, shape = (np.int32(_ROUNDS),), (4 * groups, 6)
        return rows_case(f"groups={groups}", 1, 128 * groups, shape, inputs, reduce, shared_bytes=_ROOM_BYTES)

    return kernel, map(case, (1, 2, 4) if op.n <= 128 else (1, 2))
