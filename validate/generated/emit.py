"""From a program tree to CUDA C++, many kernels in one cubin.

Arithmetic goes through small functions (`PRELUDE`) that say what the language means where C++ leaves it undefined:
integers wrap, shifts and divisors are brought into range, division rounds down.
"""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

from validate.generated import build, tree
from validate.generated.tree import KernelTree

#: Kernels of one cubin.
PER_CUBIN = 20

NAMES = {
    "i32": "int",
    "u32": "unsigned",
    "i64": "long long",
    "u64": "unsigned long long",
    "f32": "float",
    "f64": "double",
}
_OPERATORS = {
    **{"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "quotient", "%": "rest"},
    **{"&": "both", "|": "either", "^": "differ", "<<": "left", ">>": "right", "min": "least", "max": "most"},
}
_ATOMIC = {"add": "Add", "min": "Min", "max": "Max", "and_": "And", "or_": "Or", "xor": "Xor"}
_BITS = {"popc": "__popc", "clz": "__clz", "ffs": "(int)__ffs", "brev": "(int)__brev"}

PRELUDE = r"""
#define DEVICE __device__ __forceinline__
#define BOTH(T, U, W) \
  DEVICE T add(T a, T b) { return (T)((U)a + (U)b); } \
  DEVICE T sub(T a, T b) { return (T)((U)a - (U)b); } \
  DEVICE T mul(T a, T b) { return (T)((U)a * (U)b); } \
  DEVICE T both(T a, T b) { return a & b; } \
  DEVICE T either(T a, T b) { return a | b; } \
  DEVICE T differ(T a, T b) { return a ^ b; } \
  DEVICE T left(T a, T b) { return (T)((U)a << (b & (W - 1))); } \
  DEVICE T right(T a, T b) { return a >> (b & (W - 1)); } \
  DEVICE T least(T a, T b) { return a < b ? a : b; } \
  DEVICE T most(T a, T b) { return a > b ? a : b; } \
  DEVICE T neg(T a) { return (T)(0 - (U)a); } \
  DEVICE T inv(T a) { return ~a; } \
  DEVICE T quotient(T a, T b) { T d = (b & 31) + 1; T q = a / d; return a % d < 0 ? q - 1 : q; } \
  DEVICE T rest(T a, T b) { T d = (b & 31) + 1; T r = a % d; return r < 0 ? r + d : r; }
#define REAL(T, MUL, FABS, SQRT, FLOOR, FMA) \
  DEVICE T add(T a, T b) { return a + b; } \
  DEVICE T sub(T a, T b) { return a - b; } \
  DEVICE T mul(T a, T b) { return MUL(a, b); } \
  DEVICE T div(T a, T b) { return a / (FABS(b) + (T)1); } \
  DEVICE T least(T a, T b) { return a < b ? a : b; } \
  DEVICE T most(T a, T b) { return a > b ? a : b; } \
  DEVICE T neg(T a) { return -a; } \
  DEVICE T magnitude(T a) { return FABS(a); } \
  DEVICE T root(T a) { return SQRT(FABS(a)); } \
  DEVICE T below(T a) { return FLOOR(a); } \
  DEVICE T fused(T a, T b, T c) { return FMA(a, b, c); } \
  DEVICE long long whole(T a) { return FABS(a) < (T)1000000 ? (long long)(int)a : 0; }
BOTH(int, unsigned, 32)
BOTH(unsigned, unsigned, 32)
BOTH(long long, unsigned long long, 64)
BOTH(unsigned long long, unsigned long long, 64)
REAL(float, __fmul_rn, fabsf, sqrtf, floorf, fmaf)
REAL(double, __dmul_rn, fabs, sqrt, floor, fma)
DEVICE int magnitude(int a) { return a < 0 ? neg(a) : a; }
DEVICE long long magnitude(long long a) { return a < 0 ? neg(a) : a; }
"""

_HEAD = """\
const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z, bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
const int tid = tx + blockDim.x * (ty + blockDim.y * tz), blk = bx + gridDim.x * (by + gridDim.y * bz);
const int gid = blk * {threads} + tid, lane = tid & 31, warp = tid >> 5, lanes = min(32, {threads} - 32 * warp);
const unsigned mask = (unsigned)((1ull << lanes) - 1);
int k0, k1, k2, k3, k4, k5, k6, k7;"""


def expression(e: tree.Tree) -> str:
    """C++ of an expression."""
    kind, t = e[0], e[1]
    if kind == "const":
        return _constant(t, e[2])
    if kind == "var":
        return str(e[2])
    if kind == "cast":
        value = expression(e[2])
        if e[2][1][0] == "f" and t[0] != "f":
            value = f"whole({value})"
        return f"(({NAMES[t]})({value}))"
    if kind == "bin":
        return f"{_OPERATORS[e[2]]}({expression(e[3])}, {expression(e[4])})"
    if kind == "un":
        name = {"abs": "magnitude", "sqrt": "root", "floor": "below"}.get(e[2], e[2])
        return f"{name}({expression(e[3])})"
    if kind == "fma":
        return f"fused({', '.join(map(expression, e[2:]))})"
    if kind == "bits":
        return f"{_BITS[e[2]]}({expression(e[3])})"
    if kind == "sel":
        return f"({condition(e[2])} ? {expression(e[3])} : {expression(e[4])})"
    if kind == "load":
        return f"{e[2]}[{_index(e[3], tree.INPUTS[e[2]][1])}]"
    if kind == "own":
        return f"{e[2]}[{_own(e[2], e[3])}]"
    if kind == "local":
        return f"loc[{_index(e[2], tree.LOCALS)}]"
    if kind == "shared":
        return f"s{e[2]}[(unsigned)({expression(e[3])}) % {e[4]}u]"
    if kind == "call":
        return f"{e[2]}({expression(e[3])}, {expression(e[4])})"
    raise ValueError(kind)


def _constant(t: str, value: Any) -> str:
    if t[0] == "f":
        return f"({NAMES[t]}){value!r}"
    return f"(({NAMES[t]}){value}{'ull' if t == 'u64' else 'll'})"


def _index(e: tree.Tree, items: int) -> str:
    return f"{expression(e)} & {items - 1}"


def _own(array: str, slot: tree.Tree) -> str:
    items = tree.OUTPUTS[array][1]
    return f"gid * {items} + ({_index(slot, items)})"


def condition(c: tree.Tree) -> str:
    """C++ of a condition."""
    kind = c[0]
    if kind == "cmp":
        return f"({expression(c[2])} {c[1]} {expression(c[3])})"
    if kind == "bit":
        return f"(({expression(c[1])} & {1 << c[2]}) != 0)"
    if kind == "not":
        return f"(!{condition(c[1])})"
    return f"({condition(c[1])} {'&&' if kind == 'and' else '||'} {condition(c[2])})"


class _Writer:
    """Collects lines."""

    def __init__(self, kernel: tree.KernelTree) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.fresh = itertools.count()
        self.add = self.lines.append

    def inside(self, head: str, body: tree.Tree, first: str = "") -> None:
        self.add(f"{head} {{ {first}")
        self.block(body)
        self.add("}")

    def block(self, statements: tree.Tree) -> None:
        for each in statements:
            getattr(self, f"_{each[0]}")(*each[1:])

    def _set(self, t: str, name: str, value: tree.Tree) -> None:
        self.add(f"{name} = {expression(value)};")

    def _if(self, test: tree.Tree, then: tree.Tree, other: tree.Tree) -> None:
        self.inside(f"if ({condition(test)})", then)
        if other:
            self.inside("else", other)

    def _for(self, name: str, count: int, body: tree.Tree) -> None:
        step = f"r{next(self.fresh)}"
        self.inside(f"for (int {step} = 0; {step} < {count}; {step}++)", body, f"{name} = {step};")

    def _while(self, name: str, bound: tree.Tree, test: tree.Tree | None, body: tree.Tree) -> None:
        limit = f"b{next(self.fresh)}"
        self.add(f"{name} = 0; const int {limit} = {expression(bound)} & 7;")
        more = f" && {condition(test)}" if test else ""
        self.inside(f"while ({name} < {limit}{more})", body, f"{name} = {name} + 1;")

    def _break(self) -> None:
        self.add("break;")

    def _continue(self) -> None:
        self.add("continue;")

    def _return(self, *value: tree.Tree) -> None:
        self.add(f"return {expression(value[0])};" if value else "return;")

    def _store(self, array: str, slot: tree.Tree, value: tree.Tree) -> None:
        self.add(f"{array}[{_own(array, slot)}] = {expression(value)};")

    def _keep(self, index: tree.Tree, value: tree.Tree) -> None:
        self.add(f"loc[{_index(index, tree.LOCALS)}] = {expression(value)};")

    def _atomic(self, array: str, op: str, place: tree.Tree, value: tree.Tree) -> None:
        first = tree.PLACES * tree.ATOMICS.index(op)
        self._update(f"{array} + {first} + ({_index(place, tree.PLACES)})", tree.SHARED_RESULTS[array], op, value)

    def _shatomic(self, array: int, op: str, place: tree.Tree, items: int, value: tree.Tree) -> None:
        where = f"&s{array}[(unsigned)({expression(place)}) % {items}u]"
        self._update(where, value[1], op, value)

    def _update(self, where: str, t: str, op: str, value: tree.Tree) -> None:
        if op == "inc":
            self.add(f"atomicInc({where}, {tree.INC_LIMIT}u);")
            return
        # Of 64-bit operations only the comparisons exist for signed words; the others do the same for both.
        name = "unsigned long long" if t == "i64" and op not in ("min", "max") else NAMES[t]
        self.add(f"atomic{_ATOMIC[op]}(({name}*)({where}), ({name})({expression(value)}));")

    def _barrier(self) -> None:
        self.add("__syncthreads();")

    def _publish(self, array: int, stride: int, threads: int, test: tree.Tree | None, value: tree.Tree) -> None:
        self._barrier()
        when = f"if ({condition(test)}) " if test else ""
        self.add(f"{when}s{array}[(tid * {stride}) % {threads}] = {expression(value)};")
        self._barrier()

    def _together(self, body: tree.Tree) -> None:
        self._barrier()
        self.block(body)
        self._barrier()

    def _reduce(self, array: int, op: str, half: int, t: str) -> None:
        step = f"h{next(self.fresh)}"
        joined = f"{_OPERATORS[op]}(s{array}[tid], s{array}[tid + {step}])"
        self._barrier()
        self.add(f"for (int {step} = {half}; {step} > 0; {step} >>= 1) {{")
        self.add(f"if (tid < {step}) s{array}[tid] = {joined};\n__syncthreads();\n}}")

    def _warp(self, op: str, t: str, name: str, value: tree.Tree, by: tree.Tree | None, width: int) -> None:
        mask = f"{(1 << width) - 1}u" if width else "mask"
        inner = condition(value) if value[0] in ("cmp", "bit", "not", "and", "or") else expression(value)
        if op == "syncwarp":
            self.add(f"__syncwarp({mask});")
            return
        if by is not None:
            where = f"(int)((unsigned)({expression(by)}) % (unsigned){width or 'lanes'})"
            inner += f", {where if op == 'shfl' else expression(by)}"
        self.add(f"{name} = ({NAMES[t]})__{op}_sync({mask}, {inner});")


def _function(function: tree.FunctionTree, kernel: tree.KernelTree, inline: str) -> str:
    writer = _Writer(kernel)
    writer.block(function.body)
    lines = "\n".join(writer.lines)
    end = f"return {expression(function.result)};"
    return f"__device__ {inline} int {function.name}(int a, int b) {{\nint v = a, k0;\n{lines}\n{end}\n}}"


def source(kernel: tree.KernelTree, name: str, *, restrict: bool = False, inline: bool = True) -> str:
    """C++ of a kernel, to stand after `PRELUDE`.

    restrict: inputs may be read through the read-only path. inline: whether device functions are inlined.
    """
    writer = _Writer(kernel)
    writer.add(_HEAD.format(threads=kernel.threads))
    for number, (kind, dynamic) in enumerate(kernel.shared):
        if dynamic:
            writer.add("extern __shared__ __align__(16) unsigned char dynamic[];")
            writer.add(f"{NAMES[kind]}* s{number} = ({NAMES[kind]}*)dynamic;")
        else:
            writer.add(f"__shared__ {NAMES[kind]} s{number}[{kernel.threads}];")
    for kind in kernel.types:
        writer.add(f"{NAMES[kind]} {', '.join(tree.VARIABLES[kind])};")
    if kernel.local:
        writer.add(f"int loc[{tree.LOCALS}]; for (int q = 0; q < {tree.LOCALS}; q++) loc[q] = q;")
    writer.block(kernel.body)
    kind_of = "const {}* __restrict__" if restrict else "const {}*"
    parameters = [f"{kind_of.format(NAMES[t])} {each}" for each, (t, _) in tree.INPUTS.items()]
    parameters += [f"{NAMES[t]}* {each}" for each, (t, _) in tree.OUTPUTS.items()]
    parameters += [f"{NAMES[t]}* {each}" for each, t in tree.SHARED_RESULTS.items()]
    parameters += ["int n", "long long m", "float x"]
    inlined = "__forceinline__" if inline else "__noinline__"
    functions = "\n".join(_function(each, kernel, inlined) for each in kernel.functions)
    body = "\n".join(writer.lines)
    head = f'extern "C" __global__ void {name}({", ".join(parameters)})'
    return f"namespace in_{name} {{\n{functions}\n{head} {{\n{body}\n}}\n}}\n"


def grown(first: int) -> tuple[str, dict[int, KernelTree]]:
    """CUDA C++ of the kernels of one cubin, and their trees by seed."""
    kernels = {seed: build.kernel(Random(seed)) for seed in range(first, first + PER_CUBIN)}
    sources = (
        source(each, f"gen{seed}", restrict=seed % 2 == 0, inline=seed % 3 != 0) for seed, each in kernels.items()
    )
    return PRELUDE + "".join(sources), kernels
