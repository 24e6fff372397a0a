"""The CUDA libraries in this process: `libcuda.so.1` and others, whose functions are Python functions of this package.

Each (see `elf.py`) is loaded by its path before anybody else asks for its name. The dynamic linker knows a loaded
library by the name that it carries, so whoever opens `libcuda.so.1` afterwards gets this one: `cuda.bindings`, and with
it Numba, cuda.core and what builds on them, and any C library that calls the driver or the runtime.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpusim.driver.codes import ResultCode
from gpusim.driver.elf import DONE, GONE, MACHINES, SLOTS, stub_library
from gpusim.driver.exports import DRIVER, LIBRARIES, Library, declare_all
from gpusim.driver.registry import GIVES_BACK, EntryPoint, answer
from gpusim.driver.state import Driver
from gpusim.errors import SimulationError
from isa.folders import cache_folder, put_file

declare_all()


class DriverLibraries:
    """All libraries, loaded. `driver` serves the calls; `serve` exchanges it, while no program holds its handles."""

    def __init__(self, driver: Driver):
        self._callbacks: dict[tuple[str, bool], Any] = {}
        self.serve(driver)
        self.loaded = {soname: _Loaded(library, self._answer) for soname, library in LIBRARIES.items()}
        os.register_at_fork(after_in_child=lambda: self.driver.leave_to_parent())

    @property
    def path(self) -> Path:
        """The driver library's file."""
        return self.loaded[DRIVER].path

    def serve(self, driver: Driver) -> None:
        """Let a driver answer the calls from now on."""
        self.driver = driver
        driver.address_of = self.address

    def close(self) -> None:
        """Let every function return CUDA_ERROR_DEINITIALIZED from now on, without the interpreter, which is about to
        end. Destructors of other libraries still call the driver then: to give something back succeeds."""
        self.driver.finish()
        self.driver.close()
        for each in self.loaded.values():
            each.close()

    def address(self, symbol: str) -> int | None:
        """Address of an exported function, None if there is none of this name."""
        found = (each.address(symbol) for each in self.loaded.values() if symbol in each.library.symbols)
        return next(found, None)

    def _answer(self, point: EntryPoint) -> int:
        """Address of what C calls: it answers even while the interpreter shuts down."""
        key = point.symbol, point.per_thread
        if key not in self._callbacks:  # kept alive as long as the libraries
            self._callbacks[key] = self._callback(point)
        address = ctypes.cast(self._callbacks[key], ctypes.c_void_p).value
        assert address is not None
        return address

    def _callback(self, point: EntryPoint) -> Any:
        finalizing = sys.is_finalizing
        deinitialized = ResultCode.NOT_INITIALIZED.blas_status if point.of_blas else int(ResultCode.DEINITIALIZED)

        def call(*arguments: Any) -> int:
            return deinitialized if finalizing() else answer(self.driver, point, arguments)

        kind = ctypes.c_uint64 if point.gives_value else ctypes.c_int
        return ctypes.CFUNCTYPE(kind, *point.argument_types)(call)


class _Loaded:
    """One library, loaded. answer: the address of what serves a function."""

    def __init__(self, library: Library, answer: Callable[[EntryPoint], int]):
        self.library = library
        self.path = _library_file(library)
        self._library = ctypes.CDLL(str(self.path), mode=ctypes.RTLD_GLOBAL)
        self._slots = (ctypes.c_uint64 * len(library.symbols)).in_dll(self._library, SLOTS)
        for index, symbol in enumerate(library.symbols):
            self._slots[index] = answer(library.point(symbol))

    def close(self) -> None:
        gone, done = self.address(GONE), self.address(DONE)
        for index, symbol in enumerate(self.library.symbols):
            self._slots[index] = done if GIVES_BACK.search(symbol) else gone

    def address(self, symbol: str) -> int:
        return ctypes.cast(getattr(self._library, symbol), ctypes.c_void_p).value or 0


def already_loaded() -> bool:
    """Whether the process has a driver library already, which could no longer be replaced."""
    try:
        ctypes.CDLL(DRIVER, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True


def _library_file(library: Library) -> Path:
    """The library's file in the cache folder, written if it is not there."""
    machine = platform.machine()
    if not sys.platform.startswith("linux") or machine not in MACHINES:
        raise SimulationError(
            f"the simulated CUDA driver needs Linux on {' or '.join(MACHINES)}, not {sys.platform} on {machine}"
        )
    version = library.soname if library.versioned else None
    content = stub_library(library.symbols, machine, library.soname, version)
    path = cache_folder() / "driver" / hashlib.sha256(content).hexdigest()[:16] / library.soname
    if not path.exists() or path.read_bytes() != content:
        put_file(path, content, 0o755)
    return path
