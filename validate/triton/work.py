"""Inputs and outputs of a kernel in Triton, and its compiled launch. A machine with a GPU needs no more than NumPy."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.launch import Launch, TensorMap
from programs.images import LoadableKernel

SEED = 20261
SCRATCH = "scratch"


class NotBuilt(RuntimeError):
    """A kernel is not there, or what builds it is missing or another version."""


@dataclass(frozen=True)
class Work:
    """arrays: inputs and outputs alike, by name. expected: outputs in double or single precision. tolerance: of the
    greatest expected magnitude. kinds: of arrays whose bits stand for a type that NumPy lacks: 'bf16', 'fp8e4nv'."""

    arrays: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    tolerance: float = 1e-5
    kinds: dict[str, str] = field(default_factory=dict)

    def mismatch(self, outputs: Mapping[str, np.ndarray]) -> tuple[str | None, float]:
        """Say what is wrong with outputs, None if nothing, and the greatest error beside the greatest magnitude."""
        worst = 0.0
        for name, wanted in self.expected.items():
            found = decoded(outputs[name], self.kinds.get(name)).astype(np.float64).reshape(wanted.shape)
            scale = float(np.abs(wanted).max(initial=1e-30))
            error = float(np.nan_to_num(np.abs(found - wanted) / scale, nan=np.inf).max(initial=0.0))
            worst = max(worst, error)
        return (f"off by {worst:.2g} of the greatest value" if worst > self.tolerance else None), worst

    def digest(self) -> str:
        """Of all arrays as they are before the launch."""
        contents = (np.ascontiguousarray(each).tobytes() for each in self.arrays.values())
        return hashlib.sha256(b"".join(contents)).hexdigest()


@dataclass(frozen=True)
class BuiltLaunch:
    """A compiled case. args: in the kernel's order a NumPy scalar, an array of the work by name, or (name, box,
    swizzle) for a tensor map of one. code_sha256: of the machine code, as `Program` has it. scratch_bytes: of the array
    SCRATCH, zeros at first."""

    kernel: LoadableKernel
    code_sha256: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    args: tuple[Any, ...]
    cluster: tuple[int, int, int] = (1, 1, 1)
    scratch_bytes: int = 0

    def arrays(self, work: Work) -> dict[str, np.ndarray]:
        """Return the arrays in device memory before the launch."""
        return work.arrays | ({SCRATCH: np.zeros(self.scratch_bytes, np.uint8)} if self.scratch_bytes else {})

    def launch(self, arrays: Mapping[str, Any], work: Work) -> Launch:
        """The launch on these arrays, NumPy's or a device's."""

        def argument(value: Any) -> Any:
            if isinstance(value, str):
                return arrays[value]
            if isinstance(value, tuple):
                name, box, swizzle = value
                return TensorMap(arrays[name], box, swizzle, "bfloat16" if work.kinds.get(name) == "bf16" else "")
            return value

        return Launch(None, self.grid, self.block, tuple(map(argument, self.args)), self.shared_bytes)

    def outputs(self) -> dict[str, int]:
        """Position among the arguments of each array of the work."""
        names = (value[0] if isinstance(value, tuple) else value for value in self.args)
        return {name: index for index, name in enumerate(names) if isinstance(name, str)}


def write_job(path: Path, launches: Mapping[str, BuiltLaunch]) -> None:
    """Write launches by point, for `python -m validate.triton.worker` on a machine with a GPU."""
    path.write_bytes(pickle.dumps(dict(launches)))


def read_job(path: Path) -> dict[str, BuiltLaunch]:
    """The launches of a job that was written here. Raises NotBuilt."""
    try:
        return dict(pickle.loads(path.read_bytes()))
    except (OSError, pickle.UnpicklingError, TypeError, ValueError) as error:
        raise NotBuilt(f"{path} is no job of built kernels: {error}") from None


def decoded(array: np.ndarray, kind: str | None) -> np.ndarray:
    """Values of an array whose bits stand for a type that NumPy lacks."""
    if kind == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    if kind == "fp8e4nv":
        exponent, fraction = (array >> 3 & 15).astype(np.float32), (array & 7).astype(np.float32)
        size = np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * np.exp2(exponent - 7))
        return np.where(array >> 7, -size, size).astype(np.float32)
    return array


def bfloat16(array: np.ndarray) -> np.ndarray:
    """Bits of the nearest bfloat16, ties to even."""
    bits = array.astype(np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)
