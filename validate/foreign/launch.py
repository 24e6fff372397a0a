"""A launch of a built kernel in plain values, without an address: what a GPU and the simulator both run.

Parameters are bytes with holes; a hole is filled with the address of an array, or with a tensor map of one. Needs NumPy
alone, since a machine with a GPU has no more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

SEED = 20261


MANIFEST = "manifest.json"


class NotBuilt(RuntimeError):
    """A kernel is not there, or what builds it is missing or another version."""


@dataclass(frozen=True)
class MapHole:
    """A tensor map at `offset`, as cuTensorMapEncodeTiled is asked for it: of the array number `array`, from its byte
    `delta` on. kind, interleave, swizzle, promotion, fill: the driver's numbers. shape, strides (bytes, one fewer), box
    and steps: the innermost dimension first."""

    offset: int
    array: int
    kind: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: int
    promotion: int = 2
    fill: int = 0
    interleave: int = 0
    delta: int = 0


@dataclass(frozen=True)
class BuiltLaunch:
    """parameters: (offset, size) of each. area: their bytes from offset 0, in hexadecimal. pointers: (offset, array,
    bytes to add) of the holes that take an address. code_sha256: of the machine code, as `Program` has it.
    scratch_bytes: of one more array behind the others, zeros at first."""

    symbol: str
    code_sha256: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    parameters: tuple[tuple[int, int], ...]
    area: str
    pointers: tuple[tuple[int, int, int], ...]
    maps: tuple[MapHole, ...] = ()
    scratch_bytes: int = 0

    def arrays(self, work: Work) -> dict[str, np.ndarray]:
        """What lies in device memory before the launch, in the order that the holes count."""
        more = {"scratch": np.zeros(self.scratch_bytes, np.uint8)} if self.scratch_bytes else {}
        return {name: np.ascontiguousarray(array) for name, array in {**work.arrays, **more}.items()}

    def fill(self, addresses: list[int], encode: Callable[[MapHole, int], bytes]) -> bytes:
        """The parameter area with every hole filled; `encode` makes a tensor map of a hole and an address."""
        area = bytearray.fromhex(self.area)
        for offset, array, delta in self.pointers:
            area[offset : offset + 8] = (addresses[array] + delta).to_bytes(8, "little")
        for each in self.maps:
            area[each.offset : each.offset + 128] = encode(each, addresses[each.array] + each.delta)
        return bytes(area)


def write_manifest(folder: Path, package: str, points: Mapping[str, BuiltLaunch]) -> None:
    """Say in a folder of cubins, each under its `code_sha256`, how they are launched."""
    document = {"package": package, "points": {name: asdict(launch) for name, launch in points.items()}}
    (folder / MANIFEST).write_text(json.dumps(document, indent=1) + "\n")


def read_manifest(folder: Path) -> tuple[str, dict[str, BuiltLaunch]]:
    """(Package whose `cases` they are, launches by name). Raises NotBuilt."""
    try:
        document = json.loads((folder / MANIFEST).read_text())
        points = {name: _launch({key: _tuples(value) for key, value in each.items()})
                  for name, each in document["points"].items()}  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotBuilt(f"{folder} has no {MANIFEST} of built kernels: {error}") from None
    return document["package"], points


def _launch(fields: dict[str, Any]) -> BuiltLaunch:
    maps = tuple(MapHole(**{key: _tuples(value) for key, value in each.items()}) for each in fields["maps"])
    return BuiltLaunch(**fields | {"maps": maps})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class Work:
    """What a kernel works on. arrays: in the order that the launch's holes count them, inputs and outputs alike.
    expected: by name, in double or single precision. tolerance: of the greatest expected magnitude.
    kinds: of arrays whose bits stand for a type that NumPy lacks: 'bf16', 'fp8e4nv'.
    """

    arrays: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    tolerance: float = 1e-5
    kinds: dict[str, str] = field(default_factory=dict)

    def mismatch(self, outputs: Mapping[str, np.ndarray]) -> tuple[str | None, float]:
        """What is wrong with outputs, None if nothing; and the greatest error, relative to the greatest magnitude."""
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
