"""The vendor's assembler and linker: PTX to cubins through ptxas, relocatable objects to a cubin through nvlink."""

from __future__ import annotations

import re
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

from isa.errors import CompileError
from isa.mistakes import told
from isa.toolchain import find_tool, first_error, library_folders, run_tool

DEFAULT_ARCH = "sm_90"


def assemble(
    ptx: str | bytes,
    arch: str = DEFAULT_ARCH,
    *,
    max_registers: int | None = None,
    path: str = "<ptx>",
    debug: bool = False,
    relocatable: bool = False,
) -> bytes:
    """Turn PTX into a cubin with line information, or for debugging.

    Args:
        ptx: the text.
        arch: target such as 'sm_90'; the PTX must not require a later one.
        max_registers: upper limit of registers per thread.
        path: name of the PTX file or of what it was made from, for messages.
        debug: do not optimise, as the PTX of a kernel compiled for debugging demands.
        relocatable: make an object that has to be linked.

    Raises:
        CompileError: ptxas rejects the text; the message is its first error.
        ToolchainMissing: there is no ptxas.
    """
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_bytes(ptx.encode() if isinstance(ptx, str) else ptx)
        lines = "-g" if debug else "-lineinfo"
        command = [find_tool("ptxas"), f"-arch={arch}", lines, str(source), "-o", str(target)]
        if relocatable:
            command.append("-c")
        if max_registers is not None:
            command.append(f"-maxrregcount={max_registers}")
        done = run_tool(command)
        if done.returncode == 0:
            return target.read_bytes()
    report = done.stderr or done.stdout
    message, line = first_error(report)
    if extern := re.search(r"Unresolved extern function '(\w+)'", report):
        message = f"it calls {extern[1]}, which it does not define, and nothing is linked to it"
    if "SM version specified by .target is higher" in message:
        message = f"its .target is a later architecture than {arch}"
    raise CompileError(told(message, {}, line)[0] or f"ptxas rejects the PTX: {message}", path, line)


_RELOCATABLE = 1  # ELF type of an object that has still to be linked


def is_relocatable(cubin: bytes) -> bool:
    """True for a cubin that was made with separate compilation and has not been linked."""
    return len(cubin) >= 18 and cubin[:4] == b"\x7fELF" and struct.unpack_from("<H", cubin, 16)[0] == _RELOCATABLE


def link_objects(objects: Sequence[tuple[str, bytes]], arch: str) -> bytes:
    """Link objects (.cubin, .o, .fatbin, .a, .ptx) with each other and CUDA's device runtime.

    objects: name, whose suffix says what it is, and content of each. arch: target such as 'sm_90'. Raises CompileError
    (nvlink cannot link them; the message is its first error), ToolchainMissing (there is no nvlink), ToolchainFailed
    (nvlink does not end)."""
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        paths = []
        for index, (name, data) in enumerate(objects):
            paths.append(Path(folder, f"{index}{Path(name).suffix}"))
            paths[-1].write_bytes(data)
        target = Path(folder, "linked.out")
        command = [find_tool("nvlink"), f"-arch={arch}", *map(str, paths), "-o", str(target)]
        command += [*(f"-L{each}" for each in library_folders()), "-lcudadevrt"]
        done = run_tool(command)
        if done.returncode == 0:
            return target.read_bytes()
    message, _ = first_error(done.stderr or done.stdout)
    raise CompileError("nvlink cannot link it: " + message.replace(f"{folder}/", ""), objects[0][0])
