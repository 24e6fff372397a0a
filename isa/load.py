"""Load a kernel from a file: `.cubin`, `.ptx`, `.cu`, or a saved program image."""

from __future__ import annotations

import os
from pathlib import Path

from isa.compile import DEFAULT_ARCH, assemble, compile_cuda
from isa.errors import EntryError, ProgramFileError
from isa.listing import program_from_cubin
from isa.program import SUFFIX, Program, qualified_name

_LARGEST_FILE_BYTES = 1 << 30


def load(
    path: str | os.PathLike[str],
    entry: str | None = None,
    *,
    abi: str | None = None,
    arch: str = DEFAULT_ARCH,
    max_registers: int | None = None,
) -> Program:
    """Read one kernel from a file; the suffix says what it is.

    Args:
        path: a `.cubin` (used as it is), `.ptx` (through ptxas), `.cu` (through NVRTC), or `.gpuprog` image.
        entry: the kernel's mangled name, qualified name ('ns::kernel') or plain name; may be left out where
            the file holds one kernel.
        abi: 'numba' or 'c', how arguments are laid out in constant bank 0; None guesses from the mangled
            name.
        arch: target of `.ptx` and `.cu` files; 'sm_90a' allows instructions of that architecture alone.
        max_registers: upper limit of registers per thread for `.ptx` and `.cu` files.

    Raises:
        ProgramFileError: no such file, or a suffix that is not one of these; NotACubin for a damaged cubin.
        EntryError: no such kernel, or several and none chosen; the message lists what is there.
        CompileError: the source does not compile; with file and line.
        ToolchainMissing: a tool that is needed is not installed.
    """
    if abi not in (None, "numba", "c"):
        raise ProgramFileError(f"abi is 'numba' or 'c', not '{abi}'")
    file = Path(path)
    try:
        if file.exists() and (not file.is_file() or file.stat().st_size > _LARGEST_FILE_BYTES):
            raise ProgramFileError(f"{file} is not a file of at most {_LARGEST_FILE_BYTES:,} bytes")
        data = file.read_bytes()
    except (OSError, ValueError) as error:
        raise ProgramFileError(f"cannot read {file}: {getattr(error, 'strerror', error)}") from error
    suffix = file.suffix.lower()
    if suffix == SUFFIX:
        return _checked(Program.from_bytes(data, str(file)), entry, abi, file)
    if suffix == ".ptx":
        data = assemble(data, arch, max_registers=max_registers, path=str(file))
    elif suffix in (".cu", ".cuda"):
        limit = [] if max_registers is None else [f"--maxrregcount={max_registers}"]
        data = compile_cuda(data.decode(errors="replace"), arch, path=str(file), options=limit)
    elif suffix != ".cubin":
        raise ProgramFileError(f"{file}: unknown suffix '{suffix}'; known are .cubin, .ptx, .cu and {SUFFIX}")
    return program_from_cubin(data, entry, abi=abi, path=str(file))


def _checked(program: Program, entry: str | None, abi: str | None, file: Path) -> Program:
    """An image holds one kernel with its ABI recorded; a request for another one is a mistake."""
    if entry not in (None, program.symbol, program.name, qualified_name(program.symbol)):
        raise EntryError(f"{file} has no kernel '{entry}'", (program.symbol,))
    if abi not in (None, program.abi):
        raise ProgramFileError(f"{file} was recorded with abi '{program.abi}', not '{abi}'")
    return program
