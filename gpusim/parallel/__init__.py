"""Training steps on several GPUs: what each GPU computes, what it sends when, and what of that the step waits for.

    layers = [gpusim.parallel.Layer(f"layer {k}", 180.0, 390.0, parameter_bytes=32 << 20) for k in range(16)]
    print(gpusim.parallel.data_parallel(layers, gpus=8))

Reading order: `layer` (what goes in), `communication` (what collectives take), `machine` (SMs that kernels and
collectives share, streams, memory), `step`, then a schedule each in `data`, `sharded`, `tensor`, `pipeline`; `schedule`
is what comes out, `file` reads a step from TOML.
"""

from gpusim.parallel.communication import Communication, Cost, NoCommunication
from gpusim.parallel.data import data_parallel
from gpusim.parallel.errors import ParallelError
from gpusim.parallel.layer import Layer
from gpusim.parallel.pipeline import pipeline
from gpusim.parallel.schedule import Event, Schedule
from gpusim.parallel.sharded import fully_sharded
from gpusim.parallel.tensor import tensor_parallel

__all__ = [
    "Communication",
    "Cost",
    "Event",
    "Layer",
    "NoCommunication",
    "ParallelError",
    "Schedule",
    "data_parallel",
    "fully_sharded",
    "pipeline",
    "tensor_parallel",
]
