"""One layer of a model, as a schedule sees it: how long it takes and what it keeps, moves and hands on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.config import GPUConfig, load_config
from gpusim.config.load import Overrides
from gpusim.errors import SimulationError
from gpusim.parallel import simulated


class ParallelError(SimulationError):
    """A schedule that cannot be: stages without layers, counts below one, sizes that do not divide."""


@dataclass(frozen=True)
class Layer:
    """Times are those of one micro-batch on one GPU that does nothing else.

    forward_us, backward_us: compute time; no layer with backward time means that only the forward pass is done.
    parameter_bytes: weights; gradients take as much. activation_bytes: what the backward pass needs of the forward one.
    output_bytes: what goes on to the next layer, and back as its gradient; None: as activation_bytes.
    forward_blocks, backward_blocks: for each kernel of the pass, all of equal time, its thread blocks of which one
    fills an SM (those that fit on an SM together count as one); () for kernels of so many small blocks that time falls
    evenly with SMs. forward_traffic, backward_traffic: bytes that the pass moves from and to the GPU's memory.
    persistent: kernels have one block for each SM, which stays and takes one of `blocks` tiles after the other.
    """

    name: str
    forward_us: float
    backward_us: float = 0.0
    parameter_bytes: int = 0
    activation_bytes: int = 0
    output_bytes: int | None = None
    forward_blocks: tuple[int, ...] = ()
    backward_blocks: tuple[int, ...] = ()
    forward_traffic: int = 0
    backward_traffic: int = 0
    persistent: bool = False

    def __post_init__(self) -> None:
        for key in ("forward_us", "backward_us", "parameter_bytes", "activation_bytes", "output_bytes",
                    "forward_traffic", "backward_traffic"):  # fmt: skip
            value = getattr(self, key)
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise ParallelError(f"layer {self.name!r}: {key} must be 0 or more, got {value!r}")
        for key in ("forward_blocks", "backward_blocks"):
            if any(count < 1 for count in getattr(self, key)):
                raise ParallelError(f"layer {self.name!r}: {key} must be 1 or more each, got {getattr(self, key)!r}")

    @property
    def handed_on(self) -> int:
        """Bytes to the next layer."""
        return self.activation_bytes if self.output_bytes is None else self.output_bytes

    @classmethod
    def of_results(cls, name: str, forward: Any, backward: Any = (), **sizes: Any) -> Layer:
        """A layer whose kernels were simulated: `gpusim.Result`s of the forward and of the backward pass, one or
        several; their times, blocks and memory traffic are taken over. sizes: the other fields."""
        passes: dict[str, Any] = {}
        for word, given in (("forward", forward), ("backward", backward)):
            results = list(given) if isinstance(given, Sequence) else [given]
            passes[f"{word}_us"] = sum(each.time_us for each in results)
            passes[f"{word}_traffic"] = sum(each.roofline.bytes["DRAM"] for each in results)
            # Kernels of a pass count as of equal time; where they differ, time falls evenly with SMs instead.
            if len({round(each.time_us, 3) for each in results}) == 1:
                passes[f"{word}_blocks"] = tuple(_blocks(each) for each in results)
        return cls(name, **(passes | sizes))

    @classmethod
    def product(
        cls, name: str, rows: int, inner: int, columns: int, gpu: str | Path | GPUConfig = "h200",
        overrides: Overrides = None,
    ) -> Layer:  # fmt: skip
        """A matrix product in bf16 of `rows` inputs with weights of columns x inner, whose three kernels are simulated:
        the output, the gradient of the weights and that of the input, at their shapes and layouts. The first time takes
        up to a minute, later ones milliseconds (docs/parallel.md).

        gpu: a Hopper GPU, with changes in `overrides`, such as "gpu.clock_mhz=1500", a clock that it keeps under power.

        Raises ParallelError for sizes that are no positive multiples of eight, and for a GPU of another architecture.
        """
        config = load_config(gpu, overrides)
        if config.gpu.arch != "sm_90":
            raise ParallelError(
                f"layer {name!r}: kernels are those of Hopper, {config.gpu.name} is {config.gpu.arch}; simulate others "
                "and use Layer.of_results, or give times"
            )
        for size in (rows, inner, columns):
            if isinstance(size, bool) or not isinstance(size, int) or size < 8 or size % 8:
                raise ParallelError(f"layer {name!r}: sizes must be positive multiples of 8, got {size!r}")
        forward = simulated.product_time(rows, columns, inner, "forward", config)
        weights = simulated.product_time(columns, inner, rows, "weights", config)
        into = simulated.product_time(rows, inner, columns, "input", config)
        return cls(
            name, forward.time_us, weights.time_us + into.time_us, 2 * inner * columns, 2 * rows * inner,
            2 * rows * columns, (forward.blocks,), (weights.blocks, into.blocks), round(forward.traffic),
            round(weights.traffic + into.traffic), persistent=True,
        )  # fmt: skip


def _blocks(result: Any) -> int:
    """Thread blocks of a launch, those that an SM holds at once counted as one."""
    blocks = math.prod(result.record.launch.grid)
    return -(-blocks // max(result.occupancy.blocks_per_sm, 1))


def check_layers(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Raises ParallelError for none, and for what is no layer."""
    found = tuple(layers)
    if not found:
        raise ParallelError("a schedule needs a layer or more")
    for each in found:
        if not isinstance(each, Layer):
            raise ParallelError(f"layers must be gpusim.parallel.Layer, got {each!r}")
    return found


def check_count(**counts: int) -> None:
    """Raises ParallelError for a count below one."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParallelError(f"{name} must be a whole number of 1 or more, got {value!r}")
