"""The recorded kernels: machine code, launch, digests of the outputs and counters, in one file; and their replay on the
simulator: outputs to the bit, counters to the last one.

`h200.zip` has four members, each compressed as a whole, which is what makes a thousand programs small:
`kernels.json` (provenance, names of the counters, one entry per kernel), `programs.json` (program images without
instructions, cubin and source), `listing.txt` (the instructions' text, a line each), `encodings.bin` (16 bytes each).
Outputs are those of a plain launch, counters those of one launch under ncu with its caches emptied; nvcc 13.0 compiled
the generated kernels in C++, twenty to a cubin, Numba the others.

Ten thousand more (`SEEDS`) are kept by their seeds, as digests. Such a kernel grows from its seed and is compiled when
it is compared. Its outputs have to be the H200's whatever compiled it. Counters of three thousand are kept too, and
compared where the code is the code that was measured: nvcc 13.0 gives that (`--nvcc`), NVRTC for some kernels.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import gpusim
from gpusim.errors import SimulationError
from isa import Program, compile_cuda
from isa.cubin import read_cubin
from isa.errors import IsaError
from isa.instruction import INSTRUCTION_BYTES
from isa.listing import programs_from_cubin
from validate.generated import emit, tree

ARCHIVE = Path(__file__).parent / "h200.zip"
SEEDS = Path(__file__).parent / "h200_seeds.npz"
_MAGIC = b"GPUPROG\n"


@dataclass(frozen=True)
class Recorded:
    """A kernel as it ran on the hardware.

    name: 'numba17' or 'cuda1017', the language and the seed of its tree and arguments, or the name of an ordinary
        kernel. tree: its program tree as text, empty for an ordinary kernel. values: arguments of an ordinary kernel.
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

    @property
    def seed(self) -> int:
        """Seed of a generated kernel's arguments."""
        return int(self.name.lstrip("abcdefghijklmnopqrstuvwxyz"))

    def arguments(self) -> tuple[Any, ...]:
        """Fresh arguments."""
        if not self.tree:
            return tuple(value.copy() if isinstance(value, np.ndarray) else value for value in self.values)
        threads = int(np.prod(self.grid) * np.prod(self.block))
        return tuple(tree.arguments(threads, self.seed).values())


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
        document = json.loads(archive.read("kernels.json"))
        images = json.loads(archive.read("programs.json"))
        texts = iter(archive.read("listing.txt").decode().split("\n"))
        encodings = archive.read("encodings.bin")
    words = (encodings[at : at + INSTRUCTION_BYTES] for at in range(0, len(encodings), INSTRUCTION_BYTES))
    found = []
    for row, image in zip(document["kernels"], images, strict=True):
        count = image.pop("instructions")
        image["instructions"] = [
            (next(texts), f"{int.from_bytes(next(words), 'little'):x}", None, None) for _ in range(count)
        ]
        packed = _MAGIC + zlib.compress(json.dumps(image).encode(), 0)
        counters = dict(zip(document["metrics"], row.pop("counters"), strict=True)) if row["counters"] else {}
        row.pop("counters", None)
        values = tuple(_value(each) for each in row.pop("values"))
        grid, block = tuple(row.pop("grid")), tuple(row.pop("block"))
        outputs = tuple(row.pop("outputs"))
        found.append(
            Recorded(**row, grid=grid, block=block, values=values, outputs=outputs, counters=counters, image=packed)
        )
    return document["provenance"], tuple(found)


def _value(described: dict[str, Any]) -> Any:
    content = np.frombuffer(zlib.decompress(bytes.fromhex(described["bytes"])), described["dtype"])
    return content[0] if described["shape"] is None else content.reshape(described["shape"])


def replay(recorded: Recorded, gpu: Any = "h200") -> list[str]:
    """Say what differs from the hardware, in words; empty if nothing does."""
    program = recorded.program()
    if program.code_sha256 != recorded.code_sha256:
        return ["the archive's code is not what its digest says"]

    def outputs(arrays: list[np.ndarray]) -> str:
        wrong = [index for index, each in enumerate(arrays) if digest(each) != recorded.outputs[index]]
        return f"array arguments {wrong} differ" if wrong and not recorded.close else ""

    return differences(program, recorded, recorded.arguments(), gpu, recorded.counters, outputs)


# many parameters: a launch, and both kinds of what it is held to
def differences(
    program: Program, kernel: Any, args: Sequence[Any], gpu: Any, counters: Mapping[str, int],
    outputs: Callable[[list[np.ndarray]], str],
) -> list[str]:  # fmt: skip
    """Return a line for each difference from the hardware, or the error of a failed launch. kernel: has grid, block and
    shared_bytes. outputs: returns a line about wrong arrays, '' if none."""
    try:
        result = gpusim.simulate(program, kernel.grid, kernel.block, args, gpu, kernel.shared_bytes, threads=1)
    except (SimulationError, IsaError) as error:
        return [str(error)]
    found = [f"{name} is {result.metrics[name]:g}, not {value}"
             for name, value in counters.items() if result.metrics[name] != value]  # fmt: skip
    wrong = outputs([value for value in args if isinstance(value, np.ndarray)])
    return [*found, wrong] if wrong else found


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


# --- kept by their seeds ----------------------------------------------------------------------------------------------


def of_outputs(arrays: Iterable[np.ndarray]) -> int:
    """64 bits of the SHA-256 of what a kernel left in its arrays."""
    return int(hashlib.sha256("".join(digest(each)[:16] for each in arrays).encode()).hexdigest()[:16], 16)


def compare(
    first: int, last: int, *, gpu: str = "h200", nvcc: str | None = None, say: Callable[[str], None] = print
) -> dict[int, list[str]]:
    """Say what differs from the hardware, by seed, of the kernels from `first` to before `last`, whole cubins of them.

    Raises:
        ValueError: a seed that was not recorded.
        CalledProcessError: nvcc failed.
    """
    with np.load(SEEDS) as file:
        kept = {name: file[name] for name in file.files}
    start, end = int(kept["first"]), int(kept["first"]) + len(kept["code"])
    if first < start or last > end:
        raise ValueError(f"recorded are the seeds from {start} to {end - 1}")
    counters = dict(zip(kept["counted"].tolist(), kept["counters"].tolist(), strict=True))
    differing: dict[int, list[str]] = {}
    compared = counted = 0
    for first_of_cubin in range(first - first % emit.PER_CUBIN, last, emit.PER_CUBIN):
        source, kernels = emit.grown(first_of_cubin)
        cubin = _nvcc(source, nvcc) if nvcc else compile_cuda(source, path="generated.cu")
        programs, read = programs_from_cubin(cubin), read_cubin(cubin)
        for seed, kernel in kernels.items():
            name, index = f"gen{seed}", seed - start
            as_measured = int(hashlib.sha256(read.code(name).code).hexdigest()[:16], 16) == int(kept["code"][index])
            values = counters.get(index) if as_measured else None
            wanted = dict(zip(kept["metrics"].tolist(), values, strict=True)) if values else {}
            args, left = tuple(tree.arguments(kernel.total, seed).values()), int(kept["outputs"][index])
            found = differences(
                programs[name], kernel, args, gpu, wanted,
                lambda arrays, left=left: "" if of_outputs(arrays) == left else "arrays differ",  # type: ignore[misc]
            )  # fmt: skip
            compared, counted = compared + 1, counted + bool(wanted)
            if found:
                differing[seed] = found
                say(f"seed {seed}: {'; '.join(found)}")
    say(f"{compared - len(differing)} of {compared} kernels equal; {counted} have counters of this code")
    return differing


def _nvcc(source: str, nvcc: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "generated.cu"
        path.write_text(source)
        cubin = path.with_suffix(".cubin")
        subprocess.run([nvcc, "-w", "-cubin", "-arch=sm_90", "-o", str(cubin), str(path)], check=True)
        return cubin.read_bytes()


def command(options: argparse.Namespace) -> int:
    """`validate generated`: status 1 if a kernel differs."""
    if options.seeds:
        return 1 if compare(*options.seeds, gpu=options.gpu, nvcc=options.nvcc) else 0
    kernels = [each for each in load()[1] if not options.only or each.name in options.only]
    return 1 if replay_all(kernels, options.gpu) or not kernels else 0
