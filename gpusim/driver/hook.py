"""The one driver of the process: installed, exchanged, asked for."""

from __future__ import annotations

import atexit
import os
from typing import Any

from gpusim.driver.library import DriverLibrary, already_loaded
from gpusim.driver.state import Driver
from gpusim.errors import SimulationError

_library: DriverLibrary | None = None


def library() -> DriverLibrary:
    """The loaded library. Raises SimulationError if there is none."""
    if _library is None:
        raise SimulationError("the simulated CUDA driver is not installed (gpusim.driver.numba_cuda.install)")
    return _library


def current() -> Driver | None:
    """The driver that serves the process, None if none is installed."""
    return _library.driver if _library is not None else None


def install(**options: Any) -> Driver:
    """Load the library, or exchange the driver behind it. options: as for `Driver`.

    Raises SimulationError if another driver library is loaded, or if a context of the present driver is in use.
    """
    global _library
    from gpusim.driver import api  # noqa: F401 - declares the functions

    if _library is None:
        if already_loaded():
            raise SimulationError(
                "this process has a CUDA driver already; install the simulated one before CUDA is first used"
            )
        _library = DriverLibrary(Driver(**options))
        # Numba looks for libcuda.so first, which on a machine with a GPU is the real one.
        os.environ["NUMBA_CUDA_DRIVER"] = str(_library.path)
        atexit.register(_library.close)
        return _library.driver
    if _library.driver.primary_references or _library.driver.others:
        raise SimulationError("the simulated CUDA driver is in use; a context of it exists")
    replacement = Driver(**options)
    _library.driver.close()
    _library.driver = replacement
    return replacement

