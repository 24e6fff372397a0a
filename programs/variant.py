"""A program: a kernel, its inputs, its launch, its expected result and what it teaches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim.launch import CudaSource, Launch
from gpusim.launch.cuda import array_of

Kernel = Callable[..., None] | CudaSource
"""A plain Python function for `numba.cuda`, or a kernel of CUDA C++."""
MAX_SIZE = 1 << 28
"""Largest size any program takes: 2**28 four-byte elements are 1 GiB in one array."""


@dataclass(frozen=True, eq=False)
class Variant:
    """One runnable program, or one step of a family's ladder.

    name: 'family' for a single program, 'family/variant' in a family; the family is the module's name.
    kernel: a plain Python function for `numba.cuda`, undecorated, so that each user compiles it its own way; or, for
        what Numba cannot say, a `CudaSource`.
    teaches: one sentence for `gpusim list`.
    make: `make(size, seed)` builds the launch: fresh inputs, the same for the same seed, and outputs filled
        with a poison value, so that an element that the kernel does not write is seen. Raises ValueError for
        a size that the program cannot take.
    reference: `reference(launch)` computes, from the inputs of a launch that has not run yet, what each
        output must hold afterwards: a tuple of arrays in the order of `outputs`.
    outputs: indices into `launch.args` of the arrays, or tensor maps of arrays, that the kernel writes.
    sizes: (small, large), the sizes validated against hardware; a run executes some 1e4 to 1e5 warp
        instructions at the small size and a few million at the large one (up to 1e7 where the ladder's first
        step is that slow).
    default_size: the size of `gpusim run` without `--size`.
    test_size: a size of a few blocks at most, for oracles that execute one thread at a time.
    size_name: what `size` counts, e.g. 'elements'.
    recorded: hardware has counted it, and the simulator is held to that; not where the number of instructions depends
        on who gets a lock when, or where experiments of their own measure the same.
    polls: warps ask again and again for what others have to do, so that how many instructions they execute varies from
        launch to launch on hardware.
    gpu: a configuration that runs it, for which the tests run it.
    image: its machine code is in `programs.images`; else it is compiled when used, as a library's is, and what takes
        40 kB and nobody has recorded.
    rtol, atol: tolerance as in `numpy.isclose`, (0, 0) for bit-exact; each program justifies its own.
    """

    name: str
    kernel: Kernel
    teaches: str
    make: Callable[[int, int], Launch]
    reference: Callable[[Launch], tuple[np.ndarray, ...]]
    outputs: tuple[int, ...]
    sizes: tuple[int, int]
    default_size: int
    test_size: int
    size_name: str = "elements"
    polls: bool = False
    recorded: bool = True
    gpu: str = "h200"
    image: bool = True
    rtol: float = 0.0
    atol: float = 0.0

    @property
    def family(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    def results(self, launch: Launch) -> tuple[np.ndarray, ...]:
        """The output arrays of `launch`, in the order of `outputs` (not copies)."""
        return tuple(array_of(launch.args[index]) for index in self.outputs)

    def mismatch(self, expected: Sequence[np.ndarray], actual: Sequence[np.ndarray]) -> str | None:
        """Compare outputs with `reference`'s: None if they agree, else a sentence on the first difference."""
        for index, want, got in zip(self.outputs, expected, actual, strict=True):
            if want.shape != got.shape or want.dtype != got.dtype:
                return f"{self.name}: argument {index} is {_kind(got)}, expected {_kind(want)}"
            if self.rtol == self.atol == 0:
                bad = want != got
            else:
                # Compared in float64: in float32 the tolerance itself would be rounded.
                bad = ~np.isclose(got.astype(float), want.astype(float), rtol=self.rtol, atol=self.atol)
            if bad.any():
                where = tuple(int(axis[0]) for axis in np.nonzero(bad))
                return (
                    f"{self.name}: argument {index} differs in {int(bad.sum())} of {bad.size} elements, "
                    f"first at {where}: got {got[where]!r}, expected {want[where]!r}"
                )
        return None


def check_size(size: Any, size_name: str, *, multiple: int = 1, maximum: int = MAX_SIZE) -> int:
    """Return `size` if it is a positive multiple of `multiple` up to `maximum`, else raise ValueError."""
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise ValueError(f"size ({size_name}) must be an integer, got {size!r}")
    if not 1 <= size <= maximum or size % multiple:
        shape = "positive" if multiple == 1 else f"a positive multiple of {multiple}"
        raise ValueError(f"size ({size_name}) must be {shape} and at most {maximum}, got {size}")
    return int(size)


@dataclass(frozen=True)
class Size:
    """The unit of a program's size, the sizes at which it runs (see `Variant`), and those that it can take."""

    counts: str
    recorded: tuple[int, int]
    default: int
    test: int
    multiple: int = 1
    maximum: int = MAX_SIZE


Rung = tuple[Kernel, str, tuple[Any, ...], dict[str, Any]]
"""One variant of a ladder, as `step` describes it."""


def step(kernel: Kernel, teaches: str, *parameters: Any, **changes: Any) -> Rung:
    """One variant of a ladder, named after its kernel.

    parameters: what `make` is given besides kernel, size and generator. changes: another `name`, and what differs
    here from the ladder's make, reference, multiple, maximum and fields of `Variant`.
    """
    return kernel, teaches, parameters, changes


def ladder(size: Size, *rungs: Rung, **shared: Any) -> tuple[Variant, ...]:
    """The variants of a family, which is named after the kernels' module; so is a variant that stands alone.

    That module's functions `make` and `reference` are theirs unless said: `make(kernel, n, rng, *parameters)`, where n
    is a size that has been checked and rng a generator made from the seed, and `reference` as in `Variant`. shared:
    fields of `Variant` that all have; `outputs` is (1,) unless said.
    """
    home = vars(sys.modules[rungs[0][0].__module__])
    fields: dict[str, Any] = {name: home.get(name) for name in ("make", "reference")}
    fields |= dict(size_name=size.counts, sizes=size.recorded, default_size=size.default, test_size=size.test)
    fields |= dict(outputs=(1,), multiple=size.multiple, maximum=size.maximum) | shared
    return tuple(_variant(*each[:3], fields | each[3], alone=len(rungs) == 1) for each in rungs)


def _variant(kernel: Kernel, teaches: str, parameters: Any, fields: dict[str, Any], *, alone: bool) -> Variant:
    build, multiple, maximum = (fields.pop(name) for name in ("make", "multiple", "maximum"))
    family, name = kernel.__module__.rpartition(".")[2], fields.pop("name", kernel.__name__)

    def make(size: int, seed: int) -> Launch:
        n = check_size(size, fields["size_name"], multiple=multiple, maximum=maximum)
        return build(kernel, n, np.random.default_rng(seed), *parameters)

    return Variant(family if alone else f"{family}/{name}", kernel, teaches, make, **fields)


def ceil_div(a: int, b: int) -> int:
    """Number of pieces of `b` that cover `a`."""
    return -(-a // b)


def _kind(array: np.ndarray) -> str:
    return f"{array.dtype}{list(array.shape)}"
