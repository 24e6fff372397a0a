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
from pathlib import Path
from typing import Any

from gpusim.driver.caller import undisturbed
from gpusim.driver.elf import MACHINES, SLOTS, stub_library
from gpusim.driver.exports import DRIVER, LIBRARIES, NVTX, Library, declare_all
from gpusim.driver.registry import EntryPoint, answer
from gpusim.driver.state import Driver
from gpusim.errors import SimulationError
from isa.folders import cache_folder, put_file

declare_all()


class DriverLibraries:
    """All libraries, loaded. `driver` serves the calls; `serve` exchanges it, while no program holds its handles."""

    def __init__(self, driver: Driver):
        self.serve(driver)
        self.path, self.nvtx_path = _library_file(LIBRARIES[DRIVER]), _library_file(LIBRARIES[NVTX])
        self._loaded = {
            soname: ctypes.CDLL(str(_library_file(library)), mode=ctypes.RTLD_GLOBAL)
            for soname, library in LIBRARIES.items()
        }
        self._callbacks = {
            soname: [self._callback(library.point(symbol)) for symbol in library.symbols]
            for soname, library in LIBRARIES.items()
        }
        for soname, callbacks in self._callbacks.items():
            self._fill(soname, [ctypes.cast(each, ctypes.c_void_p).value or 0 for each in callbacks])
        os.register_at_fork(after_in_child=lambda: self.driver.leave_to_parent())

    def serve(self, driver: Driver) -> None:
        """Let a driver answer the calls from now on."""
        self.driver = driver
        driver.address_of = self.address

    def close(self) -> None:
        """Let every function succeed and do nothing from now on, as one of C's library does that takes nothing and
        returns 0: the interpreter is about to end, and destructors of other libraries still call the driver then."""
        self.driver.finish()
        self.driver.close()
        nothing = ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0
        for soname, callbacks in self._callbacks.items():
            self._fill(soname, [nothing] * len(callbacks))

    def _fill(self, soname: str, addresses: list[int]) -> None:
        """Say where the functions of a library lead."""
        slots: Any = (ctypes.c_uint64 * len(addresses)).in_dll(self._loaded[soname], SLOTS)
        slots[:] = addresses

    def address(self, symbol: str) -> int | None:
        """Address of an exported function, None if there is none of this name."""
        for soname, library in LIBRARIES.items():
            if symbol in library.symbols:
                return ctypes.cast(getattr(self._loaded[soname], symbol), ctypes.c_void_p).value
        return None

    def _callback(self, point: EntryPoint) -> Any:
        """Make the callback that C calls for a function."""

        def call(*arguments: Any) -> int:
            with undisturbed:
                return answer(self.driver, point, arguments)

        kind = ctypes.c_uint64 if point.gives_value else ctypes.c_int
        return ctypes.CFUNCTYPE(kind, *point.argument_types)(call)


def already_loaded() -> bool:
    """Return whether the process has a driver library already, which could no longer be replaced."""
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
    content = stub_library(library.symbols, machine, library.soname)
    path = cache_folder() / "driver" / hashlib.sha256(content).hexdigest()[:16] / library.soname
    if not path.exists() or path.read_bytes() != content:
        put_file(path, content, 0o755)
    return path
