"""Names in pictures of a trace: source lines, groups of lanes, warps."""

from __future__ import annotations

from collections.abc import Iterable

from gpusim.tracing.trace import Trace


def source(trace: Trace, pc: int, width: int = 60) -> str:
    """Source line of an instruction, 'number: text' cut to `width` characters; the machine code where there is none."""
    instruction = trace.instructions[pc]
    if instruction.line is None:
        return cut(instruction.text, width)
    text = (trace.program.source_line(instruction) or "").strip()
    return cut(f"{instruction.line}: {text}", width)


def first_warp(trace: Trace) -> int:
    """The first warp that was traced."""
    return int(trace.warps["warp"][0]) if len(trace.warps) else 0


def machine_code(trace: Trace, pc: int, width: int = 60) -> str:
    """An instruction as disassembled."""
    return cut(trace.instructions[pc].text, width)


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def until(trace: Trace) -> str:
    """Words that a title adds where the trace does not reach to the end."""
    return "" if trace.complete else f" (recorded until cycle {trace.until:,})"


def lanes_in(mask: int) -> list[int]:
    """Lanes of a mask, ascending."""
    return [lane for lane in range(32) if mask >> lane & 1]


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers in short: '0-15', '0,2,…,30', '1,4,9'."""
    numbers = list(numbers)
    parts: list[str] = []
    k = 0
    while k < len(numbers):
        step = numbers[k + 1] - numbers[k] if k + 1 < len(numbers) else 1
        end = k
        while end + 1 < len(numbers) and numbers[end + 1] - numbers[end] == step:
            end += 1
        if step == 1 and end > k:
            parts.append(f"{numbers[k]}-{numbers[end]}")
        elif end - k >= 3:
            parts.append(f"{numbers[k]},{numbers[k + 1]},…,{numbers[end]}")
        else:
            parts.append(str(numbers[k]))
            end = k
        k = end + 1
    return ",".join(parts)
