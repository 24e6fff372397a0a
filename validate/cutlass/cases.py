"""The list of CUTLASS launches: sizes, inputs from a seed, and NumPy's product.

Needs NumPy alone. A case is a kernel at one size; families, the part of a name before '@', are train or judge as a
whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from validate.foreign.launch import SEED, Work, bfloat16, decoded

JUDGE = frozenset(("bf16_cluster", "cp_async", "fp8", "pingpong", "sm80_half", "stream_k", "tutorial_tma"))
"""Families whose measurements are looked at for the score alone; frozen before any of them had run on the hardware."""


@dataclass(frozen=True)
class CutlassKernel:
    """kind, out: types of inputs and result. nt: the inner dimension is not the contiguous one. columns: the result
    lies by columns."""

    sizes: tuple[tuple[int, int, int], ...]
    kind: str = "float16"
    out: str = "float16"
    nt: bool = False
    columns: bool = False


_SMALL, _LARGE = (256, 256, 512), (2048, 2048, 1024)
_BOTH = _SMALL, _LARGE
KERNELS = {
    "warp_specialized": CutlassKernel(_BOTH),
    "pingpong": CutlassKernel(_BOTH, nt=True),
    "cooperative": CutlassKernel(((512, 512, 256), _LARGE)),
    "bf16_cluster": CutlassKernel(_BOTH, "bf16", "bf16"),
    "tf32": CutlassKernel((_SMALL, (1024, 1024, 1024)), "float32", "float32"),
    "fp8": CutlassKernel(_BOTH, "fp8e4nv"),
    "int8": CutlassKernel(_BOTH, "int8", "int32"),
    "stream_k": CutlassKernel(((384, 384, 2048), (1536, 1536, 1024))),
    "cp_async": CutlassKernel(_BOTH),
    "sm80_half": CutlassKernel(_BOTH),
    "sm80_simt": CutlassKernel(((256, 256, 256), (1024, 1024, 512)), "float32", "float32"),
    **{f"tutorial_{each}": CutlassKernel(_BOTH, columns=True) for each in ("mma", "wgmma", "tma")},
}
CASES: dict[str, tuple[str, tuple[int, int, int]]] = {
    f"{name}@{m}x{n}x{k}": (name, (m, n, k)) for name, kernel in KERNELS.items() for m, n, k in kernel.sizes
}
"""By name: kernel and size."""


def work_of(name: str) -> Work:
    """Inputs and result of a case."""
    kernel, (m, n, k) = KERNELS[CASES[name][0]], CASES[name][1]
    rng = np.random.default_rng(SEED)
    a, b = (_operand(rng, (rows, k), kernel.kind) for rows in (m, n))
    first, second = (decoded(each, kernel.kind) for each in (a, b))
    # Products of whole numbers are exact in double precision.
    wide: type[Any] = np.float64 if kernel.kind == "int8" else np.float32
    product = first.astype(wide) @ second.astype(wide).T
    out = np.zeros((n, m) if kernel.columns else (m, n), np.uint16 if kernel.out == "bf16" else kernel.out)
    arrays = {"a": a.T if kernel.nt else a, "b": b.T if kernel.nt else b, "d": out}
    kinds = {name: kind for name, kind in (("a", kernel.kind), ("d", kernel.out)) if kind in ("bf16", "fp8e4nv")}
    # The tutorials sum in half precision, eight-bit products keep some 13 bits, and bfloat16 has eight.
    tolerance = {"int8": 0.0, "fp8e4nv": 1e-2, "bf16": 5e-3}.get(kernel.kind, 1e-2 if kernel.columns else 2e-3)
    return Work(arrays, {"d": product.T if kernel.columns else product}, tolerance, kinds)


def _operand(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> np.ndarray:
    if kind == "int8":
        return rng.integers(-20, 21, shape, np.int8)
    if kind == "fp8e4nv":
        return rng.integers(0, 64, shape, np.uint8) | rng.integers(0, 2, shape, np.uint8) << 7
    values = rng.standard_normal(shape, np.float32) / 2
    return bfloat16(values) if kind == "bf16" else values.astype(kind)
