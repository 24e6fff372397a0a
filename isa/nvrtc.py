"""The vendor's compiler as a library: CUDA C++ for the GPU alone, without a host compiler."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import lru_cache

from isa.errors import ToolchainFailed
from isa.toolchain import find_nvrtc, include_folders


def compile_device_code(
    source: str,
    name: str,
    flags: Sequence[str],
    headers: Mapping[str, str] | None = None,
    expressions: Sequence[str] = (),
) -> tuple[bytes | None, str]:
    """Compile a text with NVRTC.

    Args:
        name: the file's name, as line information and messages have it.
        flags: options; those that find the tool chain's headers come after them.
        headers: texts to be included by these names, before any file.
        expressions: C++ names of templates' instances that are to be in the cubin, such as 'ns::kernel<float, 4>'.

    Returns:
        The cubin, None if the text has errors, and the log.

    Raises:
        ToolchainMissing: there is no NVRTC.
        ToolchainFailed: it cannot take the text.
    """
    library = _library(find_nvrtc())
    headers = headers or {}
    encoded = [each.encode() for each in (*flags, *(f"-I{folder}" for folder in include_folders()))]
    texts, names = (_strings([each.encode() for each in part]) for part in (headers.values(), headers))
    handle = ctypes.c_void_p()
    status = library.nvrtcCreateProgram(
        ctypes.byref(handle), source.encode(), name.encode(), len(headers), texts, names
    )
    if status:
        raise ToolchainFailed(f"NVRTC cannot take {name} (status {status})")
    try:
        for expression in expressions:
            library.nvrtcAddNameExpression(handle, expression.encode())
        failed = library.nvrtcCompileProgram(handle, len(encoded), _strings(encoded))
        log = _text(library, "ProgramLog", handle).rstrip(b"\0").decode(errors="replace")
        return (None if failed else _text(library, "CUBIN", handle)), log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(handle))


@lru_cache(maxsize=4)
def _library(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)


def _strings(values: list[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(values))(*values)


def _text(library: ctypes.CDLL, what: str, handle: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(handle, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(handle, buffer)
    return buffer.raw
