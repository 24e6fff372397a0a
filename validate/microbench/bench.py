"""Parts of a microbenchmark: a kernel that isolates one mechanism, and the launches that are measured."""

from __future__ import annotations

import mmap
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.cli.parser import UserError

SMS = 132
"""SMs of the GPU that the suite is made for."""
ALONE = 120 * 1024
"""Bytes of shared memory that let only one block onto an SM."""


@dataclass(frozen=True, eq=False)
class Case:
    """One launch of a benchmark.

    key: what varies, such as 'warps=8'; unique in its benchmark. make: fresh arguments, NumPy arrays and scalars; the
    last array holds what was measured. reduce: from the arguments after the launch to named numbers, in the unit that
    the benchmark states. before: what has run when the measured launch begins, always after the launch itself once:
        'same': nothing else, and the arrays are as that left them.
        'cold': a kernel that reads so much that no data are left in L2; the arrays are as `make` made them.
        'evicted': kernels whose code and constants fill all caches of those.
        'other': both.
    slow: takes more than a second to simulate.
    """

    key: str
    grid: int
    block: int
    make: Callable[[], tuple[Any, ...]]
    reduce: Callable[[tuple[Any, ...]], dict[str, float]]
    shared_bytes: int = 0
    before: str = "same"
    slow: bool = False


@dataclass(frozen=True, eq=False)
class Bench:
    """A mechanism, isolated.

    name: unique. kernel: for `numba.cuda`. cluster: blocks of a cluster, 0 for none. rewrite: from the machine code
    (encodings in order) to the one to be measured, where the compiler cannot be told. `benches.toml` says what the
    others are.
    """

    name: str
    asks: str
    kernel: Callable[..., None]
    cases: Sequence[Case]
    unit: str = "cycles"
    tolerance: float = 0.1
    slack: float = 1.0
    opcodes: Sequence[str] = ()
    arch: str = "sm_90"
    cluster: int = 0
    rewrite: Callable[[Sequence[int]], Sequence[int]] | None = None


_ROWS = tomllib.loads(Path(__file__).with_name("benches.toml").read_text("utf-8"))
CALIBRATED = tomllib.loads(Path(__file__).with_name("calibrated.toml").read_text("utf-8"))["values"]
"""Which value of a configuration is made of which numbers: what `calibrate.py` reads."""
REGISTERED: defaultdict[str, list[Bench]] = defaultdict(list)
"""Benchmarks by the module that has them, in its order."""


def bench(name: str, *, over: Iterable[Any] = ((),)) -> Any:
    """Decorator of a function that gives a benchmark's kernel and cases, and further fields by name if need be.

    name: of its row in `benches.toml`. over: what the function is called with, a benchmark each: a tuple of arguments
    or one; name and question take them as `str.format` does. A kernel called `kernel` gets the benchmark's name, others
    may serve several.
    """

    def register(make: Callable[..., Any]) -> Callable[..., Any]:
        for each in over:
            variant = each if isinstance(each, tuple) else (each,)
            kernel, cases, *more = make(*variant)
            own = name.format(*variant)
            if kernel.__name__ == "kernel":
                kernel.__name__ = kernel.__qualname__ = own
            fields = _ROWS[make.__module__.rpartition(".")[2]][name] | dict(*more)
            asks = fields.pop("asks").format(*variant)
            REGISTERED[make.__module__].append(Bench(own, asks, kernel, tuple(cases), **fields))
        return make

    return register


# many parameters: those of a launch, and what is made of it
def rows_case(
    key: str, grid: int, block: int, shape: tuple[int, int], inputs: tuple[Any, ...],
    reduce: Callable[[np.ndarray], dict[str, float]], **more: Any,
) -> Case:  # fmt: skip
    """A case whose last argument is made here: zeros, uint32 of `shape` (rows, columns). inputs: the arguments
    before it. reduce: from the rows that the kernel has left there, as int64. more: further fields of the case."""
    count, columns = shape

    def make() -> tuple[Any, ...]:
        return *inputs, np.zeros(count * columns, np.uint32)

    return Case(key, grid, block, make, lambda args: reduce(args[-1].reshape(-1, columns).astype(np.int64)), **more)


def summary(values: np.ndarray, prefix: str = "") -> dict[str, float]:
    """10 %, median, mean and 90 % of some numbers."""
    points = np.percentile(values, (10, 50, 90))
    found = {prefix + name: float(point) for name, point in zip(("p10", "median", "p90"), points, strict=True)}
    return found | {f"{prefix}mean": float(np.mean(values))}


def last_array(arguments: Sequence[Any]) -> int:
    """Position of the last array among the arguments: what a kernel measured."""
    return max(index for index, value in enumerate(arguments) if isinstance(value, np.ndarray))


def span(starts: np.ndarray, ends: np.ndarray) -> float:
    """Cycles from the first start to the last end of one SM, from clocks of 32 bits that may have wrapped."""
    origin = starts[0]
    first, last = ((each - origin + 2**31) % 2**32 for each in (starts, ends))
    return float(last.max() - first.min())


def by_sm(rows: np.ndarray, column: int = 2) -> list[np.ndarray]:
    """The rows of each SM, whose number is in that column."""
    return [rows[rows[:, column] == sm] for sm in np.unique(rows[:, column])]


def spans_by_sm(rows: np.ndarray) -> list[float]:
    """`span` of each SM, from rows that begin with a start, an end and the SM's number."""
    return [span(mine[:, 0], mine[:, 1]) for mine in by_sm(rows)]


def waits(rows: np.ndarray, last: int = 1) -> np.ndarray:
    """int64 [n]: cycles from the first clock of each row to the one in column `last`."""
    return (rows[:, last] - rows[:, 0]) % 2**32  # type: ignore[no-any-return]


def each(rows: np.ndarray, count: int) -> dict[str, float]:
    """Mean cycles of each of `count` operations that lie between the two clocks of a row."""
    return {"each": float(waits(rows).mean()) / count}


def per_step(rows: np.ndarray, names: Sequence[str]) -> dict[str, float]:
    """Mean cycles between the clocks of each row, by name."""
    return dict(zip(names, map(float, (np.diff(rows, axis=1) % 2**32).mean(axis=0)), strict=True))


def chain_latency(clocks: np.ndarray, few: int, more: int) -> float:
    """Cycles of one operation of a chain: `clocks` [3] lie around `few` of them and then around `more`."""
    steps = np.diff(clocks) % 2**32
    return float(steps[1] - steps[0]) / (more - few)


BLANK_BYTES = 64 << 20
"""An array from here on has no contents that matter: on the GPU and in the simulator it is allocated and not copied."""


def blank(nbytes: int) -> np.ndarray:
    """uint32 [nbytes / 4] of zeros that take no memory of the host until they are touched, however many."""
    if nbytes < BLANK_BYTES:
        return np.zeros(nbytes // 4, np.uint32)
    flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return np.frombuffer(mmap.mmap(-1, nbytes, flags=flags), np.uint32)


# --- all of them ------------------------------------------------------------------------------------------------------

_EVICT = (("code_size", "KiB=256 warps=1 sms=132 same"), ("constant_fill", "all"))
_MODULES = (
    *("pipes", "issue", "control", "frontend", "start", "constants", "queues", "shared", "l1", "l2", "dram"),
    *("atomics", "launch", "ahead", "copies", "mbarriers", "bulk", "clusters", "warpgroup"),
)


@cache
def benches() -> dict[str, Bench]:
    """Every benchmark by its name. Raises ValueError if two have the same."""
    found: dict[str, Bench] = {}
    for module in (f"validate.microbench.{each}" for each in _MODULES):
        import_module(module)
        for bench in REGISTERED[module]:
            keys = [case.key for case in bench.cases]
            if bench.name in found or len(set(keys)) < len(keys):
                raise ValueError(f"{bench.name} has the name of another benchmark, or two cases of one name")
            found[bench.name] = bench
    return found


def select(only: Sequence[str] = ()) -> list[Bench]:
    """Benchmarks whose names begin with one of `only`, all if that is empty. Raises UserError where none does."""
    for name in only:
        if not any(each.startswith(name) for each in benches()):
            raise UserError(f"no microbenchmark's name begins with {name}")
    return [bench for name, bench in benches().items() if not only or name.startswith(tuple(only))]


def evicting() -> list[tuple[Bench, Case]]:
    """Launches after which caches of code and constants hold nothing of other kernels."""
    found = []
    for name, key in _EVICT:
        bench = benches()[name]
        found.append((bench, next(case for case in bench.cases if case.key == key)))
    return found
