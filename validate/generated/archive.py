"""The recorded kernels: machine code, launch, digests of the outputs and counters, in one file; and their replay on the
simulator: outputs to the bit, counters to the last one.

`h200.zip` has four members, each compressed as a whole, which is what makes a thousand programs small:
`kernels.json` (provenance, names of the counters, one entry per kernel), `programs.json` (program images without
instructions, cubin and source), `listing.txt` (the instructions' text, a line each), `encodings.bin` (16 bytes each).
Outputs are those of a plain launch, counters those of one launch under ncu with its caches emptied; nvcc 13.0 compiled
the generated kernels in C++, twenty to a cubin, Numba the others.

Every generated kernel takes the same arguments. They are free of races and end: loops are bounded, threads write places
of their own, all else goes through commutative atomics, and shared memory is only read between barriers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import gpusim
from gpusim.errors import SimulationError
from isa import Program
from isa.instruction import INSTRUCTION_BYTES

ARCHIVE = Path(__file__).parent / "h200.zip"
_MAGIC = b"GPUPROG\n"


@dataclass(frozen=True)
class Recorded:
    """A kernel as it ran on the hardware.

    name: 'numba17' or 'cuda1017', the language and the seed of its tree and arguments, or the name of an ordinary
        kernel. tree: the program as nested tuples, in words, empty for an ordinary kernel: a statement, expression or
        condition begins with its kind. values: arguments of an ordinary kernel.
    code_sha256: digest of what executes. outputs: digest of each array argument after the run.
    counters: by ncu's name; empty if none were taken. close: outputs depend on approximate functions of the hardware.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    tree: str
    values: tuple[Any, ...]
    code_sha256: str
    outputs: tuple[str, ...]
    counters: dict[str, int]
    close: bool
    image: bytes

    def program(self) -> Program:
        """The decoded machine code."""
        return Program.from_bytes(self.image, self.name)

    def arguments(self) -> tuple[Any, ...]:
        """Fresh arguments."""
        if not self.tree:
            return tuple(value.copy() if isinstance(value, np.ndarray) else value for value in self.values)
        seed = int(self.name.lstrip("abcdefghijklmnopqrstuvwxyz"))
        return tuple(_generated_arguments(int(np.prod(self.grid) * np.prod(self.block)), seed))


INPUTS = (("int32", 256), ("int64", 128), ("float32", 256), ("float64", 128))
"""Arrays that generated kernels only read: type and items."""
OUTPUTS = (("int32", 4), ("int64", 2), ("float32", 2), ("float64", 2))
"""Arrays in which every thread owns some items: type and items per thread."""
RESULTS = ("int32", "uint32", "int64")
"""Types of the arrays for atomics of all threads. Each of seven operations has 8 items of its own."""


def _generated_arguments(threads: int, seed: int) -> Iterator[Any]:
    """Fresh arguments for a launch of so many threads: random inputs, poisoned outputs, results of atomics at 7,
    scalars."""
    random = np.random.Generator(np.random.PCG64(seed))
    for name, items in INPUTS:
        if name.startswith("float"):  # small multiples of an eighth, some wild
            array = (random.integers(-64, 64, items) / 8).astype(name)
            array[::16] *= random.random(len(array[::16])).astype(name)
        else:
            small, limit = random.integers(-9, 9, items), 1 << (30 if name == "int32" else 62)
            wild = random.integers(-limit, limit, items)
            array = np.where(random.integers(0, 4, items) == 0, wild, small).astype(name)
        yield array
    yield from (np.full(threads * items, 77, name) for name, items in OUTPUTS)
    yield from (np.full(8 * 7, 7, name) for name in RESULTS)
    yield np.int32(random.integers(-3, 9))
    yield np.int64(random.integers(-9, 9))
    yield np.float32(random.integers(-16, 16) / 4)


def digest(array: np.ndarray) -> str:
    """Digest of an array's bits, all NaNs alike: IEEE 754 leaves their payload open."""
    dense = np.ascontiguousarray(array)
    if dense.dtype.kind == "f":
        dense = np.where(np.isnan(dense), np.array(np.nan, dense.dtype), dense)
    return hashlib.sha256(dense.tobytes()).hexdigest()[:16]


@cache
def load(path: Path = ARCHIVE) -> tuple[dict[str, Any], tuple[Recorded, ...]]:
    """(provenance, kernels) of an archive; programs are decoded when asked for."""
    with zipfile.ZipFile(path) as archive:
        document, images = json.loads(archive.read("kernels.json")), json.loads(archive.read("programs.json"))
        texts, encodings = iter(archive.read("listing.txt").decode().split("\n")), archive.read("encodings.bin")
    words = (encodings[at : at + INSTRUCTION_BYTES] for at in range(0, len(encodings), INSTRUCTION_BYTES))
    found = []
    for row, image in zip(document["kernels"], images, strict=True):
        count = image.pop("instructions")
        image["instructions"] = [
            (next(texts), f"{int.from_bytes(next(words), 'little'):x}", None, None) for _ in range(count)
        ]
        packed = _MAGIC + zlib.compress(json.dumps(image).encode(), 0)
        row |= {name: tuple(row[name]) for name in ("grid", "block", "outputs")}
        row["counters"] = dict(zip(document["metrics"], row["counters"], strict=True)) if row["counters"] else {}
        row["values"] = tuple(map(_value, row["values"]))
        found.append(Recorded(**row, image=packed))
    return document["provenance"], tuple(found)


def _value(described: dict[str, Any]) -> Any:
    content = np.frombuffer(zlib.decompress(bytes.fromhex(described["bytes"])), described["dtype"])
    return content[0] if described["shape"] is None else content.reshape(described["shape"])


def replay(recorded: Recorded, gpu: Any = "h200") -> list[str]:
    """Say what differs from the hardware, in words; empty if nothing does."""
    program = recorded.program()
    if program.code_sha256 != recorded.code_sha256:
        return ["the archive's code is not what its digest says"]
    args = recorded.arguments()
    try:
        result = gpusim.simulate(program, recorded.grid, recorded.block, args, gpu, recorded.shared_bytes, threads=1)
    except SimulationError as error:
        return [str(error)]
    found = [f"{name} is {result.metrics[name]:g}, not {value}"
             for name, value in recorded.counters.items() if result.metrics[name] != value]  # fmt: skip
    arrays = [value for value in args if isinstance(value, np.ndarray)]
    wrong = [index for index, each in enumerate(arrays) if digest(each) != recorded.outputs[index]]
    return [*found, f"array arguments {wrong} differ"] if wrong and not recorded.close else found


def replay_all(
    kernels: Sequence[Recorded], gpu: Any = "h200", say: Callable[[str], None] = print
) -> dict[str, list[str]]:
    """Say what differs, by kernel; only kernels that differ are in it."""
    started, differing = time.monotonic(), {}
    for recorded in kernels:
        if found := replay(recorded, gpu):
            differing[recorded.name] = found
            say(f"{recorded.name}: {'; '.join(found)}")
    counted = [each for each in kernels if each.counters]
    equal = sum(each.name not in differing for each in counted)
    say(
        f"{len(kernels) - len(differing)} of {len(kernels)} kernels equal, {equal} of {len(counted)} with counters, "
        f"in {time.monotonic() - started:.0f} s"
    )
    return differing


def command(options: argparse.Namespace) -> int:
    """`validate generated`: status 1 if a kernel differs."""
    kernels = [each for each in load()[1] if not options.only or each.name in options.only]
    return 1 if replay_all(kernels, options.gpu) or not kernels else 0
