"""gpusim: a simulator of GPUs that executes the machine code a real GPU would run.

`gpusim.simulate` runs one kernel on a modelled GPU and returns a `Result`. Reading order: `simulation` (the call),
`launch`, `config/`, `memory`, `arguments`, `occupancy` (what goes in), `runner` and `engine/` (the machine), `result`,
`metrics`, `advice`, `report`, `report_html`, `trace` (what comes out), `difference` (two of them), `bound/` (the least
time, without a run), `explore/` (many), `cli/`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpusim import bound, explore, node, parallel, plot
    from gpusim.collectives import collective
    from gpusim.config import GPUConfig, load_config
    from gpusim.device import Device
    from gpusim.difference import Difference, compare_results
    from gpusim.errors import SimulationError
    from gpusim.launch import Launch
    from gpusim.results.result import Result
    from gpusim.simulation import CHECKS, simulate
    from gpusim.tracing.trace import Trace, TraceOptions

__version__ = "0.2.0"

# Loaded when first used: importing `gpusim.launch` or printing a help text must not wait for Numba.
_HOME = {
    "CHECKS": "gpusim.simulation",
    "Device": "gpusim.device",
    "Difference": "gpusim.difference",
    "GPUConfig": "gpusim.config",
    "Launch": "gpusim.launch",
    "Result": "gpusim.results.result",
    "SimulationError": "gpusim.errors",
    "collective": "gpusim.collectives",
    "compare_results": "gpusim.difference",
    "load_config": "gpusim.config",
    "Trace": "gpusim.tracing.trace",
    "TraceOptions": "gpusim.tracing.trace",
    "simulate": "gpusim.simulation",
}

__all__ = [
    "CHECKS",
    "Device",
    "Difference",
    "GPUConfig",
    "Launch",
    "Result",
    "SimulationError",
    "Trace",
    "TraceOptions",
    "bound",
    "collective",
    "compare_results",
    "explore",
    "load_config",
    "node",
    "parallel",
    "plot",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in ("bound", "explore", "node", "parallel", "plot"):
        return import_module(f"gpusim.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'gpusim' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
