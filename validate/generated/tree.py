"""The little language of generated kernels: types, arrays and the shape of a program tree.

A tree is nested tuples, so it is immutable and compares by value. Expressions begin with
their kind and type, `("bin", "i32", "+", a, b)`; conditions with their kind, `("cmp", "<", a, b)`; statements with
their kind, `("set", "i32", "v0", expression)`. `emit.py` holds their meaning, a line per kind.

Every kernel takes the same arguments (`ARRAYS`, `SCALARS`), so that one launch serves all. Kernels are free of races
and end: loops are bounded, threads write places of their own, all else goes through commutative atomics, and shared
memory is only read between barriers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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


def arguments(threads: int, seed: int) -> dict[str, Any]:
    """Fresh arguments by name for a launch of so many threads: random inputs, poisoned outputs, results of atomics
    at 7, scalars.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    found: dict[str, Any] = {}
    for name, (t, items) in INPUTS.items():
        if t[0] == "f":  # small multiples of an eighth, some wild
            found[name] = (random.integers(-64, 64, items) / 8).astype(TYPES[t])
            found[name][::16] *= random.random(len(found[name][::16])).astype(TYPES[t])
        else:
            small, limit = random.integers(-9, 9, items), 1 << (30 if t == "i32" else 62)
            wild = random.integers(-limit, limit, items)
            found[name] = np.where(random.integers(0, 4, items) == 0, wild, small).astype(TYPES[t])
    for name, (t, items) in OUTPUTS.items():
        found[name] = np.full(threads * items, 77, TYPES[t])
    for name, t in SHARED_RESULTS.items():
        found[name] = np.full(PLACES * len(ATOMICS), 7, TYPES[t])
    found["n"] = np.int32(random.integers(-3, 9))
    found["m"] = np.int64(random.integers(-9, 9))
    found["x"] = np.float32(random.integers(-16, 16) / 4)
    return found
