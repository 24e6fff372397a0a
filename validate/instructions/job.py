"""A job, everything that `worker` needs in one file; and its results into the data that the tests replay."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from isa.toolchain import tool_version
from validate.instructions import forms, kernel, operands

DATA = Path(__file__).parents[2] / "tests" / "gpusim" / "data" / "h200_instructions.npz"
REGISTERS = 8
"""Words of a result that are registers and predicates; the rest is memory, kept for memory instructions only."""
_PREDICATES, _UNIFORM_PREDICATES = kernel.OUTPUT.index("P"), kernel.OUTPUT.index("UP")


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


def import_results(job_path: Path, results_path: Path, out: Path = DATA) -> dict[str, int]:
    """Join a job and its results; returns how many forms were recorded, refused by the GPU, and not reached.

    The file holds: text [n], encoding [n, 2], family [n], operands [families, lanes, 8], constants [16], registers
    [n, lanes, 8] in the order of `kernel.OUTPUT` with predicates as changes of the input's, memory [m, lanes, 24]
    (shared, local and global cell) for the last m forms, refused: texts, and provenance.
    """
    with np.load(job_path) as file:
        job = dict(file)
    with np.load(results_path) as file:
        results, state, provenance = file["results"], file["state"], json.loads(str(file["provenance"]))
    is_memory = job["family"] == operands.FAMILIES.index("memory")
    recorded = np.flatnonzero(state == 1)
    order = np.concatenate([recorded[~is_memory[recorded]], recorded[is_memory[recorded]]])
    registers = results[order, :, :REGISTERS]
    before = job["operands"][job["family"][order], :, 5] & 0x7F
    registers[:, :, _PREDICATES] ^= before
    provenance = {key: value for key, value in provenance.items() if key != "failures"}
    provenance["nvdisasm"], provenance["ptxas"] = tool_version("nvdisasm"), tool_version("ptxas")
    np.savez_compressed(
        out,
        text=job["text"][order],
        encoding=job["encoding"][order],
        family=job["family"][order],
        operands=job["operands"],
        constants=job["constants"],
        registers=registers,
        memory=results[order[is_memory[order]], :, REGISTERS:],
        refused=job["text"][state == 2],
        provenance=json.dumps(provenance),
    )
    return {"recorded": len(order), "refused": int((state == 2).sum()), "not reached": int((state == 0).sum())}


def command(options: argparse.Namespace) -> int:
    """`validate instructions`."""
    if options.results is None:
        write(options.job, forms.find())
        print(f"run on the GPU machine: python -m validate.instructions.worker {options.job} results.npz")
    else:
        print(import_results(options.job, options.results))
    return 0
