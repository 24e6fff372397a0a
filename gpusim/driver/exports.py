"""Functions that each library exports, for programs in this process and elsewhere.

A library's functions are those of `symbols.txt` of its room: those that are not declared in the table are refused
(`reason` says why), so that a program that links one it never calls can start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module, resources
from pathlib import Path
from pkgutil import iter_modules

from gpusim.driver.codes import DriverError, ManagementCode, ProfilerCode, ResultCode, fail_if, say
from gpusim.driver.registry import ENTRY_POINTS, EntryPoint, same
from gpusim.driver.state import Driver

_TEXT = Path(__file__).with_name("refused.txt").read_text("utf-8")
REASONS = [tuple(reversed(line.split("\t"))) for line in _TEXT.splitlines()[1:]]
"""Reasons for refusals, each with a pattern of the functions' names; the first that matches counts."""
ASKED_BY_LIBRARIES = ("cudaGetExportTable", "cuDeviceGetLuid")
"""Functions that libraries try and do without: their refusal is not printed."""


def reason(symbol: str) -> str:
    """Return why a function is refused. Raises KeyError if no reason matches."""
    for why, names in REASONS:
        if re.search(names, symbol):
            return why
    raise KeyError(symbol)


def _refuse(symbol: str, driver: Driver) -> None:
    """The user is told each reason once; programs ask the management library for all that they can."""
    fail_if(symbol.startswith("nvml"), ManagementCode.NOT_SUPPORTED)
    why = reason(symbol)
    if why not in driver.told and symbol not in ASKED_BY_LIBRARIES:
        driver.told.add(why)
        say(f"{symbol} is not supported: {why}")
    raise DriverError((ProfilerCode if symbol[:5] == "cupti" else ResultCode).NOT_SUPPORTED)


def refusal(symbol: str) -> EntryPoint:
    """Make the answer of a function that is refused."""
    return EntryPoint(symbol, (), (), partial(_refuse, symbol), since=0, anytime=not symbol.startswith("nvml"))


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

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Names of all exported functions, sorted."""
        found = set()
        for line in resources.files(self.package).joinpath(self.listed).read_text().split():
            version, _, name = line.rpartition("/")
            if not line.startswith("#") and int(version or self.version) == self.version:
                found.add(name)
        return tuple(sorted(found))

    def point(self, symbol: str) -> EntryPoint:
        """Return the entry point that answers a function."""
        return self.declared(symbol) or refusal(symbol)

    def declared(self, symbol: str) -> EntryPoint | None:
        """Return a function's entry point, None if it is refused; a variant whose stream 0 is the calling thread's own
        has the same one."""
        name = re.sub(r"_pt(ds|sz)$", "", symbol)
        found = ENTRY_POINTS.get(f"{name}@{self.version}") or ENTRY_POINTS.get(name)
        return replace(found, per_thread=True) if found and name != symbol else found


NVTX = "libgpusim-nvtx.so"
_NAMES = ("blas", "cupti", "dnn", "fft", "management", "nccl", "nvtx", "runtime", "sparse")
_ROOMS = [f"gpusim.driver.libraries.{name}" for name in _NAMES]
_BLAS, _CUPTI, _DNN, _FFT, _MANAGEMENT, _NCCL, _NVTX, _RUNTIME, _SPARSE = _ROOMS
LIBRARIES = {
    each.soname: each
    for each in (
        Library(DRIVER, "gpusim.driver"),
        Library("libnvidia-ml.so.1", _MANAGEMENT),
        Library(NVTX, _NVTX),
        Library("libnccl.so.2", _NCCL),
        Library("libcudnn.so.9", _DNN, versioned=True),
        *(Library(f"libcufft.so.{version}", _FFT, version, True) for version in (11, 12)),
        Library("libcusparse.so.12", _SPARSE, versioned=True),
        *(Library(f"libcupti.so.{version}", _CUPTI, version, True) for version in (12, 13)),
        *(Library(f"libcudart.so.{version}", _RUNTIME, version, True) for version in (12, 13)),
        *(Library(f"libcublas.so.{version}", _BLAS, version, True) for version in (12, 13)),
        *(Library(f"libcublasLt.so.{version}", _BLAS, version, True, "symbols_lt.txt") for version in (12, 13)),
    )
}
"""By name."""


def declare_all() -> None:
    """Load every module with entry points: the driver's, then those of the libraries over it."""
    for room in ("gpusim.driver.api", *_ROOMS):
        for module in iter_modules(import_module(room).__path__, f"{room}."):
            import_module(module.name)
    for library in LIBRARIES.values():
        if library.package == _RUNTIME:
            declare_same(library.symbols, library.version)


def declare_same(symbols: Sequence[str], version: int) -> None:
    """Declare the functions of a library that are the driver's: those of its `renamed.txt`, and all that no other file
    declares and the driver has by the same name, in their newest variant. Where a library has a second variant by a
    name of its own, the plain name is that of the first. version: of the library."""
    names = {re.sub(r"_pt(ds|sz)$", "", symbol) for symbol in symbols} - {"cudaGetExportTable"}  # which is refused
    renamed = resources.files(_RUNTIME).joinpath("renamed.txt").read_text().splitlines()
    for *symbols, other in map(str.split, renamed):
        for symbol in set(symbols).difference(ENTRY_POINTS):
            same(symbol, other)
    for name in sorted(names):
        other, first = name.replace("cuda", "cu", 1), f"{name}_v2" in names
        variants = (other,) if first or re.search(r"_v\d$", name) else (f"{other}_v3", f"{other}_v2", other)
        found = next((each for each in variants if each in ENTRY_POINTS), None)
        symbol = f"{name}@{version}" if first else name
        if found is not None and symbol not in ENTRY_POINTS:
            same(symbol, found)
