"""Compile kernels to cubins: Python functions through Numba, PTX through ptxas, CUDA C++ through NVRTC or nvcc.

Nothing here needs a GPU. `numba.cuda` is imported only when a Python kernel has to be compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from isa.assemble import DEFAULT_ARCH, assemble
from isa.cache import ProgramCache, Unkeyable, default_cache, function_parts
from isa.cuda import compile_source
from isa.errors import CompileError
from isa.listing import program_from_cubin, with_current_source
from isa.numba_code import numba_code
from isa.program import DECODER, IMAGE_FORMAT, Program
from isa.toolchain import identity, numba_version

_DEFAULT_OPTIONS = {"fastmath": False, "opt": True, "launch_bounds": None, "debug": False}


def compile_kernel(kernel: Any, signature: Any, arch: str = DEFAULT_ARCH) -> Program:
    """Compile a Python kernel for given argument types; the result is cached on disk by content.

    Args:
        kernel: a function written for `numba.cuda`, or a `numba.cuda.jit` dispatcher, whose options
            `fastmath`, `opt`, `launch_bounds`, `debug`, `link`, `lto` and `max_registers` apply.
        signature: tuple of Numba types, a Numba signature, or a string such as "void(float32[::1], int64)".
        arch: 'sm_90' and the like.

    Raises:
        CompileError: the kernel does not compile for these types; names file and line.
        ToolchainMissing: Numba's CUDA target, ptxas or nvdisasm is not installed.
    """
    function = getattr(kernel, "py_func", kernel)
    if not hasattr(function, "__code__"):
        raise CompileError(f"a kernel is a function, a numba.cuda dispatcher or of isa.load, not {kernel!r:.60}")
    declared = getattr(kernel, "targetoptions", {})
    options = {name: declared[name] for name, usual in _DEFAULT_OPTIONS.items() if declared.get(name, usual) != usual}
    if declared.get("link"):
        options["link"] = tuple(declared["link"])
    if "lto" in declared and declared["lto"] == options.get("debug", False):
        options["lto"] = declared["lto"]  # Numba's default is the opposite of debug
    max_registers = declared.get("max_registers")
    types = _argument_types(signature, function)
    key = _key(function, types, arch, options, max_registers)
    program = default_cache().get(key) if key else None
    if program is not None:
        return with_current_source(program)
    code = numba_code(function, types, arch, options, max_registers)
    cubin = code.cubin
    if cubin is None:
        path = function.__code__.co_filename
        cubin = assemble(code.ptx, arch, max_registers=max_registers, path=path, debug=bool(options.get("debug")))
    program = program_from_cubin(cubin, code.entry, abi="numba", path=function.__qualname__)
    if code.exceptions:
        program = replace(program, exceptions=code.exceptions)
    if key:
        default_cache().put(key, program)
    return program


def _argument_types(signature: Any, function: Any) -> tuple[Any, ...]:
    if isinstance(signature, str):
        from numba.core import sigutils

        try:
            signature = sigutils.normalize_signature(signature)[0]
        except Exception as error:  # the string is evaluated, so a mistake in it may raise anything
            code = function.__code__
            raise CompileError(
                f"bad signature '{signature}': {error}", code.co_filename, code.co_firstlineno
            ) from error
    if hasattr(signature, "args"):
        signature = signature.args
    return tuple(signature) if isinstance(signature, list | tuple) else (signature,)


def _key(
    function: Any, types: tuple[Any, ...], arch: str, options: dict[str, Any], max_registers: int | None
) -> str | None:
    """Cache key of a compilation, None where something in it has no safe digest."""
    described = repr((tuple(map(str, types)), arch, sorted(options.items()), max_registers, IMAGE_FORMAT, DECODER))
    if " at 0x" in described:
        return None
    tools = (numba_version(), identity("ptxas"), identity("nvdisasm"))
    try:
        return ProgramCache.key(["numba", described, *tools, *function_parts(function)])
    except Unkeyable:
        return None


def compile_cuda(
    source: str, arch: str = DEFAULT_ARCH, *, path: str = "kernel.cu", options: Sequence[str] = ()
) -> bytes:
    """Compile CUDA C++, with or without host code, to a cubin with line information; see `isa.cuda`.

    Args:
        source: the text; it may include CUDA's headers, the host's, and files beside `path`.
        arch: target such as 'sm_90', or 'sm_90a' for instructions of that architecture alone.
        path: the file's name, recorded as source file and used in messages.
        options: further options of NVRTC or nvcc, such as '-DN=4', '-I', 'include', '-std=c++20'.

    Raises:
        CompileError: the source has errors; the first one with its file and line.
        ToolchainMissing: there is no NVRTC.
    """
    return compile_source(source, arch, path, options).cubin
