"""Asynchronous copies (`cp.async`): how long a group takes, how fast an SM copies, how groups are waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.microbench.asm import address, after, clock, inline, load_l2, shared_address, smid
from validate.microbench.bench import Bench, Case, blank, rows_case, spans_by_sm, waits

_KINDS = {"ca_4": ("ca", 4), "ca_8": ("ca", 8), "ca_16": ("ca", 16), "cg_16": ("cg", 16)}
_COUNTS = (1, 4, 16)
_LATER = 16
"""Copies of each thread in a round of the loop."""
_ROUNDS = 8
_SHARED_WORDS = 12 << 10

_finish = inline("cp.async.wait_group 0; mov.b32 $0, $1;", types.uint32, (types.uint32,))


def _group(kind: str, count: int, bytes_apart: int) -> str:
    """PTX of `count` copies from a on to s on, and their commit."""
    cache, size = _KINDS[kind]
    lines = [
        f"cp.async.{cache}.shared.global [s + {k * 32 * size}], [a + {k * bytes_apart}], {size};" for k in range(count)
    ]
    return " ".join([*lines, "cp.async.commit_group;"])


def _clocked(kind: str, count: int) -> Callable[..., Any]:
    """(start, end of issue, end): clocks around one group."""
    text = "{ .reg .u64 a; .reg .u32 s; mov.b64 a, $3; mov.b32 s, $4; mov.u32 $0, %clock;"
    text += f"{_group(kind, count, 4096)} mov.u32 $1, %clock; cp.async.wait_group 0; mov.u32 $2, %clock; }}"
    return inline(text, types.UniTuple(types.uint32, 3), (types.uint64, types.uint32))


def _latency_kernel(kind: str, count: int) -> Callable[..., None]:
    size = _KINDS[kind][1]
    clocked = _clocked(kind, count)
    words = 8 * size * count

    def kernel(data: Any, rounds: Any, out: Any) -> None:
        """One warp copies the same again and again. out [round, 4]: clocks."""
        tile = cuda.shared.array(words, np.uint32)
        lane = np.uint32(cuda.threadIdx.x)
        k = np.int32(0)
        while k < rounds:
            clocks = clocked(address(data, np.int64(lane * (size // 4))), shared_address(tile) + lane * size)
            if lane == 0:
                for n in range(3):
                    out[4 * k + n] = clocks[n]
            k = after(k)

    kernel.__name__ = kernel.__qualname__ = f"copy_latency_{kind}_{count}"
    return kernel


def _latency_bench(kind: str, count: int) -> Bench:
    def reduce(rows: np.ndarray) -> dict[str, float]:
        issue, all_ = waits(rows), (rows[:, 2] - rows[:, 0]) % 2**32
        again = slice(2, None)
        return {
            "issue": float(np.median(issue[again])),
            "first": float(all_[0]),
            "again": float(np.median(all_[again])),
        }

    def inputs() -> tuple[Any, ...]:
        return np.zeros(count * 1024 + 128, np.uint32), np.int32(_ROUNDS)

    cases = (rows_case(f"before={b}", 1, 32, (_ROUNDS, 4), inputs, reduce, before=b) for b in ("same", "cold"))
    asks = f"How long does a group of {count} copies of a warp take ({kind}), out of L2 or memory first, and again?"
    name = f"copy_latency_{kind}_{count}"
    return Bench(name, asks, "cycles", _latency_kernel(kind, count), tuple(cases), slack=4)


def _rate_kernel(kind: str) -> Callable[..., None]:
    size = _KINDS[kind][1]
    text = f"{{ .reg .u64 a; .reg .u32 s; mov.b64 a, $1; mov.b32 s, $2; {_group(kind, _LATER, 32 * size)}"
    copy = inline(f"{text} cp.async.wait_group 1; mov.b32 $0, s; }}", types.uint32, (types.uint64, types.uint32))

    def kernel(data: Any, rounds: Any, out: Any) -> None:
        """Each warp copies 16 times 32 lanes a round, other data each round; one group may be on its way.
        out [warp, 3]: clocks before and after, and the SM."""
        tile = cuda.shared.array(_SHARED_WORDS, np.uint32)
        t = np.uint32(cuda.threadIdx.x)
        lane, warp = t & np.uint32(31), t >> np.uint32(5)
        warps = np.uint32(cuda.blockDim.x) >> np.uint32(5)
        block = np.uint32(cuda.blockIdx.x)
        part = warp % np.uint32(4 * _SHARED_WORDS // (512 * size))
        place = shared_address(tile) + lane * size + part * (512 * size)
        last = np.uint32(0)
        cuda.syncthreads()
        start = clock()
        k = np.int32(0)
        while k < rounds:
            item = ((block * np.uint32(rounds) + np.uint32(k)) * warps + warp) * np.uint32(128 * size)
            last += copy(address(data, np.int64(item + lane * (size // 4))), place)
            k = after(k)
        _finish(last)
        end = clock()
        if lane == 0:
            at = np.int64(3) * np.int64(block * warps + warp)
            out[at] = start
            out[at + 1] = end
            out[at + 2] = smid()

    kernel.__name__ = kernel.__qualname__ = f"copy_rate_{kind}"
    return kernel


def _rate_bench(kind: str) -> Bench:
    size = _KINDS[kind][1]

    def case(warps: int, blocks: int) -> Case:
        def reduce(rows: np.ndarray) -> dict[str, float]:
            """Mean over SMs of the bytes that one copies a cycle."""
            return {"bytes_per_cycle": float(warps * 512 * size * _ROUNDS / np.mean(spans_by_sm(rows)))}

        def inputs() -> tuple[Any, ...]:
            return blank(blocks * warps * 512 * size * _ROUNDS), np.int32(_ROUNDS)

        shape = (blocks * warps, 3)
        return rows_case(f"warps={warps} blocks={blocks}", blocks, 32 * warps, shape, inputs, reduce, slow=blocks > 1)

    cases = (*(case(warps, 1) for warps in (1, 4, 8, 16, 32)), case(8, 132))
    asks = f"How many bytes a cycle does an SM copy out of L2 ({kind})?"
    return Bench(f"copy_rate_{kind}", asks, "bytes per cycle", _rate_kernel(kind), cases, slack=1)


def _group_kernel() -> Callable[..., None]:
    one = "cp.async.cg.shared.global [s + {}], [a{}], 16; cp.async.commit_group;"
    copies = " ".join(one.format(512 * k, k) for k in range(4))
    into = " ".join(f"mov.b64 a{k}, ${k + 5};" for k in range(4))
    ends = " ".join(f"cp.async.wait_group {3 - k}; mov.u32 ${k + 1}, %clock;" for k in range(4))
    text = f"{{ .reg .u64 a<4>; .reg .u32 s; mov.b32 s, $9; {into} mov.u32 $0, %clock; {copies} {ends} }}"
    groups = inline(text, types.UniTuple(types.uint32, 5), (types.uint64,) * 4 + (types.uint32,))

    def kernel(data: Any, far: Any, out: Any) -> None:
        """Four groups of one copy. Bit k of `far`: group k comes out of memory. out [1, 5]: clocks as they end."""
        tile = cuda.shared.array(512, np.uint32)
        lane = np.uint32(cuda.threadIdx.x)
        value = np.uint32(0)
        for k in range(4):
            if (far >> k) & 1 == 0:
                value += load_l2(address(data, np.int64(lane * 4 + 65536 * k)))
        place = shared_address(tile) + lane * 16 + (value & np.uint32(1))
        first = address(data, np.int64(lane * 4))
        apart = np.uint64(1 << 18)
        clocks = groups(first, first + apart, first + apart * np.uint64(2), first + apart * np.uint64(3), place)
        if lane == 0:
            for n in range(5):
                out[n] = clocks[n]

    kernel.__name__ = kernel.__qualname__ = "copy_groups"
    return kernel


def _group_case(far: int) -> Case:
    def reduce(rows: np.ndarray) -> dict[str, float]:
        ends = (rows[0, 1:] - rows[0, 0]) % 2**32
        return {f"end of {k}": float(end) for k, end in enumerate(ends)}

    return rows_case(
        f"far={far:04b}", 1, 32, (1, 5), lambda: (np.zeros(1 << 18, np.uint32), np.int32(far)), reduce, before="cold"
    )


BENCHES = (
    *(_latency_bench(kind, count) for kind in _KINDS for count in _COUNTS),
    *(_rate_bench(kind) for kind in _KINDS if kind != "cg_16"),  # more than L2 can give, and nobody knows why
    Bench(
        "copy_groups",
        "Four groups of one copy each, some of them out of memory (first digit: the last): when is each over?",
        "cycles",
        _group_kernel(),
        tuple(_group_case(far) for far in (0, 0b1111, 0b0001, 0b1000, 0b0101)),
        slack=10,
    ),
)
