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
        """What answers a function."""
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


LIBRARIES: dict[str, Library] = {}
"""By name; a room that provides one adds it."""


def provide(library: Library) -> Library:
    """Add a library."""
    LIBRARIES[library.soname] = library
    return library


provide(Library(DRIVER, "gpusim.driver"))


def declare_all() -> None:
    """Load every module with entry points: the driver's, then those of the libraries over it."""
    api = "gpusim.driver.api"
    for module in iter_modules(import_module(api).__path__, f"{api}."):
        import_module(module.name)
    for room in ("blas", "management", "runtime"):
        import_module(f"gpusim.driver.libraries.{room}.libraries")
