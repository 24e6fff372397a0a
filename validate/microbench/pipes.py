"""Execution pipes: how long a result takes, and how many warp instructions an SM issues per cycle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from validate.microbench.asm import after, block, clock, eight, record_warp
from validate.microbench.bench import Case, bench, chain_latency, rows_case, span

_FEW, _MORE, _MANY = 16, 48, 64
"""Instructions between clocks of the chain, and in the loop of independent ones: 1 KiB, which every cache holds."""
_ROUNDS = 16


@dataclass(frozen=True)
class PipeOp:
    """An instruction to measure.

    name: of its benchmark. line: PTX with `#` for the register that it reads and writes and `w` for another operand.
    kind: type of the register. opcode: what the machine code has to hold. declare: registers that the line needs, once
    or, if `#` is in their names, for each register.
    warps: at how many warps of an SM the rate is measured.
    """

    name: str
    line: str
    kind: Any
    opcode: str
    declare: str = ""
    warps: tuple[int, ...] = (1, 4, 16)


_PREDICATE = ".reg .pred q;"
_MATRIX = ".reg .f32 #x, #y, #z; mov.f32 #x, w; mov.f32 #y, w; mov.f32 #z, w; "
_MATRIX += ".reg .b32 #a, #b; mov.b32 #a, w; mov.b32 #b, w;"
_FRAGMENTS = "{#, #x, #y, #z}, {#a, #b, #a, #b}, {#a, #b}, {#, #x, #y, #z}"
_F16 = f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {_FRAGMENTS};"
_TF32 = f"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {_FRAGMENTS};"
_U, _L, _F, _D = types.uint32, types.uint64, types.float32, types.float64
_THROUGH = (1, 4, 8, 16, 32)

OPS = (
    PipeOp("fadd", "add.rn.f32 #, #, w;", _F, "FADD"),
    PipeOp("fmul", "mul.rn.f32 #, #, w;", _F, "FMUL"),
    PipeOp("ffma", "fma.rn.f32 #, #, #, w;", _F, "FFMA", warps=_THROUGH),
    PipeOp("imad", "mad.lo.u32 #, #, #, w;", _U, "IMAD", warps=_THROUGH),
    PipeOp("imad_hi", "mad.hi.u32 #, #, #, w;", _U, "IMAD.HI.U32"),
    PipeOp("imad_wide", "cvt.u32.u64 t, #; mad.wide.u32 #, t, t, #;", _L, "IMAD.WIDE.U32", ".reg .u32 t;"),
    PipeOp("iadd3", "add.u32 t, #, w; add.u32 #, #, t;", _U, "IADD3", ".reg .u32 t;"),
    PipeOp("lop3", "lop3.b32 #, #, w, #, 0x6a;", _U, "LOP3.LUT", warps=_THROUGH),
    PipeOp("shf", "shf.l.wrap.b32 #, #, w, w;", _U, "SHF.L.W.U32.HI"),
    PipeOp("prmt", "prmt.b32 #, #, w, 0x3175;", _U, "PRMT"),
    PipeOp("isetp_sel", "setp.lt.s32 q, #, w; selp.b32 #, w, 5, q;", _U, "ISETP.GE.AND", _PREDICATE),
    PipeOp("dp4a", "dp4a.u32.u32 #, #, w, #;", _U, "IDP.4A.U8.U8"),
    PipeOp("popc", "popc.b32 #, #;", _U, "POPC", warps=_THROUGH),
    PipeOp("flo", "bfind.u32 #, #;", _U, "FLO.U32"),
    PipeOp("brev", "brev.b32 #, #;", _U, "BREV"),
    PipeOp("mufu_ex2", "ex2.approx.ftz.f32 #, #;", _F, "MUFU.EX2", warps=_THROUGH),
    PipeOp("mufu_rsq", "rsqrt.approx.ftz.f32 #, #;", _F, "MUFU.RSQ"),
    PipeOp("mufu_sin", "sin.approx.ftz.f32 #, #;", _F, "MUFU.SIN"),
    PipeOp("mufu_tanh", "tanh.approx.f32 #, #;", _F, "MUFU.TANH"),
    PipeOp("i2f", "cvt.rn.f32.u32 t, #; mov.b32 #, t;", _U, "I2FP.F32.U32", ".reg .f32 t;"),
    PipeOp("f2i", "mov.b32 t, #; cvt.rzi.u32.f32 #, t;", _U, "F2I.U32.TRUNC.NTZ", ".reg .f32 t;"),
    PipeOp("hadd2", "add.rn.f16x2 #, #, w;", _U, "HADD2"),
    PipeOp("hfma2", "fma.rn.f16x2 #, #, #, w;", _U, "HFMA2", warps=_THROUGH),
    PipeOp("hfma2_bf16", "fma.rn.bf16x2 #, #, #, w;", _U, "HFMA2.BF16_V2"),
    PipeOp("dadd", "add.rn.f64 #, #, w;", _D, "DADD"),
    PipeOp("dmul", "mul.rn.f64 #, #, w;", _D, "DMUL"),
    PipeOp("dfma", "fma.rn.f64 #, #, #, w;", _D, "DFMA", warps=_THROUGH),
    PipeOp("mma_f16", _F16, _F, "HMMA.16816.F32", _MATRIX, _THROUGH),
    PipeOp("mma_tf32", _TF32, _F, "HMMA.1688.F32.TF32", _MATRIX),
    PipeOp("shfl", "shfl.sync.bfly.b32 #, #, 1, 31, 0xffffffff;", _U, "SHFL.BFLY", warps=_THROUGH),
    PipeOp("vote", "setp.ne.s32 q, #, w; vote.sync.ballot.b32 #, q, 0xffffffff;", _U, "VOTE.ANY", _PREDICATE),
    PipeOp("match_any", "match.any.sync.b32 #, #, 0xffffffff;", _U, "MATCH.ANY", warps=(1, 4)),
    PipeOp("match_all", "match.all.sync.b32 #, #, 0xffffffff;", _U, "MATCH.ALL", warps=(1, 4)),
    PipeOp("redux", "redux.sync.add.u32 #, #, 0xffffffff;", _U, "REDUX.SUM"),
    PipeOp("redux_min", "redux.sync.min.u32 #, #, 0xffffffff;", _U, "REDUX.MIN"),
)


@bench(
    "pipe_{0.name}",
    "How long does {0.opcode} take ({0.line}), and how many of them does an SM start per cycle?",
    "cycles; warp instructions per cycle",
    over=OPS,
    slack=0.05,
)
def _pipe(op: PipeOp) -> Any:
    own = op.declare.replace("#", "v")
    few = block([op.line.replace("#", "v")] * _FEW, op.kind, own)
    more = block([op.line.replace("#", "v")] * _MORE, op.kind, own)
    registers = [f"v{k}" for k in range(8)]
    each = " ".join(dict.fromkeys(op.declare.replace("#", register) for register in registers))
    many = eight([op.line.replace("#", registers[k % 8]) for k in range(_MANY)], op.kind, each)

    def kernel(x: Any, rounds: Any, out: Any) -> None:
        """x: start values, one per thread, and one more. out [warp]: three clocks of the chain, two of the loop."""
        t = cuda.threadIdx.x
        v = x[t]
        w = x[t + 1]
        first = middle = last = start = stop = np.uint32(0)
        k = np.int32(0)
        while k < rounds:
            first = clock()
            v = few(v, w)
            middle = clock()
            v = more(v, w)
            last = clock()
            k = after(k)
        a = b = c = d = e = f = g = h = v
        n = np.int32(0)
        while n < 2:
            cuda.syncthreads()
            start = clock()
            k = np.int32(0)
            while k < rounds:
                a, b, c, d, e, f, g, h = many(a, b, c, d, e, f, g, h, w)
                k = after(k)
            stop = clock()
            n = after(n)
        record_warp(out, t, (first, middle, last, start, stop))
        x[t] = a + b + c + d + e + f + g + h

    def case(warps: int) -> Case:
        def reduce(rows: np.ndarray) -> dict[str, float]:
            found = {"per_cycle": warps * _MANY * _ROUNDS / span(rows[:, 3], rows[:, 4])}
            return found | ({"latency": chain_latency(rows[0, :3], _FEW, _MORE)} if warps == 1 else {})

        inputs = (np.arange(32 * warps + 1) % 29 + 3).astype(np.dtype(str(op.kind))), np.int32(_ROUNDS)
        return rows_case(f"warps={warps}", 1, 32 * warps, (warps, 5), inputs, reduce)

    return kernel, map(case, op.warps), {"opcodes": (op.opcode,)}
