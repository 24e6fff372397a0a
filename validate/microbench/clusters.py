"""Thread block clusters: shared memory of other blocks (latency, rate by pattern), the barrier, a token to and fro."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import LINES, after, clear, clock, ptx, record, shared_address, smid, timed_chain
from validate.microbench.bench import Case, bench, chain_latency, each, rows_case, spans_by_sm, waits

_FEW, _MORE, _MANY = 8, 24, 16
_WORDS, _ROOM_WORDS = 4352, 4864
_ROUNDS, _HOPS = 8, 32
_rank = ptx("mov.u32 $0, %cluster_ctarank;")
_place = ptx("mapa.shared::cluster.u32 $0, $1, $2;", "rr")
_init = ptx("mbarrier.init.shared.b64 [$1], 1; mov.b32 $0, $1;", "r")
_meet = ptx("barrier.cluster.arrive; barrier.cluster.wait; mov.u32 $0, %clock;")


def _chain(count: int) -> Callable[..., Any]:
    step = "ld.volatile.shared::cluster.u32 s, [s]; "
    return ptx(f"{{ .reg .u32 s; mov.b32 s, $1; {step * count} mov.b32 $0, s; }}", "r")


@bench("cluster_load_{0}", over=(2, 8))
def _load(size: int) -> Any:
    chain = timed_chain(_chain(_FEW), _chain(_MORE))

    def kernel(distance: Any, out: Any) -> None:
        """The first block loads a word of one that far away, which is its own address. out [1, 3]: clocks."""
        tile = cuda.shared.array(1, np.uint32)
        place = _place(shared_address(tile), np.uint32(distance))
        if _rank() == np.uint32(distance):
            tile[0] = place
        _meet()
        if cuda.blockIdx.x == 0:
            chain(place, out)
        _meet()

    def case(distance: int) -> Case:
        return rows_case(
            f"distance={distance}", size, 1, (1, 3), (np.int32(distance),),
            lambda rows: {"each": chain_latency(rows[0], _FEW, _MORE)},
        )  # fmt: skip

    return kernel, map(case, sorted({0, 1, size // 2, size - 1})), {"cluster": size}


@bench("cluster_{0}", over=LINES["clusters"].items())
def _rate(name: str, line: str) -> Any:
    wide = 16 if "128" in name else 4
    lines = " ".join(line.replace("#", str(k)).replace("@", str(128 * k)) for k in range(_MANY))
    sums = " ".join(f"add.u32 v, v, {each}{k};" for k in range(_MANY) for each in "rxyz" if each + "#" in line)
    names = ", ".join(f"{each}<{_MANY}>" for each in "rxyz")
    text = f"{{ .reg .u32 s, v, w, {names}; mov.b32 s, $1; mov.b32 v, 0; mov.b32 w, 0; {lines} {sums} mov.b32 $0, v; }}"
    many = ptx(text, "r")

    def kernel(stride: Any, shift: Any, spread: Any, asking: Any, rounds: Any, out: Any) -> None:
        """Lanes access words (or four) `stride` apart of the block `shift` on, or, with `spread`, of the four in turn;
        of the first block, with -1. Ranks whose bit is set in `asking` do. out [block, 3]: clocks around all rounds,
        SM."""
        tile = cuda.shared.array(_ROOM_WORDS, np.uint32)
        t = np.uint32(cuda.threadIdx.x)
        lane = t & np.uint32(31)
        there = (_rank() + np.uint32(shift) + lane * np.uint32(spread)) & np.uint32(3) if shift >= 0 else np.uint32(0)
        offset = lane * np.uint32(stride) * np.uint32(wide) % np.uint32(4 * _WORDS)
        place = _place(shared_address(tile) + offset, there)
        clear(tile, _ROOM_WORDS)
        _meet()
        start = clock()
        k = np.int32(0)
        while k < rounds and (asking >> np.int32(_rank())) & 1:
            place += many(place)  # by zero
            k = after(k)
        cuda.syncthreads()
        stop = clock()
        if t == 0:
            used = np.uint32(place == np.uint32(1))
            record(out, 3 * np.int64(cuda.blockIdx.x), (start, stop, smid() + used))
        _meet()

    def case(pattern: str, warps: int, blocks: int) -> Case:
        *shape, asking = LINES["patterns"][pattern]

        def reduce(rows: np.ndarray) -> dict[str, float]:
            asks = asking >> np.arange(blocks) % 4 & 1 == 1
            return {"an access": float(np.mean(spans_by_sm(rows[asks]))) / (_ROUNDS * _MANY * warps)}

        inputs = tuple(np.int32(each) for each in (*shape, asking, _ROUNDS))
        key = f"{pattern} warps={warps} blocks={blocks}"
        return rows_case(key, blocks, 32 * warps, (blocks, 3), inputs, reduce, slow=blocks > 4)

    alone = [(key, count) for key in LINES["patterns"] for count in (1, 8) if count == 8 or "ask" not in key]
    return kernel, (*(case(*each, 4) for each in alone), *(case(key, 8, 132) for key in ("in a row", "all ranks")))


_TAILS = {"relaxed": ("arrive.relaxed", "wait"), "ordered": ("arrive.release", "wait.acquire")}


@bench("cluster_barrier_{0}_{1}", over=[(how, size) for how in _TAILS for size in (2, 4, 8)])
def _barrier(how: str, size: int) -> Any:
    rounds = " ".join(f"barrier.cluster.{each};" for each in _TAILS[how])
    many = ptx(f"{rounds * _MANY} mov.u32 $0, %clock;")

    def kernel(out: Any) -> None:
        """All blocks of a cluster meet again and again. out [block, 2]: clocks."""
        _meet()
        many()
        start = many()
        stop = many()
        if cuda.threadIdx.x == 0:
            record(out, 2 * np.int64(cuda.blockIdx.x), (start, stop))

    def case(warps: int) -> Case:
        return rows_case(f"warps={warps}", size, 32 * warps, (size, 2), (), lambda rows: each(rows, _MANY))

    return kernel, map(case, (1, 8)), {"cluster": size}


@bench("cluster_hop_{0}", over=("arrive", "store"))
def _hop(how: str) -> Any:
    arrive = {
        "arrive": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [$1];",
        "store": "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [$1 + 8], $1, [$1];",
    }[how]
    send = ptx(f"{arrive} mov.b32 $0, $1;", "r")
    expect = "mbarrier.arrive.expect_tx.shared.b64 t, [$1], 4;" if how == "store" else ""
    look = "L: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [$1], $2; @!p bra L;"
    prepare = ptx(f"{{ .reg .b64 t; {expect} mov.b32 $0, $1; }}", "r")
    waiting = ptx(f"{{ .reg .pred p; {look} mov.b32 $0, $2; }}", "rr")
    init = ptx("mbarrier.init.shared.b64 [$1], 1; fence.mbarrier_init.release.cluster; mov.b32 $0, $1;", "r")

    def kernel(rounds: Any, out: Any) -> None:
        """Two blocks hand a token to and fro. out [1, 2]: clocks around all rounds."""
        tile = cuda.shared.array(4, np.uint64)
        own = init(shared_address(tile))
        other = _place(own, np.uint32(1) - _rank())
        _meet()
        start = clock()
        k = np.int32(0)
        while k < rounds:
            prepare(own)
            if _rank() == 0:
                send(other)
            waiting(own, np.uint32(k & 1))
            if _rank() == 1:
                send(other)
            k = after(k)
        end = clock()
        if cuda.blockIdx.x == 0:
            record(out, 0, (start, end))
        _meet()

    return kernel, (rows_case("one", 2, 1, (1, 2), (np.int32(_HOPS),), lambda rows: each(rows, 2 * _HOPS)),)


_copy = ptx(
    "{ .reg .pred p; .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [$5], $4; barrier.cluster.arrive;"
    "barrier.cluster.wait; mov.u32 $0, %clock; cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    " [$2], [$3], $4, [$6]; L: mbarrier.try_wait.parity.shared.b64 p, [$5], $7; @!p bra L; mov.u32 $1, %clock; }",
    "rrrrrr",
    results=2,
)


def cluster_copy(size: Any, rounds: Any, out: Any) -> None:
    """Two blocks copy to each other at once, again and again. out [block and round, 2]: clocks."""
    room = cuda.shared.array(0, np.uint32)
    barrier = cuda.shared.array(2, np.uint64)
    other = np.uint32(1) - _rank()
    own = shared_address(barrier)
    _init(own)
    source = (shared_address(room) + np.uint32(127)) & np.uint32(0xFFFFFF80)
    _meet()
    k = np.int32(0)
    while k < rounds:
        target = _place(source + size, other)
        clocks = _copy(target, source, size, own, _place(own, other), np.uint32(k & 1))
        record(out, 2 * (np.int64(cuda.blockIdx.x) * rounds + k), clocks)
        k = after(k)
    _meet()


@bench("cluster_copy")
def _copies() -> Any:
    def reduce(rows: np.ndarray) -> dict[str, float]:
        return {"median": float(np.median(waits(rows)))}

    def case(size: int) -> Case:
        inputs = np.uint32(size), np.int32(_ROUNDS)
        return rows_case(f"bytes={size}", 2, 1, (2 * _ROUNDS, 2), inputs, reduce, shared_bytes=(64 << 10) + 128)

    return cluster_copy, map(case, (16, 512, 4096, 32768))
