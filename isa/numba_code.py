"""Numba's part of a compilation: from a Python kernel to PTX, or to a cubin where libraries have to be linked.

Numba's own kernel class finds out which libraries a kernel needs: CUDA's half-precision headers, the device runtime
for grid-wide barriers, Numba's helpers in CUDA C++, files that the user links. It asks the current GPU for its
compute capability, which is answered here, so none is needed.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from isa.errors import CompileError
from isa.mistakes import told
from isa.toolchain import numba_version

_PATCHING = threading.RLock()
# Numba numbers the functions of a process, and the number is part of a mangled name, between two others.
_COUNTER = re.compile(r"B\d+v(\d+)(?=B\d+cw)")
# NVRTC's modules insist on this flag's value, which conflicts with Numba's, who merely warn about it.
_DEBUG_FLAG = re.compile(r'i32 2, (?=!"Debug Info Version")')
_PLACE = re.compile(r'File "(.+?)", line (\d+)')


@dataclass(frozen=True)
class NumbaCode:
    """A kernel as Numba compiled it.

    Attributes:
        entry: the kernel's mangled name.
        ptx: its code, to be assembled where `cubin` is None.
        cubin: linked with libraries, if it needs any.
        exceptions: text of the errors that it raises in debug mode, by the code that it stores.
    """

    entry: str
    ptx: str
    cubin: bytes | None
    exceptions: dict[int, str]


def numba_code(
    function: Any, types: tuple[Any, ...], arch: str, options: Mapping[str, Any], max_registers: int | None = None
) -> NumbaCode:
    """Compile a kernel for given argument types.

    function: the Python function. options: of `numba.cuda.jit`: debug, fastmath, opt, launch_bounds, link, lto.
    max_registers: upper limit of registers per thread, where something is linked. Raises CompileError (it does not
    compile or link; names file and line), ToolchainMissing (Numba's CUDA target is not installed)."""
    target = divmod(int(re.sub(r"\D", "", arch)), 10)
    debug = bool(options.get("debug"))
    settings = {name: options[name] for name in ("fastmath", "opt", "launch_bounds") if name in options}
    with warnings.catch_warnings():
        # Numba warns about launch sizes, missing source and the like, which is not the caller's concern.
        warnings.simplefilter("ignore")
        try:
            from numba.cuda import dispatcher
        except ImportError as error:
            numba_version()
            raise CompileError(f"numba.cuda cannot be imported: {error}") from error
        try:
            with _without_gpu(target):
                kernel = dispatcher._Kernel(
                    function,
                    types,
                    link=list(options.get("link", ())),
                    debug=debug,
                    lineinfo=not debug,
                    max_registers=max_registers,
                    lto=bool(options.get("lto", not debug)),
                    **settings,
                )
                library = kernel._codelibrary
                rename = renumbering()
                library._llvm_strs = [rename(_DEBUG_FLAG.sub("i32 1, ", text)) for text in library.llvm_strs]
                library._ptx_cache.clear()
                parts = library.get_asm_strs(cc=target)
                cubin = None
                if len(parts) > 1 or library._linking_files or library.needs_cudadevrt:
                    cubin = bytes(library.get_cubin(cc=target).code)
        except Exception as error:  # Numba raises its own errors and many built-in ones for a user's mistake
            raise _compile_error(function, error) from error
    ptx = "\n".join(parts)
    if arch[-1:].isalpha():  # Numba knows no targets of one architecture alone, whose instructions inline PTX may hold
        ptx = re.sub(r"^(\.target sm_\d+)\b", rf"\g<1>{arch[-1]}", ptx, flags=re.MULTILINE)
    return NumbaCode(rename(kernel.entry_name), ptx, cubin, _exceptions(kernel))


def _exceptions(kernel: Any) -> dict[int, str]:
    """Text of every error that the kernel can raise, by code; empty but for kernels compiled with debug=True."""
    if not kernel.debug:
        return {}
    found = {}
    for code in kernel.call_helper.exceptions:
        kind, arguments, place = kernel.call_helper.get_exception(code)
        said = ": ".join([kind.__name__, *map(str, arguments or ())])
        found[code] = said if place is None else f"{said} ({place[1]}:{place[2]}, in {place[0]})"
    return found


def renumbering() -> Callable[[str], str]:
    """Count the functions of Numba's code from 1, so that a kernel gives the same cubin in every process."""
    numbers: dict[str, str] = {}

    def tag(match: re.Match[str]) -> str:
        text = "v" + numbers.setdefault(match[1], str(len(numbers) + 1))
        return f"B{len(text)}{text}"

    return partial(_COUNTER.sub, tag)


@contextlib.contextmanager
def _without_gpu(target: tuple[int, int]) -> Iterator[None]:
    """Let Numba compile and link for a target without a GPU, with line information.

    Numba's kernel class compiles for the current GPU, and device functions that it calls get line information only if
    their decorator asks for it; there is no option for either. NVRTC's PTX is checked against the driver's version, its
    LTO code is not. Lines of what Numba has inlined itself (`inline="always"`) are taken for the kernel's `def`, or for
    lines of its file. So the functions that decide all this are replaced for the time of the compilation.
    """
    from unittest import mock

    from numba.cuda import codegen, dispatcher, lowering
    from numba.cuda.cudadrv import driver, nvrtc

    compile_cuda_function, lower_inst = dispatcher.compile_cuda, lowering.Lower.lower_inst

    def compile_with_lines(*args: Any, **kwargs: Any) -> Any:
        return compile_cuda_function(*args, **{**kwargs, "lineinfo": not kwargs.get("debug")})

    def add_source(linker: Any, source: Any, name: str = "<source>") -> None:
        linker.add_ltoir(nvrtc.compile(source, name, linker.cc, ltoir=True)[0].code, name)

    def lower_at_own_line(lower: Any, instruction: Any) -> None:
        builder, own, kernel = lower.debuginfo, lower.loc, lower.func_ir.loc
        elsewhere = os.path.abspath(own.filename) != os.path.abspath(kernel.filename)
        if not getattr(builder, "subprograms", None) or not (elsewhere or own.line < kernel.line):
            lower_inst(lower, instruction)
            return
        file = own.filename if elsewhere else None
        builder.mark_location = lambda at, _line: _mark(builder, at, file, own.line)
        try:
            lower_inst(lower, instruction)
        finally:
            del builder.mark_location

    with _PATCHING, contextlib.ExitStack() as stack:
        device = SimpleNamespace(compute_capability=target)
        for owner, name, substitute in (
            (dispatcher, "get_current_device", lambda: device),
            (dispatcher, "compile_cuda", compile_with_lines),
            (codegen.CUDACodeLibrary, "_ensure_cc", lambda _library, cc: cc or target),
            (driver._Linker, "add_cu", add_source),
            (lowering.Lower, "lower_inst", lower_at_own_line),
        ):
            stack.enter_context(mock.patch.object(owner, name, substitute))
        yield


def _mark(debug: Any, builder: Any, file: str | None, line: int) -> None:
    """Say that the next statement comes from a line of another file, or of the kernel's above its `def`. LLVM has a
    scope for these in one function (DILexicalBlockFile: "LLVM Language Reference", specialised metadata)."""
    add, scope = debug.module.add_debug_info, debug.subprograms[-1]
    if file is not None:
        folder, name = os.path.split(os.path.abspath(file))
        where = add("DIFile", {"directory": folder, "filename": name})
        scope = add("DILexicalBlockFile", {"scope": scope, "file": where, "discriminator": 0})
    builder.debug_metadata = add("DILocation", {"line": line, "column": 1, "scope": scope})


def _compile_error(function: Any, error: Exception) -> CompileError:
    """One sentence and one place out of Numba's report, which lists every pass and candidate."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    code = function.__code__
    # Numba shortens paths to be relative to the working directory.
    places = [(os.path.abspath(file), int(line)) for file, line in _PLACE.findall(text)]
    places = [each for each in places if "numba" not in Path(each[0]).parts] or _typed_at(error, code.co_filename)
    file, line = places[0] if places else (code.co_filename, None)
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        lines, first = [], code.co_firstlineno
    sentence, line = told(text, dict(enumerate(lines, first)), line)
    message = sentence or f"{type(error).__name__}: {text.strip()}".splitlines()[0]
    return CompileError(f"kernel '{function.__name__}' does not compile: {message}", file, line or code.co_firstlineno)


def _typed_at(error: Exception, file: str) -> list[tuple[str, int]]:
    """The place in the user's file of what Numba was finding a type for, where its message names none."""
    seen = (getattr(frame.f_locals.get("self"), "loc", None) for frame, _ in traceback.walk_tb(error.__traceback__))
    return [(file, each.line) for each in seen if each and os.path.abspath(each.filename) == os.path.abspath(file)][-1:]
