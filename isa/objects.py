"""Relocatable objects become a cubin that can run, through nvlink."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

from isa.errors import CompileError
from isa.toolchain import find_tool, first_error, library_folders, run_tool

_RELOCATABLE = 1  # ELF type of an object that has still to be linked


def is_relocatable(cubin: bytes) -> bool:
    """Whether a cubin was made with separate compilation and has not been linked."""
    return (
        len(cubin) >= 18
        and cubin[:4] == b"\x7fELF"
        and struct.unpack_from("<H", cubin, 16)[0] == _RELOCATABLE
    )


def link_objects(objects: Sequence[tuple[str, bytes]], arch: str) -> bytes:
    """Link objects (.cubin, .o, .fatbin, .a, .ptx) with each other and CUDA's device runtime.

    Args:
        objects: name, whose suffix says what it is, and content of each.
        arch: target such as 'sm_90'.

    Raises:
        CompileError: nvlink cannot link them; the message is its first error.
        ToolchainMissing: there is no nvlink.
        ToolchainFailed: nvlink does not end.
    """
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
