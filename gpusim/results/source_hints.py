"""What machine code and source say about a cost beside its counters: unrolled loops, indices in the wrong order."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import gcd

from isa import Program
from isa.instruction import PT, Instruction, Operand

_OWN_STEP = re.compile(r"\+=\s*(\d+)")


def rounds_in_one(body: Sequence[Instruction], program: Program) -> int:
    """How many rounds of the source's loop are in one of the machine code's: 1 unless the compiler has unrolled it.

    body: from the target of the branch that jumps back to the branch. What the test looks at is counted in as many
    steps, which the source may have larger than one itself, and each load and store of a line is there as often.
    """
    accesses = Counter((each.line, each.opcode) for each in body if each.opcode in ("LDG", "LDS", "STG", "STS"))
    found = 1
    for step, each in _steps(body) if accesses else ():
        own = _OWN_STEP.search(program.source_line(each) or "")
        found = max(found, gcd(step // max(int(own[1]), 1) if own else step, *accesses.values()))
    return found


def _steps(body: Sequence[Instruction]) -> Iterator[tuple[int, Instruction]]:
    """Constants that are added to what the branch at the end of a loop depends on, and where."""
    wanted, tested = {body[-1].guard}, []
    for each in reversed(body):  # a test of 64 bits is two, the one of the upper word with the other's predicate
        predicates = [operand.index for operand in each.operands if operand.kind in ("pred", "upred")]
        if each.opcode in ("ISETP", "UISETP") and predicates[0] in wanted:
            wanted |= set(predicates[2:]) - {PT}
            tested += [operand for operand in each.operands if operand.kind in ("reg", "ureg")]
    for operand in tested:
        for each in body:
            if each.opcode not in ("VIADD", "IADD3", "UIADD3") or not _same(each.operands[0], operand):
                continue
            values = [int(o.value) for o in each.operands if o.kind == "imm" and isinstance(o.value, int)]
            if values and any(_same(source, operand) for source in each.operands[1:]):
                yield abs((values[0] + (1 << 31)) % (1 << 32) - (1 << 31)), each


def _same(a: Operand, b: Operand) -> bool:
    return a.kind == b.kind and a.index == b.index


def swapped_index(program: Program, file: str | None, line: int | None) -> str | None:
    """An array of the Python kernel around a line whose indices are in the wrong order, as 'a[i, j]': the last one
    differs with threadIdx.y, one before it with threadIdx.x. None if there is none, or if another array has them in
    the right order, so that to swap them would only move the cost."""
    source = program.source.get(file or "")
    if source is None or line is None or not str(file).endswith(".py"):
        return None
    try:
        tree = ast.parse("\n".join(source))
    except SyntaxError:
        return None
    around = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and _holds(each, line)]
    if not around:
        return None
    function = around[-1]
    axes, local = _axes(function)
    wrong = None
    for each in ast.walk(function):
        if not isinstance(each, ast.Subscript) or not isinstance(each.slice, ast.Tuple):
            continue
        if isinstance(each.value, ast.Name) and each.value.id in local:
            continue
        *first, last = (_of(index, axes) for index in each.slice.elts)
        if "x" in last:
            return None
        if "y" in last and any("x" in index for index in first):
            wrong = wrong or ast.unparse(each)
    return wrong


def _holds(function: ast.FunctionDef, line: int) -> bool:
    return function.lineno <= line <= (function.end_lineno or function.lineno)


def _axes(function: ast.FunctionDef) -> tuple[dict[str, set[str]], set[str]]:
    """By name, which of a thread's coordinates in its block a variable depends on; and names of arrays that are no
    arguments."""
    axes: dict[str, set[str]] = {}
    local: set[str] = set()
    made = [each for each in ast.walk(function) if isinstance(each, ast.Assign)]
    for each in sorted(made, key=lambda one: one.lineno):
        target = each.targets[0]
        call = ast.unparse(each.value.func) if isinstance(each.value, ast.Call) else ""
        if isinstance(target, ast.Tuple) and call.endswith("grid"):
            axes |= {ast.unparse(name): {axis} for name, axis in zip(target.elts, "xyz", strict=False)}
        elif isinstance(target, ast.Tuple) and isinstance(each.value, ast.Tuple):
            pairs = zip(target.elts, each.value.elts, strict=False)
            axes |= {ast.unparse(name): _of(value, axes) for name, value in pairs}
        elif isinstance(target, ast.Name):
            if call.endswith(("shared.array", "local.array")):
                local.add(target.id)
            axes[target.id] = {"x"} if call.endswith("grid") else _of(each.value, axes)
    return axes, local


def _of(value: ast.AST, axes: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    for each in ast.walk(value):
        if isinstance(each, ast.Name):
            found |= axes.get(each.id, set())
        elif isinstance(each, ast.Attribute) and ast.unparse(each.value).endswith("threadIdx"):
            found.add(each.attr)
    return found
