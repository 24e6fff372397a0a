"""The driver library in this process: a `libcuda.so.1` whose functions are the Python functions of this package.

The library (see `elf.py`) is loaded by its path before anybody else asks for `libcuda.so.1`. The dynamic linker knows a
loaded library by the name that it carries, so whoever opens `libcuda.so.1` afterwards gets this one: `cuda.bindings`,
and with it Numba, cuda.core and what builds on them, and any C library that calls the driver.
"""

from __future__ import annotations

import _thread
import ctypes
import hashlib
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from gpusim.driver import (  # noqa: F401 - they declare the functions
    api_context,
    api_copy,
    api_device,
    api_entry,
    api_graph,
    api_kernel,
    api_launch,
    api_memory,
    api_module,
    api_pool,
    api_stream,
)
from gpusim.driver.codes import DriverError, ResultCode, say
from gpusim.driver.elf import GONE, MACHINES, SLOTS, stub_library
from gpusim.driver.registry import ENTRY_POINTS, EntryPoint
from gpusim.driver.state import Driver
from gpusim.errors import SimulationError
from isa.errors import IsaError
from isa.folders import cache_folder

SONAME = "libcuda.so.1"


class DriverLibrary:
    """The loaded library. `driver` serves the calls; `serve` exchanges it, while no program holds its handles."""

    def __init__(self, driver: Driver):
        self.symbols = sorted({*ENTRY_POINTS, *_other_symbols()})
        self.path = _library_file(self.symbols)
        self._library = ctypes.CDLL(str(self.path), mode=ctypes.RTLD_GLOBAL)
        self._slots = (ctypes.c_uint64 * len(self.symbols)).in_dll(self._library, SLOTS)
        self._callbacks: list[Any] = []
        self.serve(driver)
        refuse = self._callback(lambda: int(ResultCode.NOT_SUPPORTED), ())
        for index, symbol in enumerate(self.symbols):
            point = ENTRY_POINTS.get(symbol)
            self._slots[index] = self._callback(self._call(point), point.argument_types) if point else refuse
        os.register_at_fork(after_in_child=lambda: self.driver.leave_to_parent())

    def serve(self, driver: Driver) -> None:
        """Let a driver answer the calls from now on."""
        self.driver = driver
        driver.address_of = self.address

    def close(self) -> None:
        """Let every function return CUDA_ERROR_DEINITIALIZED from now on, without the interpreter, which is about to
        end: destructors of other libraries still call the driver then."""
        self.driver.close()
        gone = self.address(GONE) or 0
        for index in range(len(self.symbols)):
            self._slots[index] = gone

    def address(self, symbol: str) -> int | None:
        """Address of an exported function, None if there is none of this name."""
        if symbol not in self.symbols and symbol != GONE:
            return None
        return ctypes.cast(getattr(self._library, symbol), ctypes.c_void_p).value

    def _callback(self, call: Callable[..., int], types: tuple[Any, ...]) -> int:
        callback = ctypes.CFUNCTYPE(ctypes.c_int, *types)(call)
        self._callbacks.append(callback)  # kept alive as long as the library
        address = ctypes.cast(callback, ctypes.c_void_p).value
        assert address is not None
        return address

    def _call(self, point: EntryPoint) -> Callable[..., int]:
        """What C calls: no exception leaves it, and it answers even while the interpreter shuts down."""
        finalizing, deinitialized = sys.is_finalizing, int(ResultCode.DEINITIALIZED)

        def call(*arguments: int) -> int:
            if finalizing():
                return deinitialized
            driver = self.driver
            try:
                with driver.lock:
                    if not point.anytime:
                        if not driver.initialized:
                            raise DriverError(ResultCode.NOT_INITIALIZED)
                        if (failed := driver.context().failed) is not None:
                            raise DriverError(failed)
                    point.call(driver, arguments)
                return 0
            except DriverError as error:
                if error.message:
                    say(error.message)
                return int(error.code)
            except IsaError as error:
                say(f"{point.symbol}: {error}")
                return int(ResultCode.NOT_SUPPORTED)
            except KeyboardInterrupt:
                _thread.interrupt_main()  # the caller is C code: the interruption takes effect behind it
                return int(ResultCode.UNKNOWN)
            except BaseException:
                traceback.print_exc()
                return int(ResultCode.UNKNOWN)

        return call


def already_loaded() -> bool:
    """Whether the process has a driver library already, which could no longer be replaced."""
    try:
        ctypes.CDLL(SONAME, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True


def _other_symbols() -> list[str]:
    """Functions of the driver API that are exported and return CUDA_ERROR_NOT_SUPPORTED."""
    text = resources.files("gpusim.driver").joinpath("symbols.txt").read_text()
    return [line for line in text.split() if not line.startswith("#")]


def _library_file(symbols: list[str]) -> Path:
    """The library's file in the cache folder, written if it is not there."""
    machine = platform.machine()
    if not sys.platform.startswith("linux") or machine not in MACHINES:
        raise SimulationError(
            f"the simulated CUDA driver needs Linux on {' or '.join(MACHINES)}, not {sys.platform} on {machine}"
        )
    content = stub_library(symbols, machine, SONAME)
    path = cache_folder() / "driver" / hashlib.sha256(content).hexdigest()[:16] / SONAME
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(temporary, 0o755)
        os.replace(temporary, path)
    return path
