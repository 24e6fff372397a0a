"""mbarriers: what an arrival and a look at the phase cost, how long `try_wait` sleeps, and how soon a sleeper wakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import after, clock, ptx, record, shared_address, timed_chain
from validate.microbench.bench import Case, bench, chain_latency, each, rows_case, waits

_FEW, _MORE = 8, 24
_LOOKS = ("test_wait", "try_wait")
_init = ptx("mbarrier.init.shared.b64 [$1], $2; mov.b32 $0, $2;", "rr")
_arrive = ptx("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [$1]; mov.u32 $0, %clock; }", "r")
_pause = ptx("nanosleep.u32 $1; mov.b32 $0, $1;", "r")


@bench("mbarrier_own_{0}", over=_LOOKS)
def _own(look: str) -> Any:
    def chain(count: int) -> Callable[..., Any]:
        steps = " ".join(
            f"mbarrier.arrive.shared.b64 s, [b]; L{k}: mbarrier.{look}.shared.b64 p, [b], s; @!p bra L{k};"
            for k in range(count)
        )
        return ptx(f"{{ .reg .b64 s; .reg .b32 b; .reg .pred p; mov.b32 b, $1; {steps} mov.b32 $0, b; }}", "r")

    timed = timed_chain(chain(_FEW), chain(_MORE))

    def kernel(out: Any) -> None:
        """One thread arrives at an mbarrier of its own and waits. out [1, 3]: clocks around few and more rounds."""
        tile = cuda.shared.array(2, np.uint64)
        place = shared_address(tile)
        _init(place, np.uint32(1))
        timed(place, out)

    latency = rows_case("one", 1, 1, (1, 3), (), lambda rows: {"each": chain_latency(rows[0], _FEW, _MORE)})
    return kernel, (latency,)


_HOPS = 64


@bench("mbarrier_hop_{0}", over=_LOOKS)
def _hop(look: str) -> Any:
    wait = f"{{ .reg .pred p; L: mbarrier.{look}.parity.shared.b64 p, [$1], $2; @!p bra L; mov.b32 $0, $2; }}"
    waiting = ptx(wait, "rr")

    def kernel(rounds: Any, out: Any) -> None:
        """Two warps hand a token to and fro. out [1, 2]: clocks around all rounds."""
        tile = cuda.shared.array(2, np.uint64)
        warp = np.uint32(cuda.threadIdx.x) >> np.uint32(5)
        place = shared_address(tile)
        if cuda.threadIdx.x == 0:
            _init(place, np.uint32(1))
            _init(place + np.uint32(8), np.uint32(1))
        cuda.syncthreads()
        start = clock()
        if cuda.threadIdx.x & 31 == 0:
            k = np.int32(0)
            while k < rounds:
                if warp == 0:
                    _arrive(place)
                    waiting(place + np.uint32(8), np.uint32(k & 1))
                else:
                    waiting(place, np.uint32(k & 1))
                    _arrive(place + np.uint32(8))
                k = after(k)
        end = clock()
        if cuda.threadIdx.x == 0:
            record(out, 0, (start, end))

    return kernel, (rows_case("one", 1, 64, (1, 2), (np.int32(_HOPS),), lambda rows: each(rows, 2 * _HOPS)),)


@bench("mbarrier_sleep_{0}", over=("default", 0, 100, 1000, 10000, 1000000))
def _sleep(hint: int | str) -> Any:
    tail = "" if hint == "default" else f", {hint}"
    text = "{ .reg .pred p; mov.u32 $0, %clock; "
    text += f"mbarrier.try_wait.parity.shared.b64 p, [$3], 0{tail}; selp.u32 $2, 1, 0, p; mov.u32 $1, %clock; }}"
    look = ptx(text, "r", results=3)

    def kernel(rounds: Any, out: Any) -> None:
        """Looks at a phase that never ends. out [round, 3]: clocks around one look, and what it saw."""
        tile = cuda.shared.array(2, np.uint64)
        place = shared_address(tile)
        _init(place, np.uint32(1))
        k = np.int32(0)
        while k < rounds:
            seen = look(place)
            for n in range(3):
                out[3 * k + n] = seen[n]
            k = after(k)

    def reduce(rows: np.ndarray) -> dict[str, float]:
        took = waits(rows[1:])
        return {"median": float(np.median(took)), "least": float(took.min()), "seen": float(rows[:, 2].sum())}

    return kernel, (rows_case("one", 1, 1, (6, 3), (np.int32(6),), reduce),)


_TURNS = 6


@bench("mbarrier_wake_{0}", over=_LOOKS)
def _wake(look: str) -> Any:
    text = "{ .reg .pred p; .reg .u32 n; mov.u32 n, 0; "
    text += f"L: mbarrier.{look}.parity.shared.b64 p, [$2], $3; add.u32 n, n, 1; @!p bra L; "
    waiting = ptx(text + "mov.u32 $0, %clock; mov.b32 $1, n; }", "rr", results=2)

    def kernel(pause: Any, rounds: Any, out: Any) -> None:
        """The first warp pauses and arrives, all others wait. out [round, warp, 2]: the clock of the arrival, or of the
        waking and how often a warp has looked."""
        tile = cuda.shared.array(2, np.uint64)
        t = np.uint32(cuda.threadIdx.x)
        place = shared_address(tile)
        if t == 0:
            _init(place, np.uint32(1))
        k = np.int32(0)
        while k < rounds:
            cuda.syncthreads()
            at = 2 * (np.int64(k) * (cuda.blockDim.x >> 5) + np.int64(t >> np.uint32(5)))
            if t == 0:
                _pause(pause)
                out[at] = _arrive(place)
            elif t >= 32:
                seen = waiting(place, np.uint32(k & 1))
                if t & np.uint32(31) == 0:
                    record(out, at, seen)
            k = after(k)

    def case(warps: int, pause: int) -> Case:
        def reduce(rows: np.ndarray) -> dict[str, float]:
            each = rows.reshape(_TURNS, warps + 1, 2)[1:]
            delay = (each[:, 1:, 0] - each[:, :1, 0] + 2**31) % 2**32 - 2**31
            looks = each[:, 1:, 1]
            names = ("delay least", "delay median", "delay most", "looks median", "looks most")
            values = (delay.min(), np.median(delay), delay.max(), np.median(looks), looks.max())
            return dict(zip(names, map(float, values), strict=True))

        inputs = np.uint32(pause), np.int32(_TURNS)
        key = f"warps={warps} pause={pause}"
        return rows_case(key, 1, 32 * (warps + 1), (_TURNS * (warps + 1), 2), inputs, reduce)

    return kernel, (case(warps, pause) for warps in (1, 4, 16) for pause in (0, 1000, 20000))
