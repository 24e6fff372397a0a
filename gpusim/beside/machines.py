"""Machines by name, and what can be asked of all of them."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpusim.beside import cpu, systolic
from gpusim.beside.product import ProductRun
from gpusim.beside.sections import CPU, SYSTOLIC, CpuConfig, SystolicConfig
from gpusim.config.load import Kind, load
from gpusim.errors import ConfigError

Named = str | Path | SystolicConfig | CpuConfig
"""A shipped name, a TOML file, or what `load_machine` gives."""


def shipped_machines() -> tuple[str, ...]:
    """Names of the machines that come with gpusim: accelerators, then CPUs."""
    return (*SYSTOLIC.names(), *CPU.names())


def load_machine(
    machine: Named, overrides: Mapping[str, Any] | Iterable[str] | None = None
) -> SystolicConfig | CpuConfig:
    """A machine. overrides: as for `gpusim.load_config`. Raises ConfigError for what is wrong with any of it."""
    kind = CPU if isinstance(machine, CpuConfig) else SYSTOLIC
    if isinstance(machine, str | Path):
        kind = _kind(str(machine), Path())
    return load(kind, machine, overrides)  # type: ignore[no-any-return]


def _kind(name: str, folder: Path) -> Kind:
    """What a name or a file describes: what its base does, or a CPU if it has cores."""
    for kind in (SYSTOLIC, CPU):
        if name in kind.names():
            return kind
    path = folder / Path(name).expanduser()
    if not path.is_file():
        close = difflib.get_close_matches(name.lower(), shipped_machines(), n=1, cutoff=0.5)
        reason = f"no machine {name!r}: it is neither a file nor one of {', '.join(shipped_machines())}"
        raise ConfigError(reason, suggestion=close[0] if close else None)
    try:
        tree = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):  # which reading it as either will say
        return SYSTOLIC
    base = tree.get("base")
    if isinstance(base, str) and (path.parent / base).resolve() != path.resolve():
        return _kind(base, path.parent)
    return CPU if "cores" in tree else SYSTOLIC


def matrix_product(machine: Named, m: int, n: int, k: int) -> ProductRun:
    """How a machine multiplies an m x k by a k x n matrix that lie in its memory, m, n, k at least 1.

    Raises ConfigError for a machine that does not exist, ValueError for sizes that it cannot take.
    """
    if min(m, n, k) < 1:
        raise ValueError(f"a matrix has at least one row and one column, not {m} x {n} x {k}")
    found = load_machine(machine)
    return (cpu if isinstance(found, CpuConfig) else systolic).multiply(found, m, n, k)  # type: ignore[arg-type]


def dependent_load_us(machine: Named, nbytes: int) -> float:
    """Microseconds of a load whose address the one before has given, in a working set of so many bytes.

    An accelerator without caches goes to its memory each time.
    """
    found = load_machine(machine)
    if isinstance(found, CpuConfig):
        for level in (found.l1, found.l2, found.l3):
            if nbytes <= level.bytes:
                return level.latency_cycles / found.chip.clock_mhz
    return found.memory.latency_us
