"""Kernels written in CUDA C++, and the arguments that only they take, described without compiler or simulator."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CudaSource:
    """A kernel in a file of CUDA C++, to be launched wherever a Python function is.

    module: `__name__` of the module that names it. file: path from that module's folder. entry: the kernel's C++ name;
    the file's stem if not given. arch: the architecture to compile for, such as 'sm_90a' for instructions of that one
    alone; that of the GPU if not given. options: of the compiler, such as ('-DTILE=16',).
    """

    module: str
    file: str
    entry: str = ""
    arch: str | None = None
    options: tuple[str, ...] = ()
    __name__: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # As on a function, so that whoever names kernels need not tell the two apart.
        name = self.entry or Path(self.file).stem
        for attribute, value in {"entry": name, "__name__": name, "__qualname__": name}.items():
            object.__setattr__(self, attribute, value)
        object.__setattr__(self, "__module__", self.module)

    @property
    def path(self) -> Path:
        """Path of the source."""
        return Path(sys.modules[self.module].__file__ or "").resolve().parent / self.file


@dataclass(frozen=True, eq=False)
class TensorMap:
    """An array argument that a kernel takes as `const __grid_constant__ CUtensorMap`, to copy boxes of it by TMA.

    array: dense in C order, of one to five dimensions; updated in place, as if it were the argument itself. box:
    elements of a copy along each dimension, in the order of the array's own. swizzle: 'none', '32B', '64B' or '128B'.
    dtype: name of the element type where NumPy has none, such as 'bfloat16' for an array of uint16.

    Raises ValueError for an array that is not dense.
    """

    array: Any
    box: Sequence[int]
    swizzle: str = "none"
    dtype: str = ""

    def __post_init__(self) -> None:
        step = self.array.dtype.itemsize
        for extent, stride in zip(reversed(self.array.shape), reversed(self.array.strides), strict=True):
            if stride != step:
                raise ValueError("a tensor map is of an array that is dense in C order")
            step *= extent

    @property
    def fields(self) -> tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...], str]:
        """Type, shape, strides in bytes of all dimensions but the first, box, and swizzle, the innermost dimension
        first, as the driver's cuTensorMapEncodeTiled takes them."""
        shape, strides = (tuple(reversed(each)) for each in (self.array.shape, self.array.strides))
        return self.dtype or str(self.array.dtype), shape, strides[1:], tuple(reversed(self.box)), self.swizzle

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.array.__array__(*args, **kwargs)


@dataclass(frozen=True, eq=False)
class Struct:
    """An argument that a kernel takes by value and that points to arrays, such as `struct { const float *x; int n; }`.

    data: its bytes, as they lie in memory. arrays: by the offset where the address of each is put; all are updated in
    place.
    """

    data: bytes
    arrays: Mapping[int, Any]

    @property
    def array(self) -> Any:
        """The last of the arrays: what a kernel writes comes last."""
        return [*self.arrays.values()][-1]


def array_of(argument: Any) -> Any:
    """An argument itself, and of a tensor map or a structure its array."""
    return argument.array if isinstance(argument, TensorMap | Struct) else argument
