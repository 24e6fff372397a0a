"""What all schedules share: the simulation's GPUs, the passes of a layer, and the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import simpy

from gpusim.config import load_config
from gpusim.parallel.communication import Communication
from gpusim.parallel.layer import Layer
from gpusim.parallel.machine import Gpu, Process
from gpusim.parallel.schedule import COMPUTE, Event, Schedule

OPTIMIZER_FACTOR = 6.0
"""Optimizer state for each byte of parameters: Adam with 16-bit weights keeps a 32-bit copy, momentum and variance, 12
bytes for 2 (S. Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", 2020: K is
12)."""


class Step:
    """A step under way on the simulated GPUs of a node."""

    def __init__(self, kind: str, communication: Communication, simulated: int):
        self.kind, self.communication = kind, communication
        self.env = simpy.Environment()
        self.log: list[Event] = []
        config = load_config(communication.node.gpu_config)
        self.gpus = [
            Gpu(self.env, k, config.sm.count, config.dram.bandwidth_gb_s, self.log) for k in range(simulated)
        ]
        self.useful = [0.0] * simulated

    def forward(self, gpu: Gpu, layer: Layer, name: str, share: float = 1.0) -> Process:
        """The forward pass of a layer, or a share of its work."""
        self.useful[gpu.number] += layer.forward_us * share
        return gpu.compute(
            name, "forward", layer.forward_us * share, _fewer(layer.forward_blocks, share),
            layer.forward_traffic * share,
        )  # fmt: skip

    def again(self, gpu: Gpu, layer: Layer, name: str) -> Process:
        """The forward pass once more, for activations that were not kept."""
        return gpu.compute(name, "recompute", layer.forward_us, layer.forward_blocks, layer.forward_traffic)

    def backward(self, gpu: Gpu, layer: Layer, name: str, share: float = 1.0) -> Process:
        """The backward pass."""
        self.useful[gpu.number] += layer.backward_us * share
        return gpu.compute(
            name, "backward", layer.backward_us * share, _fewer(layer.backward_blocks, share),
            layer.backward_traffic * share,
        )  # fmt: skip

    def finish(self, ranks: Sequence[Callable[[], Process]]) -> Schedule:
        """Run what every simulated GPU does until all have ended."""
        ends = [self.env.process(rank()) for rank in ranks]
        self.env.run(until=self.env.all_of(ends))
        node = self.communication.node
        order = sorted(self.log, key=lambda e: (e.start_us, e.gpu, e.kind not in COMPUTE, e.stream, e.end_us, e.name))
        rates = {link.name: link.bandwidth_gb_s for link in node.links}
        used = {name for event in order for name, _ in event.links}
        return Schedule(
            self.kind, node.name, self.communication.gpus, tuple(gpu.number for gpu in self.gpus),
            max((event.end_us for event in order), default=0.0), tuple(order), dict(enumerate(self.useful)),
            {gpu.number: round(gpu.peak_bytes) for gpu in self.gpus},
            {gpu.number: tuple(gpu.memory) for gpu in self.gpus}, {name: rates[name] for name in sorted(used)},
        )  # fmt: skip


def _fewer(blocks: tuple[int, ...], share: float) -> tuple[int, ...]:
    """Blocks of a part of each kernel."""
    return tuple(max(round(each * share), 1) for each in blocks)
