"""Cost of a kernel's first instructions for a warp, by whether caches hold their lines from what ran before."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.microbench.asm import address, block, clock, inline, ptx
from validate.microbench.bench import SMS, Case, bench, per_step, rows_case


def _case(sms: int, warps: int, before: str, columns: int, inputs: tuple[Any, ...], reduce: Any) -> Case:
    key, slow = f"sms={sms} warps={warps} {before}", before == "evicted"
    return rows_case(key, sms, 32 * warps, (sms * warps, columns), inputs, reduce, before=before, slow=slow)


_ARRIVE = ptx(
    "{ .reg .u32 t<6>, a, b, c; .reg .u64 o; .reg .pred p;"
    " mov.u32 t0, %clock; mov.u32 a, %tid.x; mov.u32 t1, %clock; add.u32 b, a, t1; mov.u32 t2, %clock;"
    " mov.u32 c, %ctaid.x; mov.u32 t3, %clock; mad.lo.u32 c, c, $2, b; mov.u32 t4, %clock;"
    " sub.u32 c, c, t1; shr.u32 c, c, 5; mul.wide.u32 o, c, 20; add.u64 o, o, $1; and.b32 b, a, 31;"
    " setp.eq.u32 p, b, 0; @p st.global.u32 [o], t0; @p st.global.u32 [o + 4], t1; @p st.global.u32 [o + 8], t2;"
    " @p st.global.u32 [o + 12], t3; @p st.global.u32 [o + 16], t4; mov.b32 $0, c; }",
    "lr",
)


def arrive(x: Any, size: Any, out: Any) -> None:
    """out [warp, 5]: clocks at the start, behind the issue and the use of the thread's number, and of the block's."""
    if _ARRIVE(address(out, np.int64(0)), size) == np.uint32(0xFFFFFFFF):
        x[0] = np.uint32(1)


_WAITS = ("issue of thread", "value of thread", "issue of block", "value of block")


@bench("arrive")
def _arrive() -> Any:
    def case(blocks: int, warps: int, before: str) -> Case:
        inputs = np.zeros(2, np.uint32), np.uint32(32 * warps)
        key, shape = f"blocks={blocks} warps={warps} {before}", (SMS * blocks * warps, 5)
        reduce = partial(per_step, names=_WAITS)
        return rows_case(key, SMS * blocks, 32 * warps, shape, inputs, reduce, before=before)

    shapes = ((1, 1), (1, 8), (8, 8))
    return arrive, (case(*shape, before) for before in ("same", "cold", "other") for shape in shapes)


_SIX = block(["fma.rn.f32 v, v, v, v;"] * 6, types.float32)
_BEFORE = ("same", "cold", "evicted", "other")
_LINES = 16


def _begin_kernel() -> Any:
    """A kernel's first instructions: a clock in each 128 bytes of code, eight instructions, chains of six."""
    text = ["def begin(x, out):", "t0 = clock()", "v = np.float32(1.0)"]
    for k in range(1, _LINES):
        text += ["v = _SIX(v, v)", f"t{k} = clock()"]
    text += [f"at = np.int64({_LINES}) * np.int64(cuda.grid(1) >> 5)", "if cuda.threadIdx.x & 31 == 0:"]
    text += [f"    out[at + {k}] = t{k}" for k in range(_LINES)]
    text += ["if v == 1.5:", "    x[1] = v"]
    scope = {**globals(), "clock": clock}
    exec("\n    ".join(text), scope)
    return scope["begin"]


@bench("begin")
def _begin() -> Any:
    def reduce(rows: np.ndarray) -> dict[str, float]:
        """Cycles of the first line, the second, lines 3 to 8 and 9 to 15: means over warps."""
        steps = np.diff(rows, axis=1) % 2**32
        parts = {"line 1": (0, 1), "line 2": (1, 2), "lines 3-8": (2, 8), "lines 9-15": (8, 15)}
        return {name: float(steps[:, a:b].sum(axis=1).mean()) for name, (a, b) in parts.items()}

    inputs = (np.ones(2, np.float32),)
    shapes = ((1, 1), (SMS, 1), (SMS, 8), (SMS, 32))
    return _begin_kernel(), (_case(*shape, each, _LINES, inputs, reduce) for each in _BEFORE for shape in shapes)


_MARKS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Lines of code before each clock; with a clock in every line the compiler puts some into uniform registers."""


def _stamped() -> Any:
    """A function (value, address) that runs lines of code of eight independent instructions, clocks among them."""
    parts = [f"{{ .reg .u64 o; .reg .f32 v<8>; .reg .u32 t<{len(_MARKS)}>; mov.b64 o, $2;"]
    parts += [f"add.rn.f32 v{k}, $1, 0f{0x3F800000 + (k << 20):08X};" for k in range(8)]  # all different
    for line in range(_MARKS[-1] + 1):
        if line in _MARKS:
            parts.append(f"mov.u32 t{_MARKS.index(line)}, %clock;")
        parts += [f"fma.rn.f32 v{k}, v{k}, v{k}, v7;" for k in range(7 if line in _MARKS else 8)]
    parts += [f"st.global.u32 [o + {4 * k}], t{k};" for k in range(len(_MARKS))]
    parts += [f"add.rn.f32 v0, v0, v{k};" for k in range(1, 7)]
    return inline(" ".join([*parts, "mov.b32 $0, v0; }"]), types.float32, (types.float32, types.uint64))


_STAMPED = _stamped()
_COLUMNS = len(_MARKS)


def lines(x: Any, out: Any) -> None:
    """Lines of straight code, as fast as it can be had. out [warp, 13]: clocks after `_MARKS` lines."""
    warp = np.int64(cuda.grid(1)) >> 5
    v = _STAMPED(x[cuda.threadIdx.x], address(out, warp * np.int64(_COLUMNS)))
    if v == np.float32(1.5):
        x[0] = v


@bench("lines")
def _lines() -> Any:
    def case(sms: int, warps: int, before: str) -> Case:
        def reduce(rows: np.ndarray) -> dict[str, float]:
            """Cycles of each line of a part of the code, in the mean of all warps."""
            times = dict(zip(_MARKS, rows.T, strict=True))
            parts = ((0, 4), (4, 8), (8, 16), (16, 32), (32, 64))
            return {f"lines {a + 1}-{b}": float(((times[b] - times[a]) % 2**32).mean()) / (b - a) for a, b in parts}

        return _case(sms, warps, before, _COLUMNS, (np.ones(32 * warps, np.float32),), reduce)

    return lines, (case(*shape, before) for before in _BEFORE for shape in ((1, 1), (1, 4), (SMS, 1), (SMS, 8)))
