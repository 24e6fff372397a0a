"""A job, everything that `worker` needs in one file; and its results into the data that the tests replay.

The recording is where forms and operands are kept. Its 3,680 forms, and 320 that an H200 refuses, are every opcode,
modifier set and kind of operand that nvdisasm knows of single instructions. About half of the operands' values are
those at which arithmetic has its corners: both zeros, denormals, infinities, quiet and signalling NaN with payloads,
powers of two and their neighbours, shift counts beyond the width.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from isa import compile_cuda
from isa.elf import Elf
from isa.instruction import INSTRUCTION_BYTES
from isa.toolchain import find_tool, tool_version

DATA = Path(__file__).parents[2] / "tests" / "gpusim" / "data" / "h200_instructions.npz"
FAMILIES = ("word", "double", "half", "uniform", "memory")
"""Sets of operands in the order of the recording: those of 32-bit words, ..., of what accesses memory."""
REGISTERS = 8
"""Words of a result that are registers and predicates; the rest is memory, kept for memory instructions only."""
OUTPUT = ("R24", "R25", "R26", "R27", "P", "UP", "UR24", "UR25") + ("shared",) * 8 + ("local",) * 8
"""The words that a thread writes, in order."""
_LISTING = Path(__file__).with_name("kernel.sass")
"""The kernel's instructions, each of which waits for everything before it, so the order is all that matters."""
_SLOT = 54
"""Place of the instruction among them."""
_PREDICATES = OUTPUT.index("P")
NOP = 0x7918 | 7 << 12
RA, RB, RC = 24, 32, 64
"""First bits of the register fields, of 8 bits each."""
_BAD = re.compile(r"at address (0x[0-9a-f]+)")
_LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s+/\* 0x")


def build() -> tuple[bytes, int]:
    """The cubin of the kernel around one instruction, with a NOP in its place, and that place's byte offset in the
    file.

    Every thread loads 32 bytes into R12..R15 and R4..R7, copies of the warp's lowest lane stand in the uniform
    registers of the same numbers, bits 0..6 of R5 are in P0..P6 and their disjunction over the warp in UP0..UP6.
    R24..R27 and UR24, UR25 are zero. Then comes the instruction. What a thread writes back is listed in `OUTPUT`.

    A thread's memory operands are 32 bytes of its own, which hold its input: in global memory at R8:R9, where it was
    loaded from, in shared memory at R2, in local memory at R3. R16 holds a small multiple of 4 from R14.

    Raises:
        ToolchainMissing, ToolchainFailed: the tools that compile it are missing or refuse.
        ValueError: the compiled kernel leaves no room for the assembled one.
    """
    lines = [line for line in _LISTING.read_text("utf-8").splitlines() if not line.startswith("//")]
    code = b"".join(int(line.split()[0], 16).to_bytes(INSTRUCTION_BYTES, "little") for line in lines)
    cubin = compile_cuda(Path(__file__).with_name("kernel.cu").read_text("utf-8"), "sm_90")
    section = Elf(cubin, "the kernel").by_name[".text.form"]
    if len(code) > section.size:
        raise ValueError(f"{len(code)} bytes of code do not fit into {section.size}")
    start = section.offset
    return cubin[:start] + code + cubin[start + len(code) :], start + INSTRUCTION_BYTES * _SLOT


def write(path: Path) -> None:
    """Write a job for the recorded forms. Raises ToolchainMissing, ToolchainFailed: see `build`."""
    cubin, offset = build()
    with np.load(DATA) as file:
        kept = {name: file[name] for name in ("text", "encoding", "family", "operands", "constants")}
    kept |= {
        "uniform": (kept["family"] == FAMILIES.index("uniform")).astype(np.uint8),
        "cubin": np.frombuffer(cubin, np.uint8),
    }
    np.savez_compressed(path, **kept, offset=offset, output_words=len(OUTPUT))


def field(bits: int, at: int, width: int, value: int) -> int:
    """`bits` with one field replaced."""
    mask = (1 << width) - 1
    return bits & ~(mask << at) | (value & mask) << at


def texts(encodings: Iterable[int], architecture: str = "SM90") -> list[str | None]:
    """Text of each encoding, None where nvdisasm refuses it. Raises ToolchainMissing if there is no nvdisasm."""
    words = list(encodings)
    refused: set[int] = set()
    while True:
        listing, complaints = _disassemble(words, architecture)
        found = {int(address, 16) // INSTRUCTION_BYTES for address in _BAD.findall(complaints)} - refused
        if not found and not listing and len(words) > 1:  # it does not say where
            parts = words[: len(words) // 2], words[len(words) // 2 :]
            each_text = (text for part in parts for text in texts(part, architecture))
            found = {k for k, text in enumerate(each_text) if text is None}
        if not found:
            break
        refused |= found
        for k in found:
            words[k] = NOP
    result: list[str | None] = [None] * len(words)
    for match in _LINE.finditer(listing):
        k = int(match[1], 16) // INSTRUCTION_BYTES
        if k not in refused:
            result[k] = " ".join(match[2].split())
    return result


def _disassemble(words: list[int], architecture: str) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        path = Path(folder, "code.bin")
        path.write_bytes(b"".join(word.to_bytes(INSTRUCTION_BYTES, "little") for word in words))
        done = subprocess.run(
            [find_tool("nvdisasm"), "-b", architecture, "-hex", str(path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    return done.stdout, done.stderr


def import_results(job_path: Path, results_path: Path, out: Path = DATA) -> dict[str, int]:
    """Join a job and its results; returns how many forms were recorded, refused by the GPU, and not reached. What was
    refused before stays so.

    The file holds: text [n], encoding [n, 2], family [n], operands [families, lanes, 8], constants [16], registers
    [n, lanes, 8] in the order of `OUTPUT` with predicates as changes of the input's, memory [m, lanes, 24]
    (shared, local and global cell) for the last m forms, refused: texts, and provenance.
    """
    with np.load(job_path) as file:
        job = dict(file)
    with np.load(results_path) as file:
        results, state, provenance = file["results"], file["state"], json.loads(str(file["provenance"]))
    with np.load(DATA) as file:
        refused = [each for each in file["refused"] if each not in job["text"]]
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
        **{name: job[name][order] for name in ("text", "encoding", "family")},
        **{name: job[name] for name in ("operands", "constants")},
        registers=registers,
        memory=results[order[is_memory[order]], :, REGISTERS:],
        refused=np.array([*refused, *job["text"][state == 2]]),
        provenance=json.dumps(provenance),
    )
    return {"recorded": len(order), "refused": int((state == 2).sum()), "not reached": int((state == 0).sum())}


def command(options: argparse.Namespace) -> int:
    """`validate instructions`."""
    if options.results is None:
        write(options.job)
        print(f"run on the GPU machine: python -m validate.instructions.worker {options.job} results.npz")
    else:
        print(import_results(options.job, options.results))
    return 0
