"""The common part of all schedules: the simulation's GPUs, the passes of a layer, and the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import simpy

from gpusim.config import load_config
from gpusim.parallel.communication import Communication
from gpusim.parallel.layer import Layer, check_layers
from gpusim.parallel.machine import Process, TrainingGpu
from gpusim.parallel.schedule import COMPUTE, Schedule, StepEvent

OPTIMIZER_FACTOR = 6.0
"""Optimizer state for each byte of parameters: Adam with 16-bit weights keeps a 32-bit copy, momentum and variance, 12
bytes for 2 (S. Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", 2020: K is
12)."""


class TrainingStep:
    """A step under way on the simulated GPUs of a node. Raises ParallelError for no layers."""

    def __init__(
        self, kind: str, layers: Sequence[Layer], communication: Communication, simulated: int = 1,
        recompute: bool = False, optimizer_factor: float = OPTIMIZER_FACTOR,
    ):  # fmt: skip
        self.kind, self.costs, self.recompute = kind, communication, recompute
        self.layers = check_layers(layers)
        self.trained = any(layer.backward_us for layer in self.layers)
        self._for_each_byte = 2 + optimizer_factor if self.trained else 1
        self.env = simpy.Environment()
        self.log: list[StepEvent] = []
        config = load_config(communication.node.gpu_config)
        self.gpus = [
            TrainingGpu(self.env, k, config.sm.count, config.dram.bandwidth_gb_s, self.log) for k in range(simulated)
        ]
        self.useful = [0.0] * simulated

    def keep_parameters(self, gpu: TrainingGpu, layers: Sequence[Layer], gpus: int = 1) -> None:
        """Allocate parameters, gradients and optimizer state, shared out over so many GPUs."""
        gpu.keep(sum(layer.parameter_bytes for layer in layers) * self._for_each_byte / gpus)

    def forward(self, gpu: TrainingGpu, layer: Layer, name: str, share: float = 1.0) -> Process:
        """The forward pass of a layer, or a share of its work."""
        self.useful[gpu.number] += layer.forward_us * share
        return gpu.compute(
            name, "forward", layer.forward_us * share, _fewer(layer.forward_blocks, share),
            layer.forward_traffic * share, layer.persistent,
        )  # fmt: skip

    def forward_kept(self, gpu: TrainingGpu, layer: Layer) -> Process:
        """The forward pass of a layer whose activations, or what it hands on, stay for the backward pass."""
        if self.trained:
            gpu.keep(layer.handed_on if self.recompute else layer.activation_bytes)
        return self.forward(gpu, layer, layer.name)

    def again(self, gpu: TrainingGpu, layer: Layer, name: str) -> Process:
        """The forward pass once more, for activations that were not kept."""
        return gpu.compute(
            name, "recompute", layer.forward_us, layer.forward_blocks, layer.forward_traffic, layer.persistent
        )

    def again_kept(self, gpu: TrainingGpu, layer: Layer) -> Process:
        """The same before a layer's backward pass, where only what it hands on was kept."""
        if self.recompute:
            gpu.keep(layer.activation_bytes - layer.handed_on)
            yield from self.again(gpu, layer, layer.name)

    def backward(self, gpu: TrainingGpu, layer: Layer, name: str, share: float = 1.0) -> Process:
        """The backward pass."""
        self.useful[gpu.number] += layer.backward_us * share
        return gpu.compute(
            name, "backward", layer.backward_us * share, _fewer(layer.backward_blocks, share),
            layer.backward_traffic * share, layer.persistent,
        )  # fmt: skip

    def finish(self, ranks: Sequence[Callable[[], Process]]) -> Schedule:
        """Run what every simulated GPU does until all have ended."""
        ends = [self.env.process(rank()) for rank in ranks]
        self.env.run(until=self.env.all_of(ends))
        node = self.costs.node
        order = sorted(self.log, key=lambda e: (e.start_us, e.gpu, e.kind not in COMPUTE, e.stream, e.end_us, e.name))
        rates = {link.name: link.bandwidth_gb_s for link in node.links}
        used = {name for event in order for name, _ in event.links}
        return Schedule(
            self.kind, node.name, self.costs.gpus, tuple(gpu.number for gpu in self.gpus),
            max((event.end_us for event in order), default=0.0), tuple(order), dict(enumerate(self.useful)),
            {gpu.number: round(gpu.peak_bytes) for gpu in self.gpus},
            {gpu.number: tuple(gpu.memory) for gpu in self.gpus}, {name: rates[name] for name in sorted(used)},
        )  # fmt: skip


def _fewer(blocks: tuple[int, ...], share: float) -> tuple[int, ...]:
    """Blocks of a part of each kernel."""
    return tuple(max(round(each * share), 1) for each in blocks)
