"""Numba CUDA programs on a simulated GPU: put a simulated driver where the CUDA driver would be.

    import gpusim.driver.numba_cuda
    driver = gpusim.driver.numba_cuda.install(gpu="h200")   # before CUDA is first used in the process
    from numba import cuda                                  # from here on, everything as on a machine with an H200
    ...
    print(driver.log.render())                              # launches with predicted times

As a command: `gpusim script FILE.py`. In a test suite: `pytest -p gpusim.integrations.pytest_plugin`. Child
processes get the same driver where `inherit=True`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpusim.config import GPUConfig
    from gpusim.driver.state import Driver

VARIABLE = "GPUSIM_CUDA_DRIVER"
"""Environment variable through which child processes learn what to install: the options as JSON."""


def install(
    gpu: str | Path | GPUConfig = "h200",
    *,
    overrides: Mapping[str, Any] | Sequence[str] | None = None,
    threads: int | None = None,
    memory_bytes: int | None = None,
    max_cycles: int | None = None,
    inherit: bool = False,
) -> Driver:
    """Make a simulated GPU the CUDA device of this process, and return its driver.

    Args:
        gpu, overrides, threads: as for `gpusim.simulate`.
        memory_bytes: device memory that can be allocated at once; None takes the GPU's.
        max_cycles: cycles after which a kernel is given up, None for the default.
        inherit: Python processes that this one starts get the same driver; `gpu` must then be a name or a path.

    Raises:
        SimulationError: the process has a driver already, a context is in use, or this is not Linux on x86-64 or
            AArch64.
    """
    from gpusim.driver import hook

    driver = hook.install(
        gpu=gpu, overrides=overrides, threads=threads, memory_bytes=memory_bytes, max_cycles=max_cycles
    )
    if inherit:
        options = {"gpu": str(gpu), "overrides": list_overrides(overrides), "threads": threads}
        os.environ.update(environment(options | {"memory_bytes": memory_bytes, "max_cycles": max_cycles}))
    return driver


@contextmanager
def simulated(gpu: str | Path | GPUConfig = "h200", **options: Any) -> Iterator[Driver]:
    """`install` for a `with` block: at its end the device's contexts are destroyed, so that another block may follow
    with another GPU. Device arrays of the block must not be used after it."""
    driver = install(gpu, **options)
    try:
        yield driver
    finally:
        driver.reset()


def list_overrides(overrides: Mapping[str, Any] | Sequence[str] | None) -> list[str]:
    """Overrides as KEY=VALUE texts."""
    if isinstance(overrides, Mapping):
        return [f"{key}={json.dumps(value)}" for key, value in overrides.items()]
    return list(overrides or ())


def environment(options: Mapping[str, Any]) -> dict[str, str]:
    """Environment variables with which a Python process installs the same driver at its start: `sitecustomize`, which
    Python imports then, is the one of this package. options: keyword arguments of `install`, as JSON can hold them."""
    here = Path(__file__).resolve().parent
    folders = [str(here / "inherit"), str(here.parents[1])]
    rest = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each and each not in folders]
    return {VARIABLE: json.dumps(dict(options)), "PYTHONPATH": os.pathsep.join(folders + rest)}


def install_from_environment() -> Driver | None:
    """Install what `environment` asked for, or return what is installed already; None if nothing was asked for."""
    from gpusim.driver import hook

    text = os.environ.get(VARIABLE)
    return hook.current() or (install(**json.loads(text)) if text else None)
