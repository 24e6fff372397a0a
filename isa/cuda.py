"""CUDA C++ as it is written, with host code or without, to cubins.

Two ways, and the first that succeeds wins:
1. NVRTC with the text as it is. It takes 0.1 s and needs nothing else, and takes every file that is for the GPU alone.
2. nvcc with the host's compiler, which read the host's headers and functions.
Both have the same front end and optimiser; the same text gives the same PTX. NVRTC brings an assembler of its own, so
if its wheel and nvcc's are of different releases, a few kernels differ in their SASS as they do between the releases.
"""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from isa.errors import CompileError, ToolchainFailed, ToolchainMissing
from isa.mistakes import told
from isa.toolchain import INSTANCES, find_nvrtc, find_tool, first_complaint, host_compiler, include_folders, run_tool

_NO_COMPILER = "NVRTC reads code for the GPU alone; host code needs nvcc and a C++ compiler, such as g++"
_HOSTED = re.compile(r"^\s*#\s*include\b|\bmain\s*\(", re.MULTILINE)
_READING = ("-include", "--pre-include", "-imacros", "-optf", "--options-file")
_TARGETS = ("-arch", "--gpu-architecture")
# The wheels of one toolkit come in several minor releases, which a check in CUDA's C++ headers would refuse.
_MIXED_RELEASES = "-DCCCL_DISABLE_CTK_COMPATIBILITY_CHECK"


@dataclass(frozen=True)
class CompiledSource:
    """A cubin. files: what nvcc read besides the source, None where NVRTC made it."""

    cubin: bytes
    files: tuple[str, ...] | None = None


def compile_source(
    source: str, arch: str, path: str, options: Sequence[str] = (), instances: Sequence[str] = ()
) -> CompiledSource:
    """Compile CUDA C++; arguments and errors as `isa.compile_cuda`.

    instances: C++ names of kernels' instances that must be in the cubin, besides those that the source asks for, such
    as 'ns::kernel<float, 4>'.
    """
    file = Path(path).resolve()
    target = [] if any(each.startswith(_TARGETS) for each in options) else [f"-arch={arch}"]
    flags = [*target, "-lineinfo", _MIXED_RELEASES, f"-I{file.parent}", *options]
    cubin, log = compile_device_code(source, str(file), flags, expressions=instances)
    if cubin is not None:
        return CompiledSource(cubin)
    error, hosted = first_complaint(log, path, "NVRTC"), bool(_HOSTED.search(source))
    if has_nvcc(options):
        cubin, log, files = compile_with_host(source, path, flags, instances)
        if cubin is not None:
            return CompiledSource(cubin, tuple(files))
        # Where a part of the tool chain is missing, or a compiler that it takes, nvcc says nothing of the source.
        if not _NO_HOST.search(log):
            error, hosted = first_complaint(log, path, "nvcc"), False
    if Path(error.file or path).resolve() != file:
        raise CompileError(error.reason, error.file, error.line)
    sentence, line = told(error.reason, dict(enumerate(source.splitlines(), 1)), error.line)
    raise CompileError((sentence or error.reason) + f" ({_NO_COMPILER})" * hosted, error.file, line)


def has_nvcc(options: Sequence[str] = ()) -> bool:
    """True if nvcc and a host compiler are there; options may name the latter."""
    try:
        find_tool("nvcc")
    except ToolchainMissing:
        return False
    return host_compiler() is not None or any(each.startswith(("-ccbin", "--compiler-bindir")) for each in options)


def include_options(options: Sequence[str]) -> list[str]:
    """The folders of the options -I, in their order."""
    folders, following = list[str](), iter(options)
    for each in following:
        for name in ("-I", "--include-path"):
            if each == name:
                folders.append(next(following, ""))
            elif each.startswith(name):
                folders.append(each.removeprefix(name).removeprefix("="))
    return folders


def reads_more(options: Sequence[str]) -> bool:
    """True if options name files that the text does not, such as -include."""
    return any(each.startswith(_READING) for each in options)


_NO_HOST = re.compile(r"host compiler|unsupported (?:GNU|clang|Microsoft)|cicc|cudafe", re.IGNORECASE)


def compile_with_host(
    source: str, path: str, flags: Sequence[str], expressions: Sequence[str] = ()
) -> tuple[bytes | None, str, list[str]]:
    """Compile a text with nvcc, its device code to a cubin and its host code not at all.

    path: where the text comes from; the file itself is read if that is what it holds. flags: options of nvcc; those
    that find CUDA's headers come after them. expressions: C++ names of kernels' instances that are to be in the cubin,
    such as 'ns::kernel<float, 4>'. Returns the cubin, None if there are errors, the log, and the files that were read
    besides the text. Raises ToolchainMissing (there is no nvcc), ToolchainFailed (it does not end)."""
    file = Path(path).resolve()
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        cubin, needed, unit = Path(folder, "made.cubin"), Path(folder, "made.d"), file
        if expressions or not file.is_file() or file.read_bytes() != source.encode():
            # The address of an instance is what makes the front end emit it.
            wanted = [f"static auto *const gpusim_instance_{i} = &{each};" for i, each in enumerate(expressions)]
            unit = Path(folder, file.name)
            named = str(file).replace("\\", "\\\\")
            text = [f'#line 1 "{named}"', source, f'#line 1 "{INSTANCES}"', *wanted, ""]
            unit.write_text("\n".join(text), encoding="utf-8")
        command = [find_tool("nvcc"), "-cubin", *flags, "-MD", "-MF", str(needed), "-o", str(cubin)]
        # Not as folders of the system: complaints of what a macro of theirs stands for would be left out.
        command += [f"-I{each}" for each in include_folders()]
        done = run_tool([*command, str(unit)])
        log = (done.stderr + done.stdout).replace(str(unit), str(file))
        if done.returncode or not cubin.is_file():
            return None, log, []
        return cubin.read_bytes(), log, [each for each in _dependencies(needed) if each != str(unit)]


def _dependencies(file: Path) -> list[str]:
    """The files of a rule for make, whose spaces are escaped."""
    text = file.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ").replace("\\\r\n", " ")
    _, _, names = text.partition(" : ") if " : " in text else text.partition(": ")
    return [re.sub(r"\\([ #])", r"\1", name) for name in re.findall(r"(?:\\[ #]|\S)+", names)]


def compile_device_code(
    source: str, name: str, flags: Sequence[str], expressions: Sequence[str] = ()
) -> tuple[bytes | None, str]:
    """Compile a text with NVRTC.

    name: the file's name, as line information and messages have it. flags: options; those that find the tool chain's
    headers come after them. expressions: C++ names of templates' instances that are to be in the cubin, such as
    'ns::kernel<float, 4>'. Returns the cubin, None if the text has errors, and the log. Raises ToolchainMissing (there
    is no NVRTC), ToolchainFailed (it cannot take the text)."""
    library = _library(find_nvrtc())
    encoded = [each.encode() for each in (*flags, *(f"-I{folder}" for folder in include_folders()))]
    handle = ctypes.c_void_p()
    status = library.nvrtcCreateProgram(ctypes.byref(handle), source.encode(), name.encode(), 0, None, None)
    if status:
        raise ToolchainFailed(f"NVRTC cannot take {name} (status {status})")
    try:
        for expression in expressions:
            library.nvrtcAddNameExpression(handle, expression.encode())
        failed = library.nvrtcCompileProgram(handle, len(encoded), (ctypes.c_char_p * len(encoded))(*encoded))
        log = _text(library, "ProgramLog", handle).rstrip(b"\0").decode(errors="replace")
        return (None if failed else _text(library, "CUBIN", handle)), log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(handle))


_library = lru_cache(maxsize=4)(ctypes.CDLL)


def _text(library: ctypes.CDLL, what: str, handle: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(handle, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(handle, buffer)
    return buffer.raw
