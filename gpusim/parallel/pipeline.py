"""Pipeline parallel: every GPU has some of the layers, and micro-batches go through them one behind the other.

GPipe does all forward passes before the first backward pass (Y. Huang et al., 2019) and keeps the activations of every
micro-batch; 1F1B (D. Narayanan et al., "PipeDream", 2019, and "Efficient large-scale language model training on GPU
clusters", 2021) begins a backward pass as soon as it can and keeps those of no more micro-batches than there are stages
after it. With p equal stages and m micro-batches both leave (p - 1) / (m + p - 1) of the time empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from itertools import accumulate
from pathlib import Path

import simpy

from gpusim.config.load import Overrides
from gpusim.node import Node
from gpusim.parallel.communication import Communication
from gpusim.parallel.layer import Layer, ParallelError, check_count, check_layers
from gpusim.parallel.machine import Process, TrainingStep
from gpusim.parallel.schedule import Schedule

SCHEDULES = ("1f1b", "gpipe")


def pipeline(
    layers: Sequence[Layer],
    stages: int | Sequence[int] = 8,
    micro_batches: int = 8,
    schedule: str = "1f1b",
    recompute: bool = False,
    *,
    node: str | Path | Node = "hgx_h200",
    communication: Communication | None = None,
    overrides: Overrides = None,
) -> Schedule:
    """One step of a pipeline, a GPU for each stage, every one simulated.

    Args:
        layers: with the times of one micro-batch.
        stages: how many, with layers shared out so that the longest stage is as short as can be; or the number of
            layers of each stage.
        schedule: "1f1b" or "gpipe".
        recompute: a stage keeps only its input of each micro-batch, and does its forward pass again before the
            backward pass.

    Raises:
        ParallelError: for stages that do not fit the layers, counts below one, an unknown schedule. NodeError: for more
            stages than the node has GPUs.
    """
    layers = check_layers(layers)
    check_count(micro_batches=micro_batches)
    if schedule not in SCHEDULES:
        raise ParallelError(f"no schedule {schedule!r}; there are {', '.join(SCHEDULES)}")
    parts = _parts(layers, stages)
    count = len(parts)
    costs = communication or Communication(count, node, overrides)
    if costs.gpus < count:
        raise ParallelError(f"{count} stages need {count} GPUs; {costs.node.name} has {costs.gpus}")
    step = TrainingStep(f"pipeline ({schedule})", layers, costs, count, recompute)
    pipe = _Pipeline(step, parts, micro_batches)
    return step.finish([partial(pipe.rank, k, order(schedule, k, count, micro_batches)) for k in range(count)])


class _Pipeline:
    """Start the stages. `arrived` has an event for each way, stage and micro-batch: its input is there."""

    def __init__(self, step: TrainingStep, parts: Sequence[Sequence[Layer]], micro_batches: int):
        self.step, self.parts, self.last = step, parts, len(parts) - 1
        self.arrived = {
            (way, stage, batch): step.env.event()
            for way in ("forward", "backward") for stage in range(len(parts)) for batch in range(micro_batches)
        }  # fmt: skip
        for batch in range(micro_batches):
            self.arrived["forward", 0, batch].succeed()
            self.arrived["backward", self.last, batch].succeed()

    def rank(self, stage: int, works: Sequence[tuple[str, int]]) -> Process:
        """Everything that a stage does, one after the other."""
        step = self.step
        step.keep_parameters(step.gpus[stage], self.parts[stage])
        sends: list[simpy.Event] = []
        for way, batch in works:
            if way == "forward":
                yield from self._forward(stage, batch, sends)
            elif step.trained:
                yield from self._backward(stage, batch, sends)
        yield step.env.all_of(sends)

    def _forward(self, stage: int, batch: int, sends: list[simpy.Event]) -> Process:
        gpu, part = self.step.gpus[stage], self.parts[stage]
        yield self.arrived["forward", stage, batch]
        if self.step.trained:
            gpu.keep(self._kept(stage))
        for layer in part:
            yield from self.step.run_pass(gpu, "forward", layer, f"{batch}")
        if stage < self.last:
            sends.append(self._send("forward", stage, stage + 1, batch, part[-1].handed_on))

    def _backward(self, stage: int, batch: int, sends: list[simpy.Event]) -> Process:
        step, gpu, part = self.step, self.step.gpus[stage], self.parts[stage]
        yield self.arrived["backward", stage, batch]
        whole = sum(layer.activation_bytes for layer in part) if step.recompute else 0
        if step.recompute:
            gpu.keep(whole)
            for layer in part:
                yield from step.run_pass(gpu, "recompute", layer, f"{batch}")
        for layer in reversed(part):
            yield from step.run_pass(gpu, "backward", layer, f"{batch}")
        gpu.keep(-self._kept(stage) - whole)
        if stage:
            sends.append(self._send("backward", stage, stage - 1, batch, self.parts[stage - 1][-1].handed_on))

    def _kept(self, stage: int) -> int:
        """Bytes of a micro-batch between its forward and its backward pass."""
        if self.step.recompute:
            return self.parts[stage - 1][-1].handed_on if stage else 0
        return sum(layer.activation_bytes for layer in self.parts[stage])

    def _send(self, way: str, stage: int, to: int, batch: int, nbytes: int) -> simpy.Event:
        def send() -> Process:
            gpus, cost = self.step.gpus, self.step.costs.transfer(stage, to, nbytes)
            yield from gpus[stage].communicate(f"{batch}", "send", cost, f"send {way}", gpus[to])
            self.arrived[way, to, batch].succeed()

        return self.step.env.process(send())


def order(schedule: str, stage: int, stages: int, micro_batches: int) -> list[tuple[str, int]]:
    """Passes of a stage: ("forward" or "backward", micro-batch), one after the other."""
    ahead = micro_batches if schedule == "gpipe" else min(stages - 1 - stage, micro_batches)
    found = [("forward", batch) for batch in range(ahead)]
    for batch in range(micro_batches):
        if ahead + batch < micro_batches:
            found.append(("forward", ahead + batch))
        found.append(("backward", batch))
    return found


def _parts(layers: Sequence[Layer], stages: int | Sequence[int]) -> list[Sequence[Layer]]:
    """The layers of each stage."""
    if isinstance(stages, int):
        check_count(stages=stages)
        if stages > len(layers):
            raise ParallelError(f"{stages} stages for {len(layers)} layers: every stage needs a layer or more")
        sizes = _balanced([layer.forward_us + layer.backward_us for layer in layers], stages)
    else:
        sizes = list(stages)
        if not sizes or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in sizes):
            raise ParallelError(f"every stage needs a layer or more, got {sizes}")
        if sum(sizes) != len(layers):
            raise ParallelError(f"stages of {sizes} layers have {sum(sizes)} together, but there are {len(layers)}")
    ends = list(accumulate(sizes))
    return [layers[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _balanced(times: Sequence[float], stages: int) -> list[int]:
    """Layers of each stage so that the longest takes least; of several ways, the one with the most even sizes."""
    total = [0.0, *accumulate(times)]

    @cache
    def best(stages: int, end: int) -> tuple[float, int, int, tuple[int, ...]]:
        """Of so many stages of the layers before `end`: the longest one, the sum of squared sizes, where the last one
        begins, and the sizes."""
        ways = []
        for begin in range(stages - 1, end) if stages > 1 else (0,):
            longest, squares, _, sizes = best(stages - 1, begin) if stages > 1 else (0.0, 0, 0, ())
            longest = max(longest, round(total[end] - total[begin], 6))
            ways.append((longest, squares + (end - begin) ** 2, begin, (*sizes, end - begin)))
        return min(ways)

    return list(best(stages, len(times))[-1])
