"""Which array of a kernel a shared address lies in: from an address to 'tile[1, 5]'.

A cubin with line information holds the PTX that it was made of. ptxas places its `.shared` variables one after the
other as they are declared, each at its alignment, and those of unknown size behind them (seen in the code of ptxas 12
and 13; where the sum is not the kernel's shared memory, nothing is said). Numba calls its arrays by number, so their
names and shapes come from the source, as those of CUDA C++ do.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from isa import Program
from isa.demangle import demangle
from isa.elf import Elf
from isa.errors import NotACubin

_DECLARED = re.compile(r"\.shared\s+(?:\.align\s+(\d+)\s+)?\.[bfsu](\d+)\s+([\w$]+)\s*(\[(\d*)\])?")
_MOST_ALIGNED = 16
"""To which the end of all is rounded up."""
_CALLED = re.compile(r"\.(?:entry|func)\b.*?([\w$]+)\s*\(?$")
_CONSTANT = re.compile(r"(?:#define\s+|\bint\s+)(\w+)\s*=?\s*(\d+)\b")


class SharedArray(NamedTuple):
    """start: offset in the block's shared memory; extents: (), where they are not known."""

    name: str
    start: int
    nbytes: float
    extents: tuple[int, ...]


def shared_element(program: Program, address: int, size: int) -> str | None:
    """The element that lies at a shared address, as 'tile[1, 5]'; None if nobody knows. size: bytes of the access,
    which stand for those of an element where the shape is not known."""
    offset = address - program.shared_base
    for array in shared_arrays(program):
        if 0 <= offset - array.start < array.nbytes:
            if not array.extents and array.nbytes <= size:
                return array.name
            known = array.extents and math.prod(array.extents) <= array.nbytes < math.inf
            each = int(array.nbytes) // math.prod(array.extents) if known else size
            index, places = (offset - array.start) // each, []
            for extent in reversed(array.extents[1:] if known else ()):
                index, place = divmod(index, extent)
                places.append(place)
            return f"{array.name}[{', '.join(map(str, [index, *reversed(places)]))}]"
    return None


def shared_arrays(program: Program) -> list[SharedArray]:
    """All of a kernel's, by their place; empty where they are not known."""
    declared = _declared(program)
    arrays, at = [], 0
    names = _named([symbol for _, _, symbol in declared], program)
    for (alignment, nbytes, _), (name, extents) in zip(declared, names, strict=True):
        at = -(-(at if nbytes < math.inf else program.static_shared_bytes) // alignment) * alignment
        arrays.append(SharedArray(name, at, nbytes, extents))
        at += int(nbytes) if nbytes < math.inf else 0
    static = [array for array in arrays if array.nbytes < math.inf]
    end = max((int(array.start + array.nbytes) for array in static), default=0)
    return arrays if 0 <= program.static_shared_bytes - end < _MOST_ALIGNED else []


def _declared(program: Program) -> list[tuple[int, float, str]]:
    """Alignment, bytes and symbol of each variable that the kernel's PTX uses, those of unknown size last."""
    try:
        file = Elf(program.cubin, program.name)
        section = file.by_name.get(".nv_debug_ptx_txt")
        text = bytes(file.data(section)).decode("utf-8", "replace") if section is not None else ""
    except NotACubin:  # a program image without one
        return []
    lines = [line.strip() for line in text.split("\0")]
    body: list[str] = []
    inside = False
    for line in lines:
        if found := _CALLED.search(line):
            inside = found[1] == program.symbol
        if inside:
            body.append(line)
    used = set(re.findall(r"[\w$]+", " ".join(line for line in body if not _DECLARED.search(line))))
    variables = []
    for line in lines:
        if (found := _DECLARED.search(line)) and found[3] in used:
            count = float(found[5] or (math.inf if found[4] else 1))
            variables.append((int(found[1] or 1), int(found[2]) // 8 * count, found[3]))
    return sorted(variables, key=lambda variable: variable[1] == math.inf)


def _named(symbols: Sequence[str], program: Program) -> list[tuple[str, tuple[int, ...]]]:
    """Name and extents of each."""
    source = [line for lines in program.source.values() for line in lines]
    constants = dict(_CONSTANT.findall("\n".join(source)))
    if program.abi == "numba":
        calls = _numba_arrays(program)
        order = sorted(symbols, key=lambda symbol: int(re.sub(r"\D", "", symbol) or 0))
        if len(calls) != len(symbols):
            return [(f"shared array {order.index(symbol)}", ()) for symbol in symbols]
        return [calls[order.index(symbol)] for symbol in symbols]
    named = []
    for symbol in symbols:
        name = re.split(r"::", demangle(symbol))[-1]
        shape = re.search(rf"__shared__[^;=]*\b{re.escape(name)}\s*((?:\[[^\]]+\])+)", "\n".join(source))
        words = re.findall(r"\[\s*(\w+)\s*\]", shape[1]) if shape else []
        given = [constants.get(word, word) for word in words]
        exact = shape is not None and len(words) == shape[1].count("[") and all(word.isdecimal() for word in given)
        named.append((name, tuple(map(int, given)) if exact else ()))
    return named


def _numba_arrays(program: Program) -> list[tuple[str, tuple[int, ...]]]:
    """Name and extents of the arrays that a Python kernel makes, in the order of its text."""
    for lines in program.source.values():
        try:
            tree = ast.parse("\n".join(lines))
        except SyntaxError:
            continue
        made = [each for each in tree.body if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)]
        constants = {ast.unparse(each.targets[0]): ast.literal_eval(each.value) for each in made}
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and function.name == program.name:
                made = [each for each in ast.walk(function) if isinstance(each, ast.Assign)]
                return [
                    (ast.unparse(each.targets[0]), _extents(each.value.args, constants))
                    for each in sorted(made, key=lambda one: one.lineno)
                    if isinstance(each.value, ast.Call) and ast.unparse(each.value.func).endswith("shared.array")
                ]
    return []


def _extents(args: Sequence[ast.expr], constants: dict[str, object]) -> tuple[int, ...]:
    """The shape that a call names, () if it is no plain one."""
    parts = args[0].elts if args and isinstance(args[0], ast.Tuple) else args[:1]
    values = [constants.get(each.id) if isinstance(each, ast.Name) else getattr(each, "value", None) for each in parts]
    return tuple(value for value in values if isinstance(value, int)) if all(isinstance(v, int) for v in values) else ()
