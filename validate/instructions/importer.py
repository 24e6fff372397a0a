"""Results of a job into the data that the tests replay."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from isa.toolchain import tool_version
from validate.instructions import kernel
from validate.instructions.operands import FAMILIES

DATA = Path(__file__).parents[2] / "tests" / "gpusim" / "data" / "h200_instructions.npz"
REGISTERS = 8
"""Words of a result that are registers and predicates; the rest is memory, kept for memory instructions only."""
_PREDICATES, _UNIFORM_PREDICATES = kernel.OUTPUT.index("P"), kernel.OUTPUT.index("UP")


def write(job_path: Path, results_path: Path, out: Path = DATA) -> dict[str, int]:
    """Join a job and its results; returns how many forms were recorded, refused by the GPU, and not reached.

    The file holds: text [n], encoding [n, 2], family [n], operands [families, lanes, 8], constants [16], registers
    [n, lanes, 8] in the order of `kernel.OUTPUT` with predicates as changes of the input's, memory [m, lanes, 24]
    (shared, local and global cell) for the last m forms, refused: texts, and provenance.
    """
    with np.load(job_path) as file:
        job = dict(file)
    with np.load(results_path) as file:
        results, state, provenance = file["results"], file["state"], json.loads(str(file["provenance"]))
    is_memory = job["family"] == FAMILIES.index("memory")
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
