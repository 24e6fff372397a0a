"""Which sub-partitions share what: a unit's rate when chosen ones of the four use it, one warp on each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.microbench.asm import after, clock, inline, shared_address
from validate.microbench.bench import Bench, Case, rows_case, span

_COUNT, _ROUNDS = 16, 16
_WORDS = 1024


def _kernel(name: str, line: str) -> Callable[..., None]:
    parts = ["{ .reg .u32 s, v, w; mov.b32 s, $1; mov.b32 w, $2; mov.b32 v, $2;"]
    for k in range(_COUNT):
        parts.append(f".reg .b32 r{k}; {line.replace('#', f'r{k}')}")
    parts += [f"xor.b32 v, v, r{k};" for k in range(_COUNT)]
    many = inline(" ".join([*parts, "mov.b32 $0, v; }"]), types.uint32, (types.uint32, types.uint32))

    def kernel(stride: Any, chosen: Any, rounds: Any, out: Any) -> None:
        """Lanes name words of shared memory `stride` apart. chosen: bit k for warp k. out [warp, 2]: clocks."""
        tile = cuda.shared.array(_WORDS, np.uint32)
        t = np.int32(cuda.threadIdx.x)
        k = t
        while k < _WORDS:
            tile[k] = np.uint32(k)
            k += np.int32(cuda.blockDim.x)
        place = shared_address(tile) + np.uint32(4) * np.uint32((t & np.int32(31)) * stride)
        value = np.uint32(t)
        start = end = np.uint32(0)
        turn = np.int32(0)
        while turn < 2:
            cuda.syncthreads()
            if (chosen >> (t >> np.int32(5))) & np.int32(1):
                start = clock()
                k = np.int32(0)
                while k < rounds:
                    value ^= many(place, value)
                    k = after(k)
                end = clock()
            turn = after(turn)
        if t & np.int32(31) == 0:
            out[2 * (t >> 5)] = start
            out[2 * (t >> 5) + 1] = end
        if value == np.uint32(12345):
            out[0] = value

    kernel.__name__ = kernel.__qualname__ = name
    return kernel


def _case(stride: int, chosen: tuple[int, ...]) -> Case:
    mask, mine = sum(1 << warp for warp in chosen), list(chosen)
    return rows_case(
        f"stride={stride} warps={','.join(map(str, chosen))}", 1, 128, (4, 2),
        lambda: (np.int32(stride), np.int32(mask), np.int32(_ROUNDS)),
        lambda rows: {"each": span(rows[mine, 0], rows[mine, 1]) / (_COUNT * _ROUNDS * len(chosen))},
    )  # fmt: skip


_CHOICES = ((0,), (0, 1), (0, 2), (0, 3), (1, 2), (0, 1, 2, 3))
BENCHES = tuple(
    Bench(
        f"pairs_{name}",
        f"How many cycles of the SM does {what} take when these sub-partitions do it, one warp each?",
        "cycles",
        _kernel(f"pairs_{name}", line),
        tuple(_case(stride, chosen) for stride in strides for chosen in _CHOICES),
        slack=0.2,
    )
    for name, what, line, strides in (
        ("lds", "a shared load", "ld.volatile.shared.b32 #, [s];", (1, 8, 32)),
        ("sts", "a shared store", "st.volatile.shared.b32 [s], w; mov.b32 #, w;", (1, 32)),
    )
)
