"""The list of CUTLASS launches: template parameters, sizes, inputs from a seed, and NumPy's product.

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

_TN = {"LAYOUT_A": "layout::RowMajor", "LAYOUT_B": "layout::ColumnMajor"}
_NT = {"LAYOUT_A": "layout::ColumnMajor", "LAYOUT_B": "layout::RowMajor"}
_SCHEDULES = {
    "ws": ("gemm::KernelTmaWarpSpecialized", "epilogue::TmaWarpSpecialized"),
    "pingpong": ("gemm::KernelTmaWarpSpecializedPingpong", "epilogue::TmaWarpSpecialized"),
    "fp8": ("gemm::KernelTmaWarpSpecializedPingpongFP8FastAccum", "epilogue::TmaWarpSpecialized"),
    "cooperative": ("gemm::KernelTmaWarpSpecializedCooperative", "epilogue::TmaWarpSpecializedCooperative"),
    "cp_async": ("gemm::KernelCpAsyncWarpSpecialized", "epilogue::NoSmemWarpSpecialized"),
}
_TYPES = {"float16": "half_t", "bf16": "bfloat16_t", "fp8e4nv": "float_e4m3_t", "int8": "int8_t", "float32": "float"}


@dataclass(frozen=True)
class CutlassKernel:
    """source: which `.cu` file. macros: its template parameters. kind, out: types of inputs and result.
    nt: the inner dimension is not the contiguous one. columns: the result lies by columns."""

    source: str
    macros: dict[str, str]
    sizes: tuple[tuple[int, int, int], ...]
    kind: str = "float16"
    out: str = "float16"
    nt: bool = False
    columns: bool = False


# many parameters: template parameters of one product.
def _sm90(
    schedule: str,
    tile: str,
    *sizes: tuple[int, int, int],
    kind: str = "float16",
    out: str = "float16",
    cluster: str = "_1, _1, _1",
    total: str = "float",
    nt: bool = False,
    scheduler: str = "void",
    element: str = "",
) -> CutlassKernel:
    first, second = _SCHEDULES[schedule]
    macros = {"TYPE_A": element or _TYPES[kind], "TYPE_B": element or _TYPES[kind], "SUM": total,
              "TYPE_D": "int32_t" if out == "int32" else _TYPES[out], **(_NT if nt else _TN),
              "TILE": f"Shape<{tile}>", "CLUSTER": f"Shape<{cluster}>", "SCHEDULE": first, "EPILOGUE": second,
              "SCHEDULER": scheduler}  # fmt: skip
    return CutlassKernel("gemm90.cu", macros, sizes, kind, out, nt)


def _sm80(kind: str, classes: str, block: str, warp: str, stages: int, *sizes: tuple[int, int, int]) -> CutlassKernel:
    operation, instruction = classes.split("/")
    macros = {"TYPE": _TYPES[kind], **_TN, "CLASS": f"arch::OpClass{operation}", "BLOCK": f"gemm::GemmShape<{block}>",
              "WARP": f"gemm::GemmShape<{warp}>", "INSTRUCTION": f"gemm::GemmShape<{instruction}>",
              "STAGES": str(stages)}  # fmt: skip
    return CutlassKernel("gemm80.cu", macros, sizes, kind, kind)


def _tutorial(path: str, *sizes: tuple[int, int, int]) -> CutlassKernel:
    macros = {"TUTORIAL": f'"examples/cute/tutorial/{path}"'}
    return CutlassKernel("tutorial.cu", macros, sizes, columns=True)


_SMALL, _LARGE = (256, 256, 512), (2048, 2048, 1024)
KERNELS: dict[str, CutlassKernel] = {
    "warp_specialized": _sm90("ws", "_128, _128, _64", _SMALL, _LARGE),
    "pingpong": _sm90("pingpong", "_64, _128, _64", _SMALL, _LARGE, nt=True),
    "cooperative": _sm90("cooperative", "_128, _256, _64", (512, 512, 256), _LARGE, cluster="_2, _1, _1"),
    "bf16_cluster": _sm90("pingpong", "_64, _128, _64", _SMALL, _LARGE, kind="bf16", out="bf16", cluster="_2, _1, _1"),
    "tf32": _sm90("ws", "_128, _128, _32", _SMALL, (1024, 1024, 1024), kind="float32", out="float32",
                  element="tfloat32_t"),
    "fp8": _sm90("fp8", "_64, _128, _128", _SMALL, _LARGE, kind="fp8e4nv"),
    "int8": _sm90("cooperative", "_128, _128, _128", _SMALL, _LARGE, kind="int8", out="int32", total="int32_t"),
    "stream_k": _sm90("cooperative", "_128, _128, _64", (384, 384, 2048), (1536, 1536, 1024),
                      scheduler="gemm::StreamKScheduler"),
    "cp_async": _sm90("cp_async", "_128, _128, _64", _SMALL, _LARGE),
    "sm80_half": _sm80("float16", "TensorOp/16, 8, 16", "128, 128, 32", "64, 64, 32", 3, _SMALL, _LARGE),
    "sm80_simt": _sm80("float32", "Simt/1, 1, 1", "128, 128, 8", "32, 64, 8", 4, (256, 256, 256), (1024, 1024, 512)),
    "tutorial_mma": _tutorial("sgemm_sm80.cu", _SMALL, _LARGE),
    "tutorial_wgmma": _tutorial("hopper/wgmma_sm90.cu", _SMALL, _LARGE),
    "tutorial_tma": _tutorial("hopper/wgmma_tma_sm90.cu", _SMALL, _LARGE),
}  # fmt: skip
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
