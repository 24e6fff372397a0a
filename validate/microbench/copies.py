"""Asynchronous copies (`cp.async`): how long a group takes, how fast an SM copies, how groups are waited for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import address, after, clock, load_l2, ptx, record, shared_address, smid
from validate.microbench.bench import Case, bench, blank, rows_case, spans_by_sm, waits

_KINDS = {"ca_4": ("ca", 4), "ca_8": ("ca", 8), "ca_16": ("ca", 16), "cg_16": ("cg", 16)}
_COUNTS = (1, 4, 16)
_LATER = 16
"""Copies of each thread in a round of the loop."""
_ROUNDS = 8
_SHARED_WORDS = 12 << 10

_finish = ptx("cp.async.wait_group 0; mov.b32 $0, $1;", "r")


def _group(kind: str, count: int, bytes_apart: int) -> str:
    """PTX of `count` copies from a on to s on, and their commit."""
    cache, size = _KINDS[kind]
    lines = [
        f"cp.async.{cache}.shared.global [s + {k * 32 * size}], [a + {k * bytes_apart}], {size};" for k in range(count)
    ]
    return " ".join([*lines, "cp.async.commit_group;"])


@bench("copy_latency_{0}_{1}", over=[(kind, count) for kind in _KINDS for count in _COUNTS])
def _latency(kind: str, count: int) -> Any:
    size = _KINDS[kind][1]
    text = "{ .reg .u64 a; .reg .u32 s; mov.b64 a, $3; mov.b32 s, $4; mov.u32 $0, %clock;"
    text += f"{_group(kind, count, 4096)} mov.u32 $1, %clock; cp.async.wait_group 0; mov.u32 $2, %clock; }}"
    clocked = ptx(text, "lr", results=3)
    words = 8 * size * count

    def kernel(data: Any, rounds: Any, out: Any) -> None:
        """One warp copies the same again and again. out [round, 4]: clocks."""
        tile = cuda.shared.array(words, np.uint32)
        lane = np.uint32(cuda.threadIdx.x)
        k = np.int32(0)
        while k < rounds:
            clocks = clocked(address(data, np.int64(lane * (size // 4))), shared_address(tile) + lane * size)
            if lane == 0:
                record(out, 4 * k, clocks)
            k = after(k)

    def reduce(rows: np.ndarray) -> dict[str, float]:
        issue, ends = waits(rows), waits(rows, 2)
        again = float(np.median(ends[2:]))
        return {"issue": float(np.median(issue[2:])), "first": float(ends[0]), "again": again}

    inputs = np.zeros(count * 1024 + 128, np.uint32), np.int32(_ROUNDS)
    cases = (rows_case(f"before={b}", 1, 32, (_ROUNDS, 4), inputs, reduce, before=b) for b in ("same", "cold"))
    return kernel, cases


@bench("copy_rate_{0}", over=[kind for kind in _KINDS if kind != "cg_16"])
def _rate(kind: str) -> Any:
    size = _KINDS[kind][1]
    text = f"{{ .reg .u64 a; .reg .u32 s; mov.b64 a, $1; mov.b32 s, $2; {_group(kind, _LATER, 32 * size)}"
    copy = ptx(f"{text} cp.async.wait_group 1; mov.b32 $0, s; }}", "lr")

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
            record(out, np.int64(3) * np.int64(block * warps + warp), (start, end, smid()))

    def case(warps: int, blocks: int) -> Case:
        def reduce(rows: np.ndarray) -> dict[str, float]:
            """Mean over SMs of the bytes that one copies a cycle."""
            return {"bytes_per_cycle": float(warps * 512 * size * _ROUNDS / np.mean(spans_by_sm(rows)))}

        inputs = blank(blocks * warps * 512 * size * _ROUNDS), np.int32(_ROUNDS)
        shape = (blocks * warps, 3)
        return rows_case(f"warps={warps} blocks={blocks}", blocks, 32 * warps, shape, inputs, reduce, slow=blocks > 1)

    return kernel, (*(case(warps, 1) for warps in (1, 4, 8, 16, 32)), case(8, 132))


@bench("copy_groups")
def _groups() -> Any:
    one = "cp.async.cg.shared.global [s + {}], [a{}], 16; cp.async.commit_group;"
    copies = " ".join(one.format(512 * k, k) for k in range(4))
    into = " ".join(f"mov.b64 a{k}, ${k + 5};" for k in range(4))
    ends = " ".join(f"cp.async.wait_group {3 - k}; mov.u32 ${k + 1}, %clock;" for k in range(4))
    text = f"{{ .reg .u64 a<4>; .reg .u32 s; mov.b32 s, $9; {into} mov.u32 $0, %clock; {copies} {ends} }}"
    groups = ptx(text, "llllr", results=5)

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
            record(out, 0, clocks)

    def reduce(rows: np.ndarray) -> dict[str, float]:
        return {f"end of {k}": float(end) for k, end in enumerate((rows[0, 1:] - rows[0, 0]) % 2**32)}

    def case(far: int) -> Case:
        inputs = np.zeros(1 << 18, np.uint32), np.int32(far)
        return rows_case(f"far={far:04b}", 1, 32, (1, 5), inputs, reduce, before="cold")

    return kernel, map(case, (0, 0b1111, 0b0001, 0b1000, 0b0101))
