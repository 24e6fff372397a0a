"""Numba CUDA programs on a simulated GPU: put a simulated driver where the CUDA driver would be.

    import gpusim.driver.numba_cuda
    driver = gpusim.driver.numba_cuda.install(gpu="h200")   # before CUDA is first used in the process
    from numba import cuda                                  # from here on, everything as on a machine with an H200
    ...
    print(driver.log.render())                              # launches with predicted times

In a test suite these lines stand at the top of conftest.py. Processes that this one starts have no simulated GPU;
under `gpusim script FILE.py` and `gpusim exec PROGRAM`, which keep the driver in a process of its own, they have.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpusim.config import GPUConfig
    from gpusim.driver.library import DriverLibraries
    from gpusim.driver.outputs.outputs import Telling
    from gpusim.driver.state import Driver

_library: DriverLibraries | None = None
"""The one of the process: what is loaded once stays."""


def install(
    gpu: str | Path | GPUConfig = "h200",
    *,
    overrides: Mapping[str, Any] | Sequence[str] | None = None,
    threads: int | None = None,
    memory_bytes: int | None = None,
    max_cycles: int | None = None,
    mode: str = "detailed",
    telling: Telling | None = None,
    gpus: int = 1,
    node: str | Path | None = None,
) -> Driver:
    """Make a simulated GPU the CUDA device of this process, and return its driver.

    Args:
        gpu, overrides, threads: as for `gpusim.simulate`.
        memory_bytes: device memory that can be allocated at once; None takes the GPU's.
        max_cycles: cycles after which a kernel is given up, None for the default.
        mode: of all launches, as for `gpusim.simulate`.
        telling: what else is to be told of the launches of this process.
        gpus, node: how many GPUs there are, of which node; None for the one that the GPU comes in.

    Raises:
        SimulationError: the process has a driver already, a context is in use, or this is not Linux on x86-64 or
            AArch64.
    """
    global _library
    from gpusim.driver import when_imported
    from gpusim.driver.library import DriverLibraries, already_loaded
    from gpusim.driver.state import Driver
    from gpusim.errors import SimulationError

    if _library is None and already_loaded():
        raise SimulationError(
            "this process has a CUDA driver already; install the simulated one before CUDA is first used"
        )
    if _library is not None and (any(each.references for each in _library.driver.gpus) or _library.driver.others):
        raise SimulationError("the simulated CUDA driver is in use; a context of it exists")
    driver = Driver(gpu, overrides, threads, memory_bytes, max_cycles, mode, telling, gpus, node)
    if _library is None:
        _library = DriverLibraries(driver)
        # Numba looks for libcuda.so first, which on a machine with a GPU is the real one.
        os.environ["NUMBA_CUDA_DRIVER"] = str(_library.path)
        os.environ["TRITON_LIBCUDA_PATH"] = str(_library.path.parent)
        os.environ["NVTX_INJECTION64_PATH"] = str(_library.nvtx_path)
        when_imported.watch()
        atexit.register(_library.close)
    else:
        _library.driver.close()
        _library.serve(driver)
    return driver


def current() -> Driver | None:
    """The driver that serves the process, None if none is installed."""
    return _library.driver if _library is not None else None
