"""Fully sharded: every GPU keeps a share of all parameters, gradients and optimizer state, and has a whole layer only
while it works on it.

Before a layer's forward pass, and again before its backward pass, its parameters are gathered; its gradients are summed
and scattered after it. S. Rajbhandari et al., "ZeRO" (2020), stage 3; Y. Zhao et al., "PyTorch FSDP" (VLDB 2023).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import simpy

from gpusim.node import Node
from gpusim.parallel.communication import Communication
from gpusim.parallel.errors import ParallelError
from gpusim.parallel.layer import Layer, check_count, check_layers
from gpusim.parallel.machine import Process
from gpusim.parallel.schedule import Schedule
from gpusim.parallel.step import OPTIMIZER_FACTOR, Step


def fully_sharded(
    layers: Sequence[Layer],
    gpus: int | None = 8,
    node: str | Path | Node = "hgx_h200",
    *,
    prefetch: int = 1,
    overlap: bool = True,
    recompute: bool = False,
    optimizer_factor: float = OPTIMIZER_FACTOR,
    communication: Communication | None = None,
    overrides: Mapping[str, Any] | Iterable[str] | None = None,
) -> Schedule:
    """One step of fully sharded training; all GPUs do the same, and one of them is simulated.

    prefetch: layers that are gathered ahead of the one that computes; 0: each is gathered when its turn has come.
    overlap: scatter gradients while the backward pass goes on; False: wait for each. The others as in `data_parallel`.

    Raises ParallelError for no layers or a negative prefetch; NodeError, ConfigError for the node.
    """
    layers = check_layers(layers)
    if prefetch < 0:
        raise ParallelError(f"prefetch must be 0 or more, got {prefetch!r}")
    costs = communication or Communication(gpus, node, overrides)
    check_count(gpus=costs.gpus)
    step = Step("fully sharded", costs, 1)
    gpu, env = step.gpus[0], step.env
    trained = any(layer.backward_us for layer in layers)

    def gather(layer: Layer) -> Process:
        gpu.keep(layer.parameter_bytes)
        yield from gpu.communicate(layer.name, "gather", costs.collective("all_gather", layer.parameter_bytes))

    def scatter(layer: Layer) -> Process:
        yield from gpu.communicate(layer.name, "scatter", costs.collective("reduce_scatter", layer.parameter_bytes))
        gpu.keep(-layer.parameter_bytes)

    def go_through(order: Sequence[Layer], backward: bool) -> Process:
        coming: list[simpy.Event] = []
        works = []
        for k, layer in enumerate(order):
            while len(coming) < min(k + 1 + prefetch, len(order)):
                coming.append(env.process(gather(order[len(coming)])))
            yield coming[k]
            if not backward:
                if trained:
                    gpu.keep(layer.handed_on if recompute else layer.activation_bytes)
                yield from step.forward(gpu, layer, layer.name)
                gpu.keep(-layer.parameter_bytes)
                continue
            if recompute:
                gpu.keep(layer.activation_bytes - layer.handed_on)
                yield from step.again(gpu, layer, layer.name)
            gpu.keep(layer.parameter_bytes)  # its gradients
            yield from step.backward(gpu, layer, layer.name)
            gpu.keep(-layer.activation_bytes - layer.parameter_bytes)
            works.append(env.process(scatter(layer)))
            if not overlap:
                yield works[-1]
        yield env.all_of(works)

    def rank() -> Process:
        parameters = sum(layer.parameter_bytes for layer in layers)
        gpu.keep(parameters * ((2 + optimizer_factor) if trained else 1) / costs.gpus)
        yield from go_through(layers, False)
        if trained:
            yield from go_through(layers[::-1], True)

    return step.finish([rank])
