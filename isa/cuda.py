"""CUDA C++ as it is written, with host code or without, to cubins.

Two ways, and the first that succeeds wins:
1. NVRTC with the text as it is. It takes 0.1 s and needs nothing else, and takes every file that is for the GPU alone.
2. nvcc with the host's compiler, which read the host's headers and functions.
Both have the same front end and optimiser; the same text gives the same PTX. NVRTC brings an assembler of its own, so
if its wheel and nvcc's are of different releases, a few kernels differ in their SASS as they do between the releases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from isa.compilers import compile_device_code, compile_with_host, host_compiler_fails
from isa.errors import CompileError, ToolchainMissing
from isa.toolchain import find_tool, first_complaint, host_compiler

_NO_COMPILER = "NVRTC reads code for the GPU alone; host code needs nvcc and a C++ compiler, such as g++"
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
    error = first_complaint(log, path, "NVRTC")
    if has_nvcc(options):
        cubin, log, files = compile_with_host(source, path, flags, instances)
        if cubin is not None:
            return CompiledSource(cubin, tuple(files))
        if not host_compiler_fails(log):
            raise first_complaint(log, path, "nvcc")
    raise CompileError(f"{error.reason} ({_NO_COMPILER})", error.file, error.line)


def has_nvcc(options: Sequence[str] = ()) -> bool:
    """True if nvcc and a host compiler are there; options may name the latter."""
    try:
        find_tool("nvcc")
    except ToolchainMissing:
        return False
    return host_compiler() is not None or any(each.startswith(("-ccbin", "--compiler-bindir")) for each in options)


def include_options(options: Sequence[str]) -> list[str]:
    """The folders of the options -I, in their order."""
    return list(_values(options, ("-I", "--include-path")))


def reads_more(options: Sequence[str]) -> bool:
    """True if options name files that the text does not, such as -include."""
    return any(each.startswith(_READING) for each in options)


def _values(options: Sequence[str], names: tuple[str, ...]) -> Iterator[str]:
    following = iter(options)
    for each in following:
        for name in names:
            if each == name:
                yield next(following, "")
            elif each.startswith(name):
                yield each.removeprefix(name).removeprefix("=")
