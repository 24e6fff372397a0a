"""gpusim: a simulator of GPUs that executes the machine code a real GPU would run.

`gpusim.simulate` runs one kernel on a modelled GPU and returns a `Result`. Its rooms, each of which imports only those
before it: `errors`, `units`, `config/` (a machine in numbers), `beside/` (machines that are no GPUs), `launch/` (what
is run), `engine/` (the machine), `tracing/` and `results/` (what happened, what came out), `host/` (the run itself),
`report_html/` and `result` (how it is shown), `node/` (links, copies, streams), `device` (several launches),
`collectives/`, `driver/` (other people's programs), `bound/` (the least time, without a run), `simulation` (one launch:
the call to begin with), `parallel/` (training steps), `workload/`, `explore/` (many runs), `difference/`, `plot/`,
`lab/` (a page to play with), `integrations/`, `cli/`.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 11):  # noqa: UP036
    # A checkout on PYTHONPATH was never installed, which would have said so.
    raise ImportError(f"gpusim needs Python 3.11 or newer, and this is {sys.version.split()[0]}")

if TYPE_CHECKING:
    from gpusim import beside, bound, explore, machine, node, parallel, plot
    from gpusim.collectives import collective
    from gpusim.config import GPUConfig, load_config
    from gpusim.device import Device
    from gpusim.difference import Difference, compare_results
    from gpusim.engine.stop import Stop
    from gpusim.errors import SimulationError, Stopped
    from gpusim.host.options import CHECKS
    from gpusim.launch import Launch
    from gpusim.result import Result
    from gpusim.simulation import simulate
    from gpusim.tracing.perfetto import Trace
    from gpusim.tracing.recording import TraceOptions

__version__ = "0.3.0"

# Loaded when first used: importing `gpusim.launch` or printing a help text must not wait for Numba.
_HOME = {
    "CHECKS": "gpusim.host.options",
    "Device": "gpusim.device",
    "Difference": "gpusim.difference",
    "GPUConfig": "gpusim.config",
    "Launch": "gpusim.launch",
    "Result": "gpusim.result",
    "SimulationError": "gpusim.errors",
    "Stop": "gpusim.engine.stop",
    "Stopped": "gpusim.errors",
    "collective": "gpusim.collectives",
    "compare_results": "gpusim.difference",
    "load_config": "gpusim.config",
    "Trace": "gpusim.tracing.perfetto",
    "TraceOptions": "gpusim.tracing.recording",
    "simulate": "gpusim.simulation",
}

__all__ = [
    "CHECKS", "Device", "Difference", "GPUConfig", "Launch", "Result", "SimulationError", "Stop", "Stopped",
    "Trace", "TraceOptions", "beside", "bound", "collective", "compare_results", "explore", "load_config",
    "machine", "node", "parallel", "plot", "simulate",
]


def __getattr__(name: str) -> Any:
    if name in ("beside", "bound", "explore", "machine", "node", "parallel", "plot"):
        return import_module(f"gpusim.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'gpusim' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
