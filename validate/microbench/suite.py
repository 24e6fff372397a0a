"""All microbenchmarks, by unit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module

from validate.commands import UsageError
from validate.microbench.bench import REGISTERED, Bench, Case

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
    """Benchmarks whose names begin with one of `only`, all if that is empty. Raises UsageError where none does."""
    for name in only:
        if not any(each.startswith(name) for each in benches()):
            raise UsageError(f"no microbenchmark's name begins with {name}")
    return [bench for name, bench in benches().items() if not only or name.startswith(tuple(only))]


def evicting() -> list[tuple[Bench, Case]]:
    """Launches after which caches of code and constants hold nothing of other kernels."""
    found = []
    for name, key in _EVICT:
        bench = benches()[name]
        found.append((bench, next(case for case in bench.cases if case.key == key)))
    return found
