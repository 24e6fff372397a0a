"""Intrinsics of microbenchmarks that Numba lacks: clocks, the SM's number, loads with cache operators, blocks of chosen
instructions.

Each is PTX inline in the kernel, `volatile`, so that LLVM neither moves nor removes it. Names of registers and
operators: PTX ISA, "Special Registers" and "Cache Operators". Parts that kernels share are inlined by Numba: a device
function that is called would add a word to the constants, which were measured without it.
"""

from __future__ import annotations

import operator
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cuda
from numba.core import cgutils
from numba.cuda import types
from numba.cuda.extending import intrinsic

from programs.ptx import inline, pointer_to, shared_address_of

LINES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("lines.toml").read_text("utf-8"))
"""PTX that is measured, by benchmark."""
_REGISTERS = {types.uint32: "b32", types.uint64: "b64", types.float32: "f32", types.float64: "f64"}
"""PTX's type of a register, none where it is an integer, so that packed halves fit too."""


def ptx(text: str, arguments: str = "", results: int = 1) -> Callable[..., Any]:
    """`inline` whose results are words of 32 bits. arguments: a letter each, r for 32 bits and l for 64."""
    kinds = [{"r": types.uint32, "l": types.uint64}[each] for each in arguments]
    return inline(text, types.uint32 if results == 1 else types.UniTuple(types.uint32, results), kinds)


def block(lines: Iterable[str], kind: types.Type, declare: str = "") -> Callable[..., Any]:
    """A function `(v, w)` that runs these PTX lines on the registers `v` and `w` and returns `v`.

    declare: further registers, and what is done to them first.
    """
    register = _REGISTERS[kind]
    before = f".reg .{register} v, w; mov.{register} v, $1; mov.{register} w, $2; {declare}"
    return inline(f"{{ {before} {' '.join(lines)} mov.{register} $0, v; }}", kind, (kind, kind))


def eight(lines: Iterable[str], kind: types.Type, declare: str = "") -> Callable[..., Any]:
    """A function `(v0, ..., v7, w)` that runs these PTX lines and returns the registers `v0` to `v7`."""
    register = _REGISTERS[kind]
    before = f".reg .{register} v<8>, w; mov.{register} w, $16; {declare}"
    into = " ".join(f"mov.{register} v{k}, ${k + 8};" for k in range(8))
    out = " ".join(f"mov.{register} ${k}, v{k};" for k in range(8))
    return inline(f"{{ {before} {into} {' '.join(lines)} {out} }}", types.UniTuple(kind, 8), (kind,) * 9)


@intrinsic
def address(context: Any, array: Any, index: Any) -> Any:
    """Address of element `index` of a one-dimensional dense array, uint64: in device memory or generic."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = context.get_data_type(array.dtype)
        return builder.ptrtoint(pointer_to(context, builder, array, values[0], values[1], kind), ir.IntType(64))

    return types.uint64(array, types.int64), codegen


@intrinsic
def shared_address(context: Any, array: Any) -> Any:
    """Return where a shared array begins, as instructions for shared memory take it: uint32."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return shared_address_of(context, builder, array, values[0], ir.Constant(ir.IntType(64), 0))

    return types.uint32(array), codegen


@intrinsic
def record(context: Any, out: Any, place: Any, words: Any) -> Any:
    """Assign the words of a tuple to items of an array, one after the other from `place` on."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> None:
        array, at, given = values
        for k, (kind, word) in enumerate(zip(words, cgutils.unpack_tuple(builder, given), strict=True)):
            assign = context.get_function(operator.setitem, types.void(out, types.int64, kind))
            assign(builder, (array, builder.add(at, ir.Constant(at.type, k)), word))

    return types.void(out, types.int64, words), codegen


@cuda.jit(device=True, inline="always")
def record_warp(out: Any, thread: Any, words: Any) -> None:
    """Lane 0 of each warp records its warp's row of an array that has as many columns as there are words."""
    if thread & 31 == 0:
        record(out, len(words) * (thread >> 5), words)


@cuda.jit(device=True, inline="always")
def clear(tile: Any, words: Any) -> None:
    """All threads of a block zero words of shared memory."""
    k = np.int32(cuda.threadIdx.x)
    while k < words:
        tile[k] = np.uint32(0)
        k += np.int32(cuda.blockDim.x)


clock = ptx("mov.u32 $0, %clock;")
"""The SM's cycle counter, low half."""
clock_when = ptx("st.volatile.shared.u32 [$1], $2; mov.u32 $0, %clock;", "rr")
"""Store a word at a shared address, then read the clock: it waits for the word, since the store of it comes first."""
globaltimer = inline("mov.u64 $0, %globaltimer;", types.uint64)
"""Nanoseconds, the same for all SMs; the hardware updates it every 32 ns."""
smid = ptx("mov.u32 $0, %smid;")
"""Number of the SM."""
load_l2 = ptx("ld.global.cg.u32 $0, [$1];", "l")
"""A word, past the L1."""
store = ptx("st.global.u32 [$1], $2; mov.b32 $0, $2;", "lr")
"""Writes a word and returns it."""
after = inline("add.s32 $0, $1, 1;", types.int32, (types.int32,))
"""The next integer, in a way that no compiler sees through: a loop that counts with it is not unrolled."""


def timed_chain(few: Callable[..., Any], more: Callable[..., Any]) -> Callable[..., Any]:
    """A function `(value, out)` for kernels that runs two chains on a value, one behind the other, and all again. out
    [3]: clocks before, between and behind them."""

    @cuda.jit(device=True, inline="always")
    def run(value: Any, out: Any) -> None:
        k = np.int32(0)
        while k < 2:
            first = clock()
            value = few(value)
            middle = clock()
            value = more(value)
            last = clock()
            record(out, 0, (first, middle, last))
            k = after(k)

    return run


def timed(step: Callable[..., Any], *, both: bool = False) -> Callable[..., Any]:
    """A function `(value, given, rounds)` for kernels: all warps make `value = step(value, given)` so many times, and
    again behind a barrier. It returns the last value and the clocks around the second time. both: it reads the clock
    behind the first time too."""
    step = cuda.jit(device=True, inline="always")(step)

    @cuda.jit(device=True, inline="always")
    def run(value: Any, given: Any, rounds: Any) -> Any:
        start = end = np.uint32(0)
        turn = np.int32(0)
        while turn < 2:
            cuda.syncthreads()
            start = clock()
            k = np.int32(0)
            while k < rounds:
                value = step(value, given)
                k = after(k)
            if both:
                end = clock()
            turn = after(turn)
        return value, start, end if both else clock()

    return run
