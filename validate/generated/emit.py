"""From a program tree to the source of a Numba CUDA kernel.

Numba widens integers (int32 + int32 is an int64), so every result is cast back to its type. Products of floats go
through `fmul_rn`, which is never contracted with an addition to a fused multiply-add.
"""

from __future__ import annotations

import itertools
from typing import Any

from validate.generated.tree import (
    ATOMICS,
    INC_LIMIT,
    INPUTS,
    LOCALS,
    OUTPUTS,
    PLACES,
    SCALARS,
    SHARED_RESULTS,
    TYPES,
    Function,
    Kernel,
    Tree,
)

PARAMETERS = (*INPUTS, *OUTPUTS, *SHARED_RESULTS, *SCALARS)
_ROUNDED = {"f32": "libdevice.fmul_rn", "f64": "libdevice.dmul_rn"}
_HEAD = """\
tx = int32(cuda.threadIdx.x)
ty = int32(cuda.threadIdx.y)
tz = int32(cuda.threadIdx.z)
bx = int32(cuda.blockIdx.x)
by = int32(cuda.blockIdx.y)
bz = int32(cuda.blockIdx.z)
tid = int32(tx + cuda.blockDim.x * (ty + cuda.blockDim.y * tz))
blk = int32(bx + cuda.gridDim.x * (by + cuda.gridDim.y * bz))
gid = int32(blk * {threads} + tid)
lane = int32(tid & 31)
warp = int32(tid >> 5)
lanes = int32(min(32, {threads} - 32 * warp))
mask = uint32((uint64(1) << uint64(lanes)) - uint64(1))"""


def expression(e: Tree) -> str:
    """Source of an expression."""
    kind, t = e[0], e[1]
    name = TYPES[t]
    if kind == "const":
        return f"{name}({e[2]!r})"
    if kind == "var":
        return str(e[2])
    if kind == "cast":
        value, source = expression(e[2]), e[2][1]
        if source[0] == "f" and t[0] != "f":
            whole = f"{name}(int64({value}))" if t[0] == "u" else f"{name}({value})"
            return f"({whole} if math.fabs({value}) < {TYPES[source]}(1000000.0) else {name}(0))"
        return f"{name}({value})"
    if kind == "bin":
        return _binary(t, e[2], expression(e[3]), expression(e[4]))
    if kind == "un":
        return _unary(t, e[2], expression(e[3]))
    if kind == "fma":
        return f"{name}(cuda.fma({', '.join(map(expression, e[2:]))}))"
    if kind == "bits":
        return f"int32(cuda.{e[2]}({expression(e[3])}))"
    if kind == "sel":
        return f"({expression(e[3])} if {condition(e[2])} else {expression(e[4])})"
    if kind == "load":
        return f"{e[2]}[{_index(e[3], INPUTS[e[2]][1])}]"
    if kind == "own":
        return f"{e[2]}[{_own(e[2], e[3])}]"
    if kind == "local":
        return f"loc[{_index(e[2], LOCALS)}]"
    if kind == "shared":
        return f"s{e[2]}[uint32({expression(e[3])}) % uint32({e[4]})]"
    if kind == "call":
        return f"int32({e[2]}({expression(e[3])}, {expression(e[4])}))"
    raise ValueError(kind)


def _binary(t: str, op: str, a: str, b: str) -> str:
    name = TYPES[t]
    if op in ("min", "max"):
        return (
            f"({a} if {a} {'<' if op == 'min' else '>'} {b} else {b})"
            if t[0] == "f"
            else f"{name}({op}({a}, {b}))"
        )
    if op in ("//", "%"):
        b = f"{name}(({b} & {name}(31)) + {name}(1))"
    elif op in ("<<", ">>"):
        b = f"({b} & {name}({31 if '32' in t else 63}))"
    elif op == "/":
        b = f"{name}(math.fabs({b}) + {name}(1.0))"
    elif op == "*" and t[0] == "f":
        return f"{name}({_ROUNDED[t]}({a}, {b}))"
    return f"{name}({a} {op} {b})"


def _unary(t: str, op: str, a: str) -> str:
    name = TYPES[t]
    return {
        "neg": f"(-{a})" if t[0] == "f" else f"{name}({name}(0) - {a})",
        "inv": f"{name}(~{a})",
        "abs": f"{name}(math.fabs({a}))" if t[0] == "f" else f"({name}(-{a}) if {a} < {name}(0) else {a})",
        "sqrt": f"{name}(math.sqrt(math.fabs({a})))",
        "floor": f"{name}(math.floor({a}))",
    }[op]


def _index(e: Tree, items: int) -> str:
    return f"{expression(e)} & {items - 1}"


def _own(array: str, slot: Tree) -> str:
    items = OUTPUTS[array][1]
    return f"gid * {items} + ({_index(slot, items)})"


def condition(c: Tree) -> str:
    """Source of a condition."""
    kind = c[0]
    if kind == "cmp":
        return f"({expression(c[2])} {c[1]} {expression(c[3])})"
    if kind == "bit":
        return f"(({expression(c[1])} & {1 << c[2]}) != 0)"
    if kind == "not":
        return f"(not {condition(c[1])})"
    return f"({condition(c[1])} {kind} {condition(c[2])})"


class _Writer:
    """Collects lines at their indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.fresh = itertools.count()

    def add(self, text: str) -> None:
        self.lines += ["    " * self.depth + line for line in text.splitlines()]

    def inside(self, head: str, body: Any) -> None:
        self.add(head)
        self.depth += 1
        if body:
            self.block(body)
        else:
            self.add("pass")
        self.depth -= 1

    def block(self, statements: Tree) -> None:
        for each in statements:
            getattr(self, f"_{each[0]}")(*each[1:])

    def _set(self, t: str, name: str, value: Tree) -> None:
        self.add(f"{name} = {expression(value)}")

    def _if(self, test: Tree, then: Tree, other: Tree) -> None:
        self.inside(f"if {condition(test)}:", then)
        if other:
            self.inside("else:", other)

    def _for(self, name: str, count: int, body: Tree) -> None:
        counter = f"r{next(self.fresh)}"
        self.inside(f"for {counter} in range({count}):", (("raw", f"{name} = int32({counter})"), *body))

    def _while(self, name: str, bound: Tree, test: Tree | None, body: Tree) -> None:
        limit = f"b{next(self.fresh)}"
        self.add(f"{name} = int32(0)\n{limit} = int32({expression(bound)} & 7)")
        more = f" and {condition(test)}" if test else ""
        self.inside(f"while {name} < {limit}{more}:", (("raw", f"{name} = int32({name} + 1)"), *body))

    def _raw(self, text: str) -> None:
        self.add(text)

    def _break(self) -> None:
        self.add("break")

    def _continue(self) -> None:
        self.add("continue")

    def _return(self, *value: Tree) -> None:
        self.add(f"return {expression(value[0])}" if value else "return")

    def _store(self, array: str, slot: Tree, value: Tree) -> None:
        self.add(f"{array}[{_own(array, slot)}] = {expression(value)}")

    def _keep(self, index: Tree, value: Tree) -> None:
        self.add(f"loc[{_index(index, LOCALS)}] = {expression(value)}")

    def _atomic(self, array: str, op: str, place: Tree, value: Tree) -> None:
        first = PLACES * ATOMICS.index(op)
        added = f"uint32({INC_LIMIT})" if op == "inc" else expression(value)
        self.add(f"cuda.atomic.{op}({array}, {first} + ({_index(place, PLACES)}), {added})")

    def _barrier(self) -> None:
        self.add("cuda.syncthreads()")

    def _publish(self, array: int, stride: int, threads: int, test: Tree | None, value: Tree) -> None:
        self.add("cuda.syncthreads()")
        line = f"s{array}[(tid * {stride}) % {threads}] = {expression(value)}"
        self.add(f"if {condition(test)}:\n    {line}" if test else line)
        self.add("cuda.syncthreads()")

    def _together(self, body: Tree) -> None:
        self.add("cuda.syncthreads()")
        self.block(body)
        self.add("cuda.syncthreads()")

    def _shatomic(self, array: int, op: str, place: Tree, items: int, value: Tree) -> None:
        added = f"uint32({INC_LIMIT})" if op == "inc" else expression(value)
        self.add(f"cuda.atomic.{op}(s{array}, uint32({expression(place)}) % uint32({items}), {added})")

    def _reduce(self, array: int, op: str, half: int, t: str) -> None:
        step = f"h{next(self.fresh)}"
        joined = _binary(t, op, f"s{array}[tid]", f"s{array}[tid + {step}]")
        self.add(f"cuda.syncthreads()\n{step} = {half}\nwhile {step} > 0:")
        self.add(f"    if tid < {step}:\n        s{array}[tid] = {joined}")
        self.add(f"    cuda.syncthreads()\n    {step} >>= 1")

    def _warp(self, op: str, t: str, name: str, value: Tree, by: Tree | None, width: int) -> None:
        """A warp operation of the first `width` lanes, 0 for all there are; the others do not come here."""
        mask = f"uint32({(1 << width) - 1})" if width else "mask"
        inner = expression(value) if value[0] not in ("cmp", "bit", "not", "and", "or") else condition(value)
        if op == "shfl":
            assert by is not None
            where = f"int32(uint32({expression(by)}) % uint32({width or 'lanes'}))"
            line = f"cuda.shfl_sync({mask}, {inner}, {where})"
        elif op.startswith("shfl"):
            assert by is not None
            line = f"cuda.{op}_sync({mask}, {inner}, {expression(by)})"
        elif op == "match_any":
            line = f"cuda.match_any_sync({mask}, {inner})"
        elif op == "syncwarp":
            self.add(f"cuda.syncwarp({mask})")
            return
        else:
            line = f"cuda.{op}_sync({mask}, {inner})"
        self.add(f"{name} = {TYPES[t]}({line})")


def _function(function: Function) -> str:
    writer = _Writer()
    writer.add("v = a")
    writer.block(function.body)
    writer.add(f"return {expression(function.result)}")
    return "\n".join(["@cuda.jit(device=True)", f"def {function.name}(a, b):", *writer.lines])


def source(kernel: Kernel) -> str:
    """Python source of a kernel named `kernel` and of the device functions that it calls."""
    writer = _Writer()
    writer.add(_HEAD.format(threads=kernel.threads))
    for number, (kind, dynamic) in enumerate(kernel.shared):
        writer.add(f"s{number} = cuda.shared.array({0 if dynamic else kernel.threads}, {TYPES[kind]})")
    if kernel.local:
        writer.add(f"loc = cuda.local.array({LOCALS}, int32)\nfor q in range({LOCALS}):\n    loc[q] = q")
    writer.block(kernel.body)
    heads = [_function(each) for each in kernel.functions]
    return "\n\n".join([*heads, f"def kernel({', '.join(PARAMETERS)}):\n" + "\n".join(writer.lines)]) + "\n"


def function(kernel: Kernel, name: str = "generated") -> Any:
    """The kernel as a Python function that `isa.compile_kernel` and `numba.cuda.jit` take."""
    import math

    import numba
    from numba import cuda
    from numba.cuda import libdevice

    names: dict[str, Any] = {each: getattr(numba, each) for each in TYPES.values()}
    names |= {
        "__name__": "generated",
        "cuda": cuda,
        "libdevice": libdevice,
        "math": math,
        "min": min,
        "max": max,
    }
    exec(compile(source(kernel), f"{name}.py", "exec"), names)
    return names["kernel"]
