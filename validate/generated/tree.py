"""The little language of generated kernels: types, arrays and the shape of a program tree.

A tree is nested tuples, so it is immutable, compares by value and reads back from its `repr`. Expressions begin with
their kind and type, `("bin", "i32", "+", a, b)`; conditions with their kind, `("cmp", "<", a, b)`; statements with
their kind, `("set", "i32", "v0", expression)`. `emit.py` and `reference.py` each hold one line of meaning per kind.

Every kernel takes the same arguments (`ARRAYS`, `SCALARS`), so that one launch serves all. Kernels are free of races
and end: loops are bounded, threads write places of their own, all else goes through commutative atomics, and shared
memory is only read between barriers.
"""

from __future__ import annotations

import ast
from dataclasses import astuple, dataclass
from typing import Any

Tree = tuple[Any, ...]

TYPES = {"i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64", "f32": "float32", "f64": "float64"}
"""Type of an expression and its name in NumPy and Numba."""

INPUTS = {"ai": ("i32", 256), "al": ("i64", 128), "af": ("f32", 256), "ad": ("f64", 128)}
"""Arrays that are only read: type and items, a power of two."""

OUTPUTS = {"oi": ("i32", 4), "ol": ("i64", 2), "of": ("f32", 2), "od": ("f64", 2)}
"""Arrays in which every thread owns some items: type and items per thread, a power of two."""

SHARED_RESULTS = {"gi": "i32", "gu": "u32", "gl": "i64"}
"""Arrays for atomics of all threads: type. Each operation has `PLACES` items of its own."""

ATOMICS = ("add", "min", "max", "and_", "or_", "xor", "inc")
"""Atomics whose result does not depend on their order; `inc` (32-bit unsigned only) wraps at `INC_LIMIT`."""

PLACES = 8
INC_LIMIT = 21
SCALARS = {"n": "i32", "m": "i64", "x": "f32"}
"""Scalar arguments: the same for all threads, so conditions on them are uniform."""

LOCALS = 8
"""Items of the array in local memory."""

VARIABLES = {
    "i32": ("v0", "v1", "v2", "v3"),
    "u32": ("u0", "u1"),
    "i64": ("w0", "w1"),
    "u64": ("z0",),
    "f32": ("f0", "f1"),
    "f64": ("d0", "d1"),
}
"""A thread's variables, by type. Coordinates (`COORDINATES`) are further ones of type i32."""

COORDINATES = ("tid", "gid", "lane", "warp", "tx", "ty", "tz", "bx", "by", "bz", "blk")


@dataclass(frozen=True)
class FunctionTree:
    """A device function of two i32 parameters, a and b, that returns an i32."""

    name: str
    body: Tree
    result: Tree


@dataclass(frozen=True)
class KernelTree:
    """A generated kernel.

    grid, block: the launch. types: types whose variables are used. shared: (type, whether it is dynamic) of each
    shared array, s0 and s1, with one item per thread. local: whether there is an array in local memory.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    types: tuple[str, ...]
    shared: tuple[tuple[str, bool], ...]
    local: bool
    functions: tuple[FunctionTree, ...]
    body: Tree

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def total(self) -> int:
        """Threads of the launch."""
        return self.threads * self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory per block."""
        return sum(self.threads * (8 if "64" in kind else 4) for kind, dynamic in self.shared if dynamic)

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """(type, name) of the variables in use."""
        return tuple((kind, name) for kind in self.types for name in VARIABLES[kind])

    def to_text(self) -> str:
        """The tree as text, for `from_text`."""
        return repr(astuple(self))

    @classmethod
    def from_text(cls, text: str) -> KernelTree:
        """Read back what `to_text` wrote."""
        *rest, functions, body = ast.literal_eval(text)
        fields: list[Any] = [*rest, tuple(FunctionTree(*each) for each in functions), body]
        return cls(*fields)
