"""Points that are recorded and compared: each is a variant at one size with one seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim.launch import Launch, TensorMap
from gpusim.launch.cuda import array_of
from programs import registry
from programs.variant import Variant

SEED = 20251

JUDGE = frozenset(
    (
        *("attention", "convolution", "gemv", "layernorm", "softmax", "spmv"),
        *("collatz", "montecarlo", "nbody", "scan", "sort", "stencil"),
        *("flash_attention", "cluster_histogram"),
    )
)
"""Families whose measurements are looked at for the score alone, never while the model is made. The names were frozen
before any of them had run on the hardware; all other families may be used for modelling."""


@dataclass(frozen=True)
class ProgramPoint:
    """A variant by name, a size and the seed of its inputs."""

    variant: str
    size: int
    seed: int = SEED

    @property
    def split(self) -> str:
        """'judge' or 'train', by the family."""
        return "judge" if self.variant.partition("/")[0] in JUDGE else "train"

    @property
    def program(self) -> Variant:
        """The variant itself."""
        return registry.get(self.variant)

    def make(self) -> Launch:
        """A launch with fresh inputs."""
        return self.program.make(self.size, self.seed)

    def __str__(self) -> str:
        return f"{self.variant}@{self.size}"

    @classmethod
    def parse(cls, text: str) -> ProgramPoint:
        """The point that `str` spells, with the usual seed."""
        variant, _, size = text.partition("@")
        return cls(variant, int(size))


@dataclass(frozen=True)
class NamedPoint(ProgramPoint):
    """A launch of a kernel that is not bundled; `judging`: whether it judges."""

    judging: bool = False

    @property
    def split(self) -> str:
        return "judge" if self.judging else "train"

    def __str__(self) -> str:
        return self.variant


def select(only: Sequence[str] = (), sizes: str = "all") -> list[ProgramPoint]:
    """Points of the variants or families named in `only` (all that are recorded if empty), at sizes 'small', 'large' or
    'all'.

    Raises programs.registry.UnknownProgram for a name that is none.
    """
    chosen = registry.recorded()
    if only:
        ladders = (registry.families().get(name) or (registry.get(name),) for name in only)
        wanted = {variant.name for ladder in ladders for variant in ladder}
        chosen = [name for name in registry.names() if name in wanted]
    parts = {"small": (0,), "large": (1,), "all": (0, 1)}[sizes]
    return [ProgramPoint(name, registry.get(name).sizes[part]) for name in chosen for part in parts]


def describe(launch: Launch) -> dict[str, Any]:
    """A launch in plain values: dimensions, and of each argument its type, shape and digest (with the box of a tensor
    map), or its value.

    The digests tell whether inputs made elsewhere, with another NumPy, are the same.
    """
    args: list[dict[str, Any]] = []
    for given in launch.args:
        value = array_of(given)
        if isinstance(value, np.ndarray):
            digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            args.append({"dtype": str(value.dtype), "shape": list(value.shape), "sha256": digest[:16]})
            if isinstance(given, TensorMap):
                args[-1] |= {"box": list(given.box), "swizzle": given.swizzle}
        else:
            args.append({"dtype": str(np.asarray(value).dtype), "value": np.asarray(value).item()})
    return {"grid": list(launch.grid), "block": list(launch.block), "shared_bytes": launch.shared_bytes, "args": args}


def error_of(expected: Sequence[np.ndarray], actual: Sequence[np.ndarray]) -> dict[str, float]:
    """Largest absolute and relative difference over all outputs; the relative one to the expected value."""
    absolute = relative = 0.0
    for want, got in zip(expected, actual, strict=True):
        wanted = want.astype(np.float64)
        difference = np.abs(got.astype(np.float64) - wanted)
        absolute = max(absolute, float(difference.max(initial=0.0)))
        scale = np.where(wanted == 0, 1.0, np.abs(wanted))
        relative = max(relative, float((difference / scale).max(initial=0.0)))
    return {"max_abs_error": absolute, "max_rel_error": relative}
