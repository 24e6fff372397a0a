"""C++ names of kernels, as a user writes them.

The C++ runtime's own demangler reads mangled names where it is found (`__cxa_demangle`, Itanium C++ ABI 3.4);
elsewhere only the qualified name is read, without template arguments and parameters.
"""

from __future__ import annotations

import ctypes
import re
from functools import lru_cache
from typing import Any

_NUMBA = re.compile(r"_ZN\w+?B\d+v\d+")
_LIBRARIES = ("libstdc++.so.6", "libc++.so.1", "libc++abi.so.1", "libc++.1.dylib")


@lru_cache(maxsize=1)
def _runtime() -> tuple[Any, Any] | None:
    """The demangler and the function that frees what it returns."""
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
            demangle_call, free = library["__cxa_demangle"], ctypes.CDLL(None).free
        except (OSError, AttributeError, TypeError):
            continue
        demangle_call.restype = ctypes.c_void_p
        free.argtypes = (ctypes.c_void_p,)
        return demangle_call, free
    return None


@lru_cache(maxsize=4096)
def demangle(symbol: str) -> str:
    """'void ns::kernel<float, 4>(float*, int)' for its mangled name; a name that is not mangled stays as it is."""
    runtime = _runtime() if symbol.startswith("_Z") else None
    if runtime is None:
        return qualified_name(symbol)
    call, free = runtime
    status = ctypes.c_int()
    found = call(symbol.encode(), None, None, ctypes.byref(status))
    if not found:
        return qualified_name(symbol)
    text = ctypes.string_at(found).decode()
    free(found)
    return text


def names(symbol: str) -> tuple[str, ...]:
    """Names of a kernel, the most exact first: mangled, with parameters, with template arguments,
    qualified, and plain with and without template arguments. Spaces are left out, as in what `squeeze` returns.
    """
    full = demangle(symbol).removeprefix("void ")
    head = _before(full, "(")
    qualified = _before(head, "<") if head.endswith(">") else head
    plain = qualified.rpartition("::")[2]
    forms = (symbol, full, head, qualified, plain + head[len(qualified) :], plain)
    return tuple(squeeze(form) for form in forms)


def full_name(symbol: str) -> str:
    """'ns::kernel<float, 4>(float*, int)': without 'void', and without the tags that Numba adds to tell versions."""
    plain = re.sub(r"\[abi:[^]]*\]", "", demangle(symbol).removeprefix("void "))
    return plain.replace(" >", ">").replace("_3clocals_3e", "<locals>")


def short_name(symbol: str, limit: int = 60) -> str:
    """A kernel's name for a table, of at most `limit` characters: without parameters; where it is longer, without the
    innermost template arguments; where that does not do, cut. Of a kernel of Numba its plain name."""
    head = _before(full_name(symbol), "(").replace("(anonymous namespace)::", "")
    if _NUMBA.match(symbol):
        return head.rpartition("::")[2]
    for depth in (9, 2, 1):
        found = _elided(head, depth)
        if len(found) <= limit:
            return found
    kept = found[: limit - 4]
    return f"{kept}...>" if "<" in kept else f"{found[: limit // 2 - 3]}...{found[-limit // 2 :]}"


def _elided(name: str, most: int) -> str:
    """The name with '<...>' for template arguments that lie deeper than `most` brackets."""
    found, depth = [], 0
    for index, each in enumerate(name):
        if each == "<":
            depth += 1
            if depth == most + 1:
                found.append("<...>")
        if depth <= most:
            found.append(each)
        if each == ">" and name[index - 1] != "-":
            depth = max(depth - 1, 0)
    return "".join(found)


def squeeze(name: str) -> str:
    """A name without spaces and without the suffixes of integers ('4u'), which users leave out."""
    return re.sub(r"(?<=\d)u?l{0,2}(?=[,>])", "", re.sub(r"\s+", "", name))


def without_parameters(name: str) -> str:
    """'ns::kernel<float, 4>' of 'ns::kernel<float, 4>(float*, int)'."""
    return _before(name.strip(), "(").strip()


def _before(name: str, bracket: str) -> str:
    """The name up to the bracket that ends with its last character, or all of it."""
    closing = {"(": ")", "<": ">"}[bracket]
    if not name.endswith(closing):
        return name
    depth = 0
    for index in range(len(name) - 1, -1, -1):
        depth += (name[index] == closing) - (name[index] == bracket)
        if depth == 0:
            return name[:index]
    return name


def qualified_name(symbol: str) -> str:
    """'ns::kernel' for the mangled '_ZN2ns6kernelEi'; a name that is not mangled stays as it is.

    Only the name is decoded, not template arguments or parameter types.
    """
    match = re.match(r"_ZN?[KVr]*(?=\d)", symbol)
    if not match:
        return symbol
    parts, position = [], match.end()
    while match := re.compile(r"\d+").match(symbol, position):
        start = match.end()
        position = start + int(match[0])
        parts.append(symbol[start:position])
        if not symbol.startswith("_ZN"):
            break
    return "::".join(parts)
