"""Training steps on several GPUs: what each GPU computes, what it sends when, and what of that the step waits for.

    layers = [gpusim.parallel.Layer(f"layer {k}", 180.0, 390.0, parameter_bytes=32 << 20) for k in range(16)]
    print(gpusim.parallel.data_parallel(layers, gpus=8))

Reading order: `layer` (what goes in), `simulated` (what its kernels take), `communication` (what collectives take),
`machine` (SMs that kernels and collectives share, streams, memory, the passes of a layer), then the schedules
in `replicas` (all GPUs do the same) and `pipeline`; `schedule` is what comes out.
"""

from gpusim.parallel.communication import CallCost, Communication
from gpusim.parallel.layer import Layer, ParallelError
from gpusim.parallel.pipeline import pipeline
from gpusim.parallel.replicas import data_parallel, fully_sharded, tensor_parallel
from gpusim.parallel.schedule import Schedule, StepEvent

__all__ = [
    "CallCost", "Communication", "Layer", "ParallelError", "Schedule", "StepEvent",
    "data_parallel", "fully_sharded", "pipeline", "tensor_parallel",
]  # fmt: skip
