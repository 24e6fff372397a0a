"""Which functions each library exports, for programs in this process and elsewhere.

A library's functions are those of `symbols.txt` of its room: those that are not declared in the table are refused
(`refused`), so that a program that links one it never calls can start.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module, resources
from pkgutil import iter_modules

from gpusim.driver.libraries.runtime.names import declare_same
from gpusim.driver.refused import refusal
from gpusim.driver.registry import ENTRY_POINTS, EntryPoint

DRIVER = "libcuda.so.1"


@dataclass(frozen=True)
class Library:
    """A library by its name in ELF's DT_SONAME. package: whose `symbols.txt`, or another file, lists its functions.
    version: of the API, 0 where there is only one. versioned: its symbols carry its name as their version, as the
    vendor's do."""

    soname: str
    package: str
    version: int = 0
    versioned: bool = False
    listed: str = "symbols.txt"

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of all exported functions, sorted."""
        return _symbols(self)

    def point(self, symbol: str) -> EntryPoint:
        """Return the entry point that answers a function."""
        return self.declared(symbol) or refusal(symbol)

    def declared(self, symbol: str) -> EntryPoint | None:
        """What does a function, None for one that is refused; its variant whose stream 0 is the calling thread's own
        does the same there."""
        name = re.sub(r"_pt(ds|sz)$", "", symbol)
        found = ENTRY_POINTS.get(f"{name}@{self.version}") or ENTRY_POINTS.get(name)
        return replace(found, per_thread=True) if found and name != symbol else found


@cache
def _symbols(library: Library) -> tuple[str, ...]:
    found = set()
    for line in resources.files(library.package).joinpath(library.listed).read_text().split():
        version, _, name = line.rpartition("/")
        if not line.startswith("#") and int(version or library.version) == library.version:
            found.add(name)
    return tuple(sorted(found))


_BLAS, _MANAGEMENT, _RUNTIME = (f"gpusim.driver.libraries.{room}" for room in ("blas", "management", "runtime"))
LIBRARIES = {
    each.soname: each
    for each in (
        Library(DRIVER, "gpusim.driver"),
        Library("libnvidia-ml.so.1", _MANAGEMENT),
        *(Library(f"libcudart.so.{version}", _RUNTIME, version, True) for version in (12, 13)),
        *(Library(f"libcublas.so.{version}", _BLAS, version, True) for version in (12, 13)),
        *(Library(f"libcublasLt.so.{version}", _BLAS, version, True, "symbols_lt.txt") for version in (12, 13)),
    )
}
"""By name."""


def declare_all() -> None:
    """Load every module with entry points: the driver's, then those of the libraries over it."""
    for room in ("gpusim.driver.api", _BLAS, _MANAGEMENT, _RUNTIME):
        for module in iter_modules(import_module(room).__path__, f"{room}."):
            import_module(module.name)
    for library in LIBRARIES.values():
        if library.package == _RUNTIME:
            declare_same(library.symbols, library.version)
