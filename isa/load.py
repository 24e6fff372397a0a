"""Load a kernel from a file: `.cubin`, `.ptx`, `.cu`, an object to link, or a saved program image."""

from __future__ import annotations

import os
from pathlib import Path

from isa.assemble import DEFAULT_ARCH, assemble
from isa.cache import ProgramCache, default_cache
from isa.compile import compile_cuda
from isa.cubin import read_cubin
from isa.demangle import names, squeeze
from isa.errors import EntryError, ProgramFileError
from isa.listing import program_from_cubin, with_current_source
from isa.objects import is_relocatable, link_objects, source_parts
from isa.program import DECODER, IMAGE_FORMAT, SUFFIX, Program
from isa.toolchain import identity, include_folders

_OBJECTS = (".o", ".fatbin", ".a")
_SOURCES = (".cu", ".cuda")

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
        path: a `.cubin` (linked if it has to be), `.ptx` (through ptxas), `.cu` (through NVRTC), `.o`, `.fatbin`
            or `.a` (through nvlink), or `.gpuprog` image.
        entry: the kernel's mangled name, or its C++ name with or without namespace, template arguments and
            parameters ('ns::kernel<float, 4>(float*, int)'); may be left out where the file holds one kernel.
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
    data = _content(file)
    if file.suffix.lower() == SUFFIX:
        return _checked(Program.from_bytes(data, str(file)), entry, abi, file)
    key = None
    if file.suffix.lower() in _SOURCES:
        key = _source_key(data, file, (str(entry), str(abi), arch, str(max_registers)))
        program = default_cache().get(key) if key else None
        if program is not None:
            return with_current_source(program)
    program = program_from_cubin(_cubin(data, file, arch, max_registers), entry, abi=abi, path=str(file))
    if key:
        default_cache().put(key, program)
    return program


def kernels(path: str | os.PathLike[str], *, arch: str = DEFAULT_ARCH) -> tuple[str, ...]:
    """Mangled names of a file's kernels, in its order; nothing is disassembled. Files, `arch` and errors as `load`."""
    file = Path(path)
    data = _content(file)
    if file.suffix.lower() == SUFFIX:
        return (Program.from_bytes(data, str(file)).symbol,)
    return tuple(read_cubin(_cubin(data, file, arch), str(file)).kernels)


def _content(file: Path) -> bytes:
    suffix = file.suffix.lower()
    try:
        if file.exists() and (not file.is_file() or file.stat().st_size > _LARGEST_FILE_BYTES):
            raise ProgramFileError(f"{file} is not a file of at most {_LARGEST_FILE_BYTES:,} bytes")
        data = file.read_bytes()
    except (OSError, ValueError) as error:
        raise ProgramFileError(f"cannot read {file}: {getattr(error, 'strerror', error)}") from error
    if suffix not in (".cubin", ".ptx", *_SOURCES, *_OBJECTS, SUFFIX):
        known = ", ".join((".cubin", ".ptx", ".cu", *_OBJECTS))
        raise ProgramFileError(f"{file}: unknown suffix '{suffix}'; known are {known} and {SUFFIX}")
    return data


def _cubin(data: bytes, file: Path, arch: str, max_registers: int | None = None) -> bytes:
    """The cubin that a file's content is or becomes."""
    suffix = file.suffix.lower()
    if suffix in _SOURCES:
        limit = [] if max_registers is None else [f"--maxrregcount={max_registers}"]
        data = compile_cuda(data.decode(errors="replace"), arch, path=str(file), options=limit)
    elif suffix == ".ptx":
        data = assemble(data, arch, max_registers=max_registers, path=str(file))
    elif suffix in _OBJECTS:
        data = link_objects([(str(file), data)], arch)
    if is_relocatable(data):
        data = link_objects([(f"{file}.cubin", data)], read_cubin(data, str(file)).arch)
    return data


def _source_key(source: bytes, file: Path, settings: tuple[str, ...]) -> str | None:
    """Cache key of what a CUDA C++ file compiles to, None where a macro decides what it includes."""
    folders = include_folders()
    parts = source_parts(source, file.resolve(), folders)
    if parts is None:
        return None
    tools = identity("nvrtc"), identity("nvdisasm")
    return ProgramCache.key(
        ["cu", f"{IMAGE_FORMAT}.{DECODER}", str(file.resolve()), *settings, *tools, *folders, *parts]
    )


def _checked(program: Program, entry: str | None, abi: str | None, file: Path) -> Program:
    """An image holds one kernel with its ABI recorded; a request for another one is a mistake."""
    if entry is not None and squeeze(entry) not in (*names(program.symbol), program.name):
        raise EntryError(f"{file} has no kernel '{entry}'", (program.symbol,))
    if abi not in (None, program.abi):
        raise ProgramFileError(f"{file} was recorded with abi '{program.abi}', not '{abi}'")
    return program
