"""Tensor parallel: every GPU does a part of each matrix product.

By columns of the weights, each GPU has whole inputs and makes some columns of the output, which are gathered; by rows,
each has some columns of the input and makes a part of every sum, which an all-reduce adds up. In pairs, as M. Shoeybi
et al., "Megatron-LM" (2019): by columns, then by rows, with nothing to gather between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpusim.node import Node
from gpusim.parallel.communication import Communication
from gpusim.parallel.errors import ParallelError
from gpusim.parallel.layer import Layer, check_layers
from gpusim.parallel.machine import Process
from gpusim.parallel.schedule import Schedule
from gpusim.parallel.step import OPTIMIZER_FACTOR, Step

SPLITS = ("columns", "rows", "pairs")


def tensor_parallel(
    layers: Sequence[Layer],
    gpus: int | None = 8,
    node: str | Path | Node = "hgx_h200",
    *,
    split: str | Sequence[str] = "pairs",
    whole: bool = True,
    optimizer_factor: float = OPTIMIZER_FACTOR,
    communication: Communication | None = None,
    overrides: Mapping[str, Any] | Iterable[str] | None = None,
) -> Schedule:
    """One step with layers split over GPUs; all do the same, and one of them is simulated.

    Args:
        layers: `output_bytes` are those of the whole output.
        split: "columns", "rows", "pairs" (columns and rows in turn), or "columns" or "rows" for each layer.
        whole: times are those of whole layers, of which each GPU takes its share; False: of one GPU's part.

    Nothing overlaps: a product needs the whole of what the one before has made. In the backward pass, the gradient of a
    whole input is an all-reduce where the layer is split by columns; by rows each GPU has just its own part of it.

    Raises ParallelError for no layers or a split that is none; NodeError, ConfigError for the node.
    """
    layers = check_layers(layers)
    costs = communication or Communication(gpus, node, overrides)
    ways = _ways(split, len(layers))
    share = 1 / costs.gpus if whole else 1.0
    step = Step("tensor parallel", costs, 1)
    gpu = step.gpus[0]
    trained = any(layer.backward_us for layer in layers)

    def rank() -> Process:
        parameters = sum(layer.parameter_bytes for layer in layers)
        gpu.keep(parameters * ((2 + optimizer_factor) if trained else 1) / costs.gpus)
        for k, layer in enumerate(layers):
            if trained:
                gpu.keep(layer.activation_bytes)
            yield from step.forward(gpu, layer, layer.name, share)
            if ways[k] == "rows":
                yield from gpu.communicate(layer.name, "reduce", costs.collective("all_reduce", layer.handed_on))
            elif split != "pairs" or k == len(layers) - 1:
                yield from gpu.communicate(layer.name, "gather", costs.collective("all_gather", layer.handed_on))
        for k, layer in reversed(list(enumerate(layers))) if trained else ():
            yield from step.backward(gpu, layer, layer.name, share)
            gpu.keep(-layer.activation_bytes)
            if ways[k] == "columns" and k:
                cost = costs.collective("all_reduce", layers[k - 1].handed_on)
                yield from gpu.communicate(layer.name, "reduce", cost)

    return step.finish([rank])


def _ways(split: str | Sequence[str], count: int) -> list[str]:
    if split == "pairs":
        return [("columns", "rows")[k % 2] for k in range(count)]
    ways = [split] * count if isinstance(split, str) else list(split)
    if len(ways) != count:
        raise ParallelError(f"{len(ways)} splits for {count} layers")
    for each in ways:
        if each not in ("columns", "rows"):
            raise ParallelError(f"no split {each!r}; there are {', '.join(SPLITS)}")
    return ways
