"""Steps in which all GPUs do the same, so that one of them is simulated: data parallel, fully sharded, tensor parallel.

- Data parallel: every GPU has the whole model and a share of the batch. As torch's DistributedDataParallel does,
  gradients are collected from the last layer backwards until a bucket has its bytes, and its all-reduce starts at once,
  on a stream of its own (S. Li et al., "PyTorch Distributed: experiences on accelerating data parallel training",
  VLDB 2020).
- Fully sharded: every GPU keeps a share of all parameters, gradients and optimizer state, and has a whole layer only
  while it works on it: parameters are gathered before a layer's forward pass and again before its backward pass, its
  gradients summed and scattered after it (S. Rajbhandari et al., "ZeRO", 2020, stage 3; Y. Zhao et al., "PyTorch FSDP",
  VLDB 2023).
- Tensor parallel: every GPU does a part of each matrix product. By columns of the weights it has whole inputs and makes
  some columns of the output, which are gathered; by rows it has some columns of the input and makes a part of every
  sum, which an all-reduce adds up. In pairs: by columns, then by rows, with nothing to gather between the two
  (M. Shoeybi et al., "Megatron-LM", 2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import simpy

from gpusim.config.load import Overrides
from gpusim.node import Node
from gpusim.parallel.communication import Communication
from gpusim.parallel.layer import Layer, ParallelError, check_count
from gpusim.parallel.machine import Process, TrainingStep
from gpusim.parallel.schedule import Schedule

SPLITS = ("columns", "rows", "pairs")


def data_parallel(
    layers: Sequence[Layer],
    gpus: int | None = 8,
    node: str | Path | Node = "hgx_h200",
    *,
    bucket_bytes: int = 25 << 20,
    overlap: bool = True,
    micro_batches: int = 1,
    recompute: bool = False,
    communication: Communication | None = None,
    overrides: Overrides = None,
) -> Schedule:
    """One step of data-parallel training.

    Args:
        layers: in order of the forward pass, with the times of one GPU's micro-batch.
        bucket_bytes: gradients that are summed together: a bucket is full when it has as many or more.
        overlap: sum buckets while the backward pass goes on; False: after it.
        micro_batches: passes whose gradients add up; they are summed over GPUs in the last one.
        recompute: keep only what layers hand on, and do each forward pass again before its backward pass.
        communication: costs of collectives, instead of those of `node`.

    Raises:
        ParallelError: for no layers or counts below one. NodeError, ConfigError: for the node.
    """
    check_count(bucket_bytes=bucket_bytes, micro_batches=micro_batches)
    costs = communication or Communication(gpus, node, overrides)
    step = TrainingStep("data parallel", layers, costs, 1, recompute)
    gpu, env, order = step.gpus[0], step.env, step.layers

    def rank() -> Process:
        step.keep_parameters(gpu, order)
        for batch in range(micro_batches):
            for layer in order:
                yield from step.forward_kept(gpu, layer)
            if step.trained:
                yield from backward(batch == micro_batches - 1)

    def backward(last: bool) -> Process:
        works: list[simpy.Event] = []
        late = []
        bucket: list[Layer] = []
        for layer in reversed(order):
            yield from step.again_kept(gpu, layer)
            yield from step.run_pass(gpu, "backward", layer, layer.name)
            gpu.keep(-layer.activation_bytes)
            bucket.append(layer)
            held = sum(each.parameter_bytes for each in bucket)
            if last and (held >= bucket_bytes or layer is order[0]):
                names = bucket[0].name if len(bucket) == 1 else f"{bucket[-1].name}-{bucket[0].name}"
                work = gpu.communicate(names, "reduce", costs.collective("all_reduce", held))
                if overlap:
                    works.append(env.process(work))
                else:
                    late.append(work)
                bucket = []
        for work in late:
            yield from work
        yield env.all_of(works)

    return step.finish([rank])


def fully_sharded(
    layers: Sequence[Layer],
    gpus: int | None = 8,
    node: str | Path | Node = "hgx_h200",
    *,
    prefetch: int = 1,
    overlap: bool = True,
    recompute: bool = False,
    communication: Communication | None = None,
    overrides: Overrides = None,
) -> Schedule:
    """One step of fully sharded training.

    prefetch: layers that are gathered ahead of the one that computes; 0: each is gathered when its turn has come.
    overlap: scatter gradients while the backward pass goes on; False: wait for each. The others as in `data_parallel`.

    Raises ParallelError for no layers or a negative prefetch; NodeError, ConfigError for the node.
    """
    if prefetch < 0:
        raise ParallelError(f"prefetch must be 0 or more, got {prefetch!r}")
    costs = communication or Communication(gpus, node, overrides)
    step = TrainingStep("fully sharded", layers, costs, 1, recompute)
    gpu, env = step.gpus[0], step.env

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
                yield from step.forward_kept(gpu, layer)
                gpu.keep(-layer.parameter_bytes)
                continue
            yield from step.again_kept(gpu, layer)
            gpu.keep(layer.parameter_bytes)  # its gradients
            yield from step.run_pass(gpu, "backward", layer, layer.name)
            gpu.keep(-layer.activation_bytes - layer.parameter_bytes)
            works.append(env.process(scatter(layer)))
            if not overlap:
                yield works[-1]
        yield env.all_of(works)

    def rank() -> Process:
        step.keep_parameters(gpu, step.layers, costs.gpus)
        yield from go_through(step.layers, False)
        if step.trained:
            yield from go_through(step.layers[::-1], True)

    return step.finish([rank])


def tensor_parallel(
    layers: Sequence[Layer],
    gpus: int | None = 8,
    node: str | Path | Node = "hgx_h200",
    *,
    split: str = "pairs",
    whole: bool = True,
    communication: Communication | None = None,
    overrides: Overrides = None,
) -> Schedule:
    """One step with layers split over GPUs.

    Args:
        layers: `output_bytes` are those of the whole output.
        split: "columns", "rows" or "pairs" (columns and rows in turn).
        whole: times are those of whole layers, of which each GPU takes its share; False: of one GPU's part.

    Nothing overlaps: a product needs the whole of what the one before has made. In the backward pass, the gradient of a
    whole input is an all-reduce where the layer is split by columns; by rows each GPU has just its own part of it.

    Raises ParallelError for no layers or a split that is none; NodeError, ConfigError for the node.
    """
    if split not in SPLITS:
        raise ParallelError(f"no split {split!r}; there are {', '.join(SPLITS)}")
    costs = communication or Communication(gpus, node, overrides)
    step = TrainingStep("tensor parallel", layers, costs)
    gpu, order = step.gpus[0], step.layers
    ways = [("columns", "rows")[k % 2] if split == "pairs" else split for k in range(len(order))]
    share = 1 / costs.gpus if whole else 1.0

    def rank() -> Process:
        step.keep_parameters(gpu, order, costs.gpus)
        for k, layer in enumerate(order):
            if step.trained:
                gpu.keep(layer.activation_bytes)
            yield from step.run_pass(gpu, "forward", layer, layer.name, share)
            if ways[k] == "rows":
                yield from gpu.communicate(layer.name, "reduce", costs.collective("all_reduce", layer.handed_on))
            elif split != "pairs" or k == len(order) - 1:
                yield from gpu.communicate(layer.name, "gather", costs.collective("all_gather", layer.handed_on))
        for k, layer in reversed(list(enumerate(order))) if step.trained else ():
            yield from step.run_pass(gpu, "backward", layer, layer.name, share)
            gpu.keep(-layer.activation_bytes)
            if ways[k] == "columns" and k:
                cost = costs.collective("all_reduce", order[k - 1].handed_on)
                yield from gpu.communicate(layer.name, "reduce", cost)

    return step.finish([rank])
