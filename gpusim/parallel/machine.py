"""GPUs that compute and communicate at once: their SMs, which both want, their streams and their memory.

NCCL's blocks, one for each channel, stay on their SMs while a collective runs; they take SMs as blocks of kernels leave
them, before the next block of a kernel gets one, since they were queued earlier. `python -m validate node training`
holds this to steps on 2 and 4 H200s: 24 channels of 132 SMs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import simpy

from gpusim.config import load_config
from gpusim.parallel.communication import CallCost, Communication
from gpusim.parallel.layer import Layer, check_layers
from gpusim.parallel.schedule import COMPUTE, Schedule, StepEvent

Process = Generator[simpy.Event, Any, None]
_LEAST = 1e-9
"""Rounding of microseconds."""
OWN = 2
"""Tiles that a block of cuBLAS's persistent kernels has for its own, however late it begins; the others it takes from a
counter. So kernels of up to two tiles a block need no counter, and none is set to zero before them; and a kernel with 1
to 66 SMs held by others takes as long as that says (H200, `validate/node/results/products_2_h200.json`)."""


class Sms:
    """SMs of a GPU: blocks of the kernel that runs, and SMs that collectives hold.

    A kernel's blocks take turns on the SMs that are free: a kernel of 512 blocks takes four turns on 132 SMs and five
    on 108. Those of a persistent kernel stay, one on each SM, for tile after tile; where a collective holds SMs, some
    begin when others end, with tiles of their own. A kernel of no stated blocks runs as much slower as there are fewer
    SMs. Where a pass has memory traffic, it runs no faster than what collectives leave of the bandwidth allows.
    """

    def __init__(self, env: simpy.Environment, count: int, bandwidth_gb_s: float):
        self.env, self.count, self.bandwidth = env, count, bandwidth_gb_s * 1e3
        self.free = count
        self.traffic = 0.0
        self._claims: list[tuple[int, simpy.Event]] = []
        self._changed = env.event()

    def hold(self, channels: int) -> simpy.Event:
        """Fires when a collective has its SMs; at least one is left to kernels."""
        done = self.env.event()
        self._claims.append((min(channels, self.count - 1), done))
        self._give(0)
        return done

    def release(self, channels: int) -> None:
        """Gives them back."""
        self._give(min(channels, self.count - 1))

    def add_traffic(self, rate: float) -> None:
        """Bytes a microsecond that a collective moves in memory from now on, negative when it ends."""
        self.traffic = max(self.traffic + rate, 0.0)
        self._signal()

    def _give(self, returned: int) -> None:
        self.free += returned
        while self._claims and self.free:
            want, done = self._claims[0]
            got = min(want, self.free)
            self.free -= got
            if got == want:
                self._claims.pop(0)
                done.succeed()
            else:
                self._claims[0] = (want - got, done)
        self._signal()

    def _signal(self) -> None:
        before, self._changed = self._changed, self.env.event()
        before.succeed()

    def run(self, time_us: float, blocks: int | None, traffic: float = 0.0, persistent: bool = False) -> Process:
        """A kernel that takes so long alone. traffic: its bytes of memory. persistent: its blocks stay for more."""
        if time_us <= 0:
            return
        demand = traffic / time_us
        if blocks is None:
            yield from self._evenly(time_us, demand)
        else:
            yield from self._in_turns(time_us / -(-blocks // self.count), blocks, demand, persistent)

    def _slower(self, demand: float) -> float:
        """Factor by which the bandwidth falls short of the kernels' demand."""
        left = max(self.bandwidth - self.traffic, 0.05 * self.bandwidth)
        return max(min(demand, self.bandwidth) / left, 1.0)

    def _evenly(self, rest: float, demand: float) -> Process:
        while rest > _LEAST:
            begin = self.env.now
            rate = min(self.free / self.count, 1 / self._slower(demand))
            if rate <= 0:
                yield self._changed
                continue
            yield self.env.any_of([self.env.timeout(rest / rate), self._changed])
            rest -= (self.env.now - begin) * rate

    def _in_turns(self, turn_us: float, blocks: int, demand: float, persistent: bool) -> Process:
        workers = min(blocks, self.count) if persistent else blocks
        own = min(OWN, -(-blocks // workers))
        # By pieces of their own: how many workers have not begun yet. The last ones may have one less.
        coming = {own: workers - max(own * workers - blocks, 0), own - 1: max(own * workers - blocks, 0)}
        pool, running = max(blocks - own * workers, 0), 0
        ended: list[int] = []

        def end(group: simpy.Event) -> None:
            """Workers go on with a piece of their own, then one of the pool, or leave their SMs."""
            nonlocal pool
            count, left = group.value  # type: ignore[misc]
            stay = count if left else min(count, pool)
            pool -= 0 if left else stay
            if stay:
                begin(stay, max(left - 1, 0))
            ended.append(count - stay)
            self._give(count - stay)

        def begin(count: int, left: int) -> None:
            self.env.timeout(turn_us * self._slower(demand), (count, left)).callbacks.append(end)

        while any(coming.values()) or running:
            for left, count in coming.items():
                started = min(self.free, count)
                if started:
                    self.free -= started
                    running += started
                    coming[left] -= started
                    begin(started, left - 1)
            yield self._changed
            running -= sum(ended)
            ended.clear()


class TrainingGpu:
    """One GPU: a compute stream, any number of communication streams, and memory."""

    def __init__(self, env: simpy.Environment, number: int, sms: int, bandwidth_gb_s: float, log: list[StepEvent]):
        self.env, self.number, self.log = env, number, log
        self.sms = Sms(env, sms, bandwidth_gb_s)
        self._compute = simpy.Resource(env)
        self._streams: dict[str, simpy.Resource] = {}
        self.held_bytes = self.peak_bytes = 0.0
        self.memory: list[tuple[float, float]] = []

    def keep(self, nbytes: float) -> None:
        """Allocate, or free what is negative."""
        self.held_bytes += nbytes
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)
        self.memory.append((self.env.now, self.held_bytes))

    def compute(
        self, name: str, kind: str, time_us: float, blocks: tuple[int, ...] = (), traffic: float = 0.0,
        persistent: bool = False,
    ) -> Process:  # fmt: skip
        """A pass of a layer: one kernel after the other."""
        with self._compute.request() as turn:
            yield turn
            begin = self.env.now
            kernels: tuple[int | None, ...] = blocks or (None,)
            for each in kernels:
                yield from self.sms.run(time_us / len(kernels), each, traffic / len(kernels), persistent)
            if time_us > 0:
                self.log.append(StepEvent(self.number, "compute", name, begin, self.env.now, kind))

    def communicate(
        self, name: str, kind: str, cost: CallCost, stream: str = "communication", peer: TrainingGpu | None = None
    ) -> Process:
        """A collective, or a transfer that holds SMs of a peer too; calls of a stream run in order."""
        if cost.time_us <= 0:
            return
        if stream not in self._streams:
            self._streams[stream] = simpy.Resource(self.env)
        with self._streams[stream].request() as turn:
            yield turn
            begin = self.env.now
            yield self.env.timeout(cost.launch_us)
            ends = [each for each in (self, peer) if each is not None]
            yield self.env.all_of([each.sms.hold(cost.channels) for each in ends])
            rest = cost.time_us - cost.launch_us
            rate = cost.traffic / rest if rest > 0 else 0.0
            for each in ends:
                each.sms.add_traffic(rate)
            yield self.env.timeout(rest)
            for each in ends:
                each.sms.add_traffic(-rate)
                each.sms.release(cost.channels)
            self.log.append(StepEvent(self.number, stream, name, begin, self.env.now, kind, cost.links))


OPTIMIZER_FACTOR = 6.0
"""Optimizer state for each byte of parameters: Adam with 16-bit weights keeps a 32-bit copy, momentum and variance, 12
bytes for 2 (S. Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", 2020: K is
12)."""


class TrainingStep:
    """A step under way on the simulated GPUs of a node. Raises ParallelError for no layers."""

    def __init__(
        self, kind: str, layers: Sequence[Layer], communication: Communication, simulated: int = 1,
        recompute: bool = False,
    ):  # fmt: skip
        self.kind, self.costs, self.recompute = kind, communication, recompute
        self.layers = check_layers(layers)
        self.trained = any(layer.backward_us for layer in self.layers)
        self._for_each_byte = 2 + OPTIMIZER_FACTOR if self.trained else 1
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

    def run_pass(self, gpu: TrainingGpu, kind: str, layer: Layer, name: str, share: float = 1.0) -> Process:
        """A pass of a layer, or a share of its work: forward, backward, or recompute, forward once more for activations
        that were not kept."""
        back = kind == "backward"
        time_us = (layer.backward_us if back else layer.forward_us) * share
        if kind != "recompute":
            self.useful[gpu.number] += time_us
        blocks = layer.backward_blocks if back else layer.forward_blocks
        traffic = (layer.backward_traffic if back else layer.forward_traffic) * share
        parts = tuple(max(round(each * share), 1) for each in blocks)
        return gpu.compute(name, kind, time_us, parts, traffic, layer.persistent)

    def forward_kept(self, gpu: TrainingGpu, layer: Layer) -> Process:
        """The forward pass of a layer whose activations, or what it hands on, stay for the backward pass."""
        if self.trained:
            gpu.keep(layer.handed_on if self.recompute else layer.activation_bytes)
        return self.run_pass(gpu, "forward", layer, layer.name)

    def again_kept(self, gpu: TrainingGpu, layer: Layer) -> Process:
        """The forward pass once more before a layer's backward pass, where only what it hands on was kept."""
        if self.recompute:
            gpu.keep(layer.activation_bytes - layer.handed_on)
            yield from self.run_pass(gpu, "recompute", layer, layer.name)

    def finish(self, ranks: Sequence[Callable[[], Process]]) -> Schedule:
        """Run what every simulated GPU does until all have ended."""
        self.env.run(until=self.env.all_of([self.env.process(rank()) for rank in ranks]))
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
