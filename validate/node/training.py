"""Recorded training steps of 2 and 4 H200s beside the schedules of `gpusim.parallel`.

Compute times alone are recorded and go in: forward, backward, one product. What is predicted is everything with
communication: gradients alone, the backward pass with buckets overlapped, the step, products with their collective, a
product's kernel beside an all-reduce. "product" is the kernel of `programs.layer` alone, simulated and on an H200.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpusim.errors import SimulationError
from gpusim.node import Node
from gpusim.parallel import Communication, Layer, data_parallel, tensor_parallel
from validate import compared
from validate.compared import Compared
from validate.gpu import read_json
from validate.node import collectives, copies, products

LIMIT = 0.10
"""Errors beyond this are listed in `GAPS`, or fail."""
LONE = "a lone call is measured with what torch's host takes to launch it"
TENSOR = "tensor cores are slower than simulated, the more so by what they multiply, at the same clock"
GAPS: dict[tuple[str, str], str] = {
    ("columns", "gather"): LONE, ("rows", "reduce"): LONE, ("kernel", "product"): TENSOR,
    ("kernel", "product of zeros"): TENSOR,
}  # fmt: skip
"""By kind and quantity: why the error is known to be larger."""


def row_of(gpus: int, kind: str, case: str, quantity: str, measured: float, simulated: float) -> Compared:
    """A quantity: the mean over ranks of their medians; with what is known of its kind."""
    return Compared(
        group=quantity, case=f"{gpus} GPUs, {case}, {quantity}", measured=measured, simulated=simulated, limit=LIMIT,
        gap=GAPS.get((kind, quantity)),
    )  # fmt: skip


def compare(
    paths: Sequence[Path] | None = None, node: str | Path | Node = "hgx_h200", even: bool = False
) -> list[Compared]:
    """Every recorded step and product, and what the schedules make of it. even: kernels whose time falls evenly with
    SMs, instead of blocks that stay and take tiles."""
    rows: list[Compared] = []
    for path in paths or copies.recordings("training"):
        recorded = read_json(path)
        costs = Communication(recorded["about"]["gpus"], node)
        for case in recorded["data_parallel"]:
            rows += _steps(case, costs, even)
        for case in recorded["tensor_parallel"]:
            rows += _products(case, costs)
    if paths is None:
        rows += (row_of(1, "kernel", *row) for row in (*products.alone("forward"), *products.beside()))
    return rows


def model(case: dict[str, Any], *, forward: bool = True, even: bool = False) -> list[Layer]:
    """Layers of a recorded step; the slowest rank sets the pace of all."""
    count, width, batch = case["layers"], case["width"], case["batch"]
    outputs, weights, inputs = (
        () if even else (products.tiles_of(width, what),) for what in ("forward", "weights", "input")
    )
    return [
        Layer(
            f"layer {k}",
            max(case["forward"]) / count if forward else 0.0,
            max(case["backward_alone"]) / count,
            2 * width * width,
            2 * batch * width,
            forward_blocks=outputs,
            backward_blocks=weights + inputs,
            persistent=not even,
        )
        for k in range(count)
    ]


def _steps(case: dict[str, Any], costs: Communication, even: bool) -> Iterator[Compared]:
    name = f"{case['layers']} layers of {case['width']}, {case['bucket_bytes'] >> 20} MiB buckets"
    buckets = case["layers"] // case["bucket_layers"]
    simulated = {
        "reduce_alone": buckets * costs.collective("all_reduce", case["bucket_bytes"]).time_us,
        "backward_overlapped": _step(model(case, forward=False, even=even), case, costs),
        "step": _step(model(case, even=even), case, costs),
    }
    for quantity, time_us in simulated.items():
        yield row_of(costs.gpus, "data parallel", name, quantity, statistics.mean(case[quantity]), time_us)


def _step(layers: Sequence[Layer], case: dict[str, Any], costs: Communication) -> float:
    return data_parallel(layers, bucket_bytes=case["bucket_bytes"], communication=costs).time_us


def _products(case: dict[str, Any], costs: Communication) -> Iterator[Compared]:
    m, k, n = case["m"], case["k"], case["n"]
    for split, alone in (("columns", "gather"), ("rows", "reduce")):
        product = statistics.mean(case[f"{split}_product"])
        layer = Layer("product", product, parameter_bytes=2 * k * n, output_bytes=2 * m * n)
        schedule = tensor_parallel([layer], split=split, whole=False, communication=costs)
        for quantity, time_us in ((alone, schedule.communication_us), (split, schedule.time_us)):
            recorded = statistics.mean(case[quantity])
            yield row_of(costs.gpus, split, f"{m} x {k} x {n}", quantity, recorded, time_us)


def command(options: argparse.Namespace) -> int:
    """`validate node`: status 1 if something new is outside."""
    rows_of: Any = {"copies": copies.compare, "collectives": collectives.compare, "training": compare}[options.what]
    try:
        rows = rows_of(options.recording, options.node)
        wrong, lines = compared.outside(rows)
        if options.what == "collectives":
            count, other = collectives.wrong_choices(options.node)
            made = f"{count - len(other)} of {count} choices of algorithm, protocol and channels as NCCL made them"
            wrong, lines = wrong or bool(other), [*lines, made, *other]
    except (SimulationError, OSError, ValueError, KeyError) as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return 2
    if options.all:
        print("\n".join([compared.HEAD, *map(compared.line, rows), ""]))
    print("\n".join([compared.summary(rows), *lines]))
    return 1 if wrong else 0
