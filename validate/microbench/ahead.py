"""Run-ahead of a warp past a barrier that others have not reached: an H200 lets it issue some instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from validate.microbench.asm import LINES, address, after, ptx, record, shared_address
from validate.microbench.bench import bench, rows_case

_LATE_CYCLES = 3000
_TIMES = 4


@bench("ahead_{0}", over=LINES["ahead"].items())
def _ahead(_: str, line: str) -> Any:
    steps = " ".join(f"{line} mov.u32 ${k + 2}, %clock;" for k in range(_TIMES))
    registers = ".reg .b32 d, e, s; .reg .b16 w; .reg .b64 g; .reg .f32 f, x, y, z; .reg .f64 h; .reg .pred p;"
    count = _TIMES + 3
    into = f"mov.b32 s, ${count}; mov.b64 g, ${count + 1}; mov.b32 d, ${count + 2}; cvt.rn.f32.u32 f, d; mov.f32 x, f;"
    into += " mov.f32 y, f; mov.f32 z, f; cvt.f64.f32 h, f; cvt.u16.u32 w, d; cvt.u32.u64 e, g;"
    out = f"OUT: cvt.rzi.u32.f32 e, f; xor.b32 d, d, e; cvt.rzi.u32.f64 e, h; xor.b32 ${count - 1}, d, e;"
    zero = " ".join(f"mov.u32 ${k + 2}, 0;" for k in range(_TIMES))
    text = f"{{ {registers} {into} {zero} mov.u32 $0, %clock; bar.sync 0; mov.u32 $1, %clock; {steps} {out} }}"
    behind = ptx(text, "rlr", results=count)
    spin = ptx(
        "{ .reg .u32 a, b; .reg .pred p; mov.u32 a, %clock; L: mov.u32 b, %clock; sub.u32 b, b, a;"
        "setp.lt.u32 p, b, $1; @p bra L; mov.u32 $0, b; }",
        "r",
    )

    def kernel(data: Any, rounds: Any, out: Any) -> None:
        """The second warp comes late to a barrier. out [warp, 7]: clocks before it, behind it, and after each step."""
        tile = cuda.shared.array(32, np.uint32)
        t = np.uint32(cuda.threadIdx.x)
        at = np.int64(t >> np.uint32(5)) * np.int64(count)
        k = np.int32(0)
        while k < rounds:
            cuda.syncthreads()
            if t >= np.uint32(32):
                spin(np.uint32(_LATE_CYCLES))
            clocks = behind(shared_address(tile), address(data, np.int64(0)), t + np.uint32(3))
            if t & np.uint32(31) == 0:
                record(out, at, clocks)
            k = after(k)

    def reduce(rows: np.ndarray) -> dict[str, float]:
        """Cycles from the last arrival to the early warp's clock behind the first instruction, and the last."""
        passed = (rows[0] - rows[1, 0] + 2**31) % 2**32 - 2**31
        return {"first": float(passed[2]), "last": float(passed[_TIMES + 1])}

    inputs = np.zeros(64, np.uint32), np.int32(3)
    return kernel, (rows_case("late", 1, 64, (2, _TIMES + 3), inputs, reduce),)
