"""Ten thousand more generated kernels, kept by their seeds: what an H200 computed and counted, as digests.

A kernel grows from its seed and is compiled when it is compared. Its outputs have to be the H200's whatever compiled
it. Counters of three thousand are kept too, and compared where the code is the code that was measured: nvcc 13.0 gives
that (`--nvcc`), NVRTC for some kernels.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from isa import compile_cuda
from isa.cubin import read_cubin
from isa.listing import programs_from_cubin
from validate.generated import archive, emit, tree

FILE = Path(__file__).parent / "h200_seeds.npz"


def of_code(code: bytes) -> int:
    """64 bits of the SHA-256 of a kernel's machine code."""
    return int(hashlib.sha256(code).hexdigest()[:16], 16)


def of_outputs(arrays: Iterable[np.ndarray]) -> int:
    """64 bits of the SHA-256 of what a kernel left in its arrays."""
    return int(hashlib.sha256("".join(archive.digest(each)[:16] for each in arrays).encode()).hexdigest()[:16], 16)


def compare(
    first: int, last: int, *, gpu: str = "h200", nvcc: str | None = None, say: Callable[[str], None] = print
) -> dict[int, list[str]]:
    """What differs from the hardware, by seed, of the kernels from `first` to before `last`, whole cubins of them.

    Raises:
        ValueError: a seed that was not recorded.
        CalledProcessError: nvcc failed.
    """
    with np.load(FILE) as file:
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
            as_measured = of_code(read.code(name).code) == int(kept["code"][index])
            values = counters.get(index) if as_measured else None
            wanted = dict(zip(kept["metrics"].tolist(), values, strict=True)) if values else {}
            args, digest = tuple(tree.arguments(kernel.total, seed).values()), int(kept["outputs"][index])
            found = archive.differences(
                programs[name], kernel, args, gpu, wanted,
                lambda arrays, digest=digest: "" if of_outputs(arrays) == digest else "arrays differ",  # type: ignore[misc]
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
    kernels = [each for each in archive.load()[1] if not options.only or each.name in options.only]
    return 1 if archive.replay_all(kernels, options.gpu) or not kernels else 0
