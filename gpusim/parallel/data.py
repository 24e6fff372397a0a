"""Data parallel: every GPU has the whole model and a share of the batch; gradients are summed in buckets.

As torch's DistributedDataParallel does: gradients are collected from the last layer backwards until a bucket has its
bytes, and its all-reduce starts at once, on a stream of its own, while the backward pass goes on.
S. Li et al., "PyTorch Distributed: experiences on accelerating data parallel training" (VLDB 2020).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import simpy

from gpusim.node import Node
from gpusim.parallel.communication import Communication
from gpusim.parallel.layer import Layer, check_count, check_layers
from gpusim.parallel.machine import Process
from gpusim.parallel.schedule import Schedule
from gpusim.parallel.step import OPTIMIZER_FACTOR, Step


def data_parallel(
    layers: Sequence[Layer],
    gpus: int | None = 8,
    node: str | Path | Node = "hgx_h200",
    *,
    bucket_bytes: int = 25 << 20,
    overlap: bool = True,
    micro_batches: int = 1,
    recompute: bool = False,
    optimizer_factor: float = OPTIMIZER_FACTOR,
    communication: Communication | None = None,
    overrides: Mapping[str, Any] | Iterable[str] | None = None,
) -> Schedule:
    """One step of data-parallel training; all GPUs do the same, and one of them is simulated.

    Args:
        layers: in order of the forward pass, with the times of one GPU's micro-batch.
        bucket_bytes: gradients that are summed together: a bucket is full when it has as many or more.
        overlap: sum buckets while the backward pass goes on; False: after it.
        micro_batches: passes whose gradients add up; they are summed over GPUs in the last one.
        recompute: keep only what layers hand on, and do each forward pass again before its backward pass.
        optimizer_factor: bytes of optimizer state for each byte of parameters.
        communication: costs of collectives, instead of those of `node`.

    Raises:
        ParallelError: for no layers or counts below one. NodeError, ConfigError: for the node.
    """
    layers = check_layers(layers)
    check_count(bucket_bytes=bucket_bytes, micro_batches=micro_batches)
    costs = communication or Communication(gpus, node, overrides)
    step = Step("data parallel", costs, 1)
    gpu, env = step.gpus[0], step.env
    trained = any(layer.backward_us for layer in layers)

    def rank() -> Process:
        parameters = sum(layer.parameter_bytes for layer in layers)
        gpu.keep(parameters * ((2 + optimizer_factor) if trained else 1))
        for batch in range(micro_batches):
            for layer in layers:
                if trained:
                    gpu.keep(layer.handed_on if recompute else layer.activation_bytes)
                yield from step.forward(gpu, layer, layer.name)
            if trained:
                yield from backward(batch == micro_batches - 1)

    def backward(last: bool) -> Process:
        works: list[simpy.Event] = []
        late = []
        bucket: list[Layer] = []
        for layer in reversed(layers):
            if recompute:
                gpu.keep(layer.activation_bytes - layer.handed_on)
                yield from step.again(gpu, layer, layer.name)
            yield from step.backward(gpu, layer, layer.name)
            gpu.keep(-layer.activation_bytes)
            bucket.append(layer)
            full = sum(each.parameter_bytes for each in bucket) >= bucket_bytes
            if last and (full or layer is layers[0]):
                cost = costs.collective("all_reduce", sum(each.parameter_bytes for each in bucket))
                names = bucket[0].name if len(bucket) == 1 else f"{bucket[-1].name}-{bucket[0].name}"
                work = gpu.communicate(names, "reduce", cost)
                if overlap:
                    works.append(env.process(work))
                else:
                    late.append(work)
                bucket = []
        for work in late:
            yield from work
        yield env.all_of(works)

    return step.finish([rank])
