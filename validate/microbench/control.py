"""Control flow, barriers and fences: loops, branches that part a warp, calls, `bar.sync` by warps, fences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.microbench.asm import LINES, address, after, block, clock, inline, load_l2, ptx, record_warp, store, timed
from validate.microbench.bench import Case, bench, each, rows_case, span, waits

_STORE, _LOAD, _ATOM, _RED, _SHARED = range(5)
_atom = ptx("atom.global.add.u32 $0, [$1], 1;", "l")
_red = ptx("red.global.add.u32 [$1], 1; mov.b32 $0, 0;", "l")
_fence_and_clock = ptx("fence.acq_rel.gpu; mov.u32 $0, %clock;")


def fence_beside(data: Any, asking: Any, fencing: Any, lines: Any, kind: Any, pause: Any, out: Any) -> None:
    """Warps in `asking` store, load or add to `lines` lines each, or to shared memory; after a pause those in `fencing`
    have a fence. out [warp, 2]: clocks around the last of three."""
    tile = cuda.shared.array(256, np.uint32)
    t = np.int32(cuda.threadIdx.x)
    warp = t >> np.int32(5)
    value = start = end = np.uint32(0)
    turn = np.int32(0)
    while turn < 3:
        cuda.syncthreads()
        if (asking >> warp) & 1:
            k = np.int32(0)
            while k < lines:
                place = address(data, np.int64((turn * np.int32(8) + warp) * lines + k) * 32 + (t & 31))
                if kind == _STORE:
                    store(place, np.uint32(t))
                elif kind == _LOAD:
                    value += load_l2(place)
                elif kind == _ATOM:
                    value += _atom(place)
                elif kind == _RED:
                    _red(place)
                else:
                    tile[t] = np.uint32(turn)
                k = after(k)
        if (fencing >> warp) & 1:
            start = clock()
            while clock() - start < pause:
                pass
            start = clock()
            end = _fence_and_clock()
        turn = after(turn)
    record_warp(out, t, (start, end))
    if value == np.uint32(1):
        out[0] = value + tile[0]


def _fence_case(key: str, asking: int, fencing: int, lines: int, kind: int = _STORE, pause: int = 0) -> Case:
    few = (np.int32(each) for each in (asking, fencing, lines, kind))
    inputs = np.zeros(3 * 8 * max(lines, 1) * 32, np.uint32), *few, np.uint32(pause)

    def reduce(rows: np.ndarray) -> dict[str, float]:
        took = waits(rows[[warp for warp in range(8) if fencing >> warp & 1]])
        return {"first": float(took.min()), "mean": float(took.mean()), "last": float(took.max())}

    return rows_case(key, 1, 256, (8, 2), inputs, reduce)


@bench("fence_beside")
def _fences() -> Any:
    return fence_beside, (_fence_case(key, *row) for key, row in LINES["fences"].items())


_ROUNDS = 32
_FMA_2, _FMA_8, _FMA_12, _FMA_16 = (
    block(["fma.rn.f32 v, v, v, w;"] * count, types.float32) for count in (2, 8, 12, 16)
)
_ADD_4, _ADD_12 = (block(["add.rn.f32 v, v, w;"] * count, types.float32) for count in (4, 12))
_DIVIDE = inline("div.u64 $0, $1, $2;", types.uint64, (types.uint64, types.uint64))
"""A function that the compiler calls: CALL and RET around its own code."""


def _loop(v: Any, w: Any, lane: Any, cut: Any) -> Any:
    return _FMA_16(v, w)


def _loop_short(v: Any, w: Any, lane: Any, cut: Any) -> Any:
    return _FMA_2(v, w)


def _if_else(v: Any, w: Any, lane: Any, cut: Any) -> Any:
    if lane < cut:  # noqa: SIM108, branches are what is measured
        v = _FMA_12(v, w)
    else:
        v = _ADD_12(v, w)
    return v


def _if_only(v: Any, w: Any, lane: Any, cut: Any) -> Any:
    if lane < cut:
        v = _FMA_12(v, w)
    return v


def _nested(v: Any, w: Any, lane: Any, cut: Any) -> Any:
    if lane < cut:
        v = _FMA_12(v, w)
        if lane < cut // 2:  # noqa: SIM108
            v = _FMA_12(v, w)
        else:
            v = _ADD_12(v, w)
        v = _ADD_4(v, w)
    else:
        v = _ADD_12(v, w)
    return v


def _trips(v: Any, w: Any, lane: Any, cut: Any) -> Any:
    n = np.int32(0)
    while n <= lane % cut:
        v = _FMA_8(v, w)
        n = after(n)
    return v


def _ways(v: Any, w: Any, lane: Any, cut: Any) -> Any:
    way = lane % cut
    n = np.int32(0)
    while n < cut:
        if way == n:
            v = _FMA_16(v, w)
        n = after(n)
    return v


def _call(v: Any, w: Any, lane: Any, cut: Any) -> Any:
    return np.float32(_DIVIDE(np.uint64(v) << np.uint64(40), np.uint64(w) << np.uint64(33)))


@bench("control_{0}", over=[(name, *row) for name, row in LINES["control"].items()])
def _control(name: str, what: str, cuts: Sequence[int], warps: Sequence[int]) -> Any:
    inner = cuda.jit(device=True, forceinline=True)(globals()[f"_{name}"])
    turns = timed(lambda v, given: inner(v, *given))

    def kernel(x: Any, cut: Any, rounds: Any, out: Any) -> None:
        """Runs the body `rounds` times, where lanes below `cut` do something else. out [warp, 2]: clocks."""
        t = np.int32(cuda.threadIdx.x)
        lane = t & np.int32(31)
        v, start, end = turns(x[0], (x[1], lane, cut), rounds)
        record_warp(out, t, (start, end))
        if v == np.float32(1.5):
            x[0] = v

    def case(cut: int, count: int) -> Case:
        return rows_case(
            f"cut={cut} warps={count}", 1, 32 * count, (count, 2),
            (np.array([3, 0.5], np.float32), np.int32(cut), np.int32(_ROUNDS)),
            lambda rows: {"a round": span(rows[:, 0], rows[:, 1]) / _ROUNDS},
        )  # fmt: skip

    return kernel, (case(cut, count) for cut in cuts for count in warps)


_TILE = (
    ".shared .align 4 .b32 tile[1024]; mov.u32 s, tile; mov.u32 t, %tid.x; mov.u32 n, %ntid.x; "
    "mad.lo.u32 v, t, 4, s; add.u32 t, t, 33; sub.u32 n, n, 1; and.b32 t, t, n; mad.lo.u32 s, t, 4, s; mov.b32 t, $1; "
)


@bench("sync_{0}", over=[(name, *row) for name, row in LINES["sync"].items()])
def _sync(name: str, what: str, count: int, line: str, warps: Sequence[int]) -> Any:
    before = f".reg .u32 s, v, t, n; {_TILE}" if name == "exchange" else ""
    many = ptx(f"{{ {before}{line * count}mov.b32 $0, $1; }}", "r")

    def kernel(out: Any) -> None:
        """out [warp, 2]: clocks around a block of instructions, the second time that it runs."""
        t = cuda.threadIdx.x
        value = np.uint32(t)
        start = end = np.uint32(0)
        turn = np.int32(0)
        while turn < 3:
            start = clock()
            value = many(value)
            end = clock()
            turn = after(turn)
        record_warp(out, t, (start, end))
        if value != t:
            out[0] = value

    def case(number: int) -> Case:
        return rows_case(f"warps={number}", 1, 32 * number, (number, 2), (), lambda rows: each(rows, count))

    return kernel, map(case, warps)
