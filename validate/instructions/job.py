"""A job: everything that `worker` needs, in one file."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from validate.instructions import forms, kernel, operands


def write(path: Path, chosen: list[forms.Form], stall: int = 11) -> None:
    """Write a job for these forms.

    Raises:
        ToolchainMissing, ToolchainFailed: see `kernel.build`.
    """
    cubin, offset, _ = kernel.build()
    np.savez_compressed(
        path,
        cubin=np.frombuffer(cubin, np.uint8),
        offset=offset,
        output_words=len(kernel.OUTPUT),
        constants=constants(),
        text=np.array([form.text for form in chosen]),
        encoding=words([scheduled(form, stall) for form in chosen]),
        family=np.array([operands.FAMILIES.index(form.family) for form in chosen], np.uint8),
        uniform=np.array([form.family == "uniform" for form in chosen], np.uint8),
        operands=np.stack([operands.operands(family) for family in operands.FAMILIES]),
    )


def scheduled(form: forms.Form, stall: int) -> int:
    """The encoding that waits for everything before it and announces its result where it can."""
    from isa.opcodes import OPCODES
    from validate.instructions.encode import with_control

    opcode = OPCODES.get(forms.opcode_of(form.text))
    name = forms.opcode_of(form.text)
    variable = opcode.variable if opcode else name in ("FSWZADD", "CLMAD")
    stores = name in ("ST", "STG", "STS", "STL", "RED", "REDG")
    return with_control(
        form.encoding, stall, write=0 if variable and not stores else 7, read=1 if variable else 7, wait=0x3F
    )


def constants() -> np.ndarray:
    """uint32 [16]: the words of constant bank 0 that instructions read."""
    few = (0x3FC00000, 0xC0490FDB, 5, 0x80000001, 0x3C00BC00, 0x4000B800, 0x00000021, 0x9876ABCD)
    more = (0, 0x3FF80000, 0x12345678, 0xC08F4000, 0x7F800000, 0x0001FFFF, 0x3F803F00, 0x7FFFFFFF)
    return np.array((*few, *more), np.uint32)


def words(encodings: list[int]) -> np.ndarray:
    """uint64 [n, 2], low word first."""
    return np.array([[each & (1 << 64) - 1, each >> 64] for each in encodings], np.uint64)


def command(options: argparse.Namespace) -> int:
    """`validate instructions`."""
    from validate.instructions import importer

    if options.results is None:
        write(options.job, forms.find())
        print(f"run on the GPU machine: python -m validate.instructions.worker {options.job} results.npz")
    else:
        print(importer.write(options.job, options.results))
    return 0
