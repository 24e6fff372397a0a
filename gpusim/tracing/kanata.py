"""A trace as a log for Konata, the pipeline viewer: one row for each instruction that a warp issues.

The format is Kanata 0004 (github.com/shioyadan/Konata, docs/kanata-log-format.md): lines of words between tabs, in
order of time; `C` moves on some cycles, `I` begins an instruction, `L` labels it, `S` and `E` begin and end a stage in
a lane, `R` ends the instruction.

A warp is a thread. Lane 0 of an instruction has the stage `W` from the warp's last issue to its own, `Is` for the cycle
of the issue, and for the last one `D` until the warp's stores have left the SM. Lane 1 has what it waited for, by the
name of the stall reason. The label in the list is the warp, the address and the instruction; active lanes, bank
conflicts, sectors and the source line appear under the mouse. An instruction that was not issued before the trace ended
is shown as flushed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpusim.engine.state.layout import STALLS
from gpusim.tracing.recording import Recording

WAIT, ISSUE, DRAIN = "W", "Is", "D"
_ENDS, _BEGINS, _RETIRES, _STARTS = range(4)


@dataclass
class _Row:
    """One instruction: cycles at which it begins, issues (None if it does not) and ends, and what it waited for."""

    warp: int
    pc: int
    begin: int
    issued: int | None
    end: int
    details: str
    waits: list[tuple[int, int, str]] = field(default_factory=list)


def write_kanata(trace: Recording, path: str | Path) -> None:
    """Write a trace as a Kanata log."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in kanata_lines(trace))


def kanata_lines(trace: Recording) -> Iterator[str]:
    """The lines of the log."""
    rows = [row for warp in trace.warps for row in _rows(trace, warp)]
    rows.sort(key=lambda row: (row.begin, row.warp))
    events: list[tuple[int, int, int, str]] = []
    for number, row in enumerate(rows):
        events += _events(trace, row, number)
    events.sort(key=lambda event: event[:3])
    now = events[0][0] if events else 0
    yield "Kanata\t0004"
    yield f"C=\t{now}"
    retired = 0
    for cycle, kind, _, text in events:
        if cycle > now:
            yield f"C\t{cycle - now}"
            now = cycle
        if kind == _RETIRES:
            text = text.format(retired)
            retired += 1
        yield text


def _rows(trace: Recording, warp: np.void) -> Iterator[_Row]:
    """The instructions of one warp. Each begins when the one before it has been issued; stalls belong to the next one
    issued, at the end of the warp to the last one."""
    issues, stalls = trace.of_warp(warp["warp"]), trace.stalls_of(warp["warp"])
    begin, first = int(warp["start"]), 0
    rows = []
    for issue in issues:
        cycle = int(issue["cycle"])
        facts = "\\n".join(f"{name}: {text}" for name, text in trace.describe(issue).items()).replace("\t", " ")
        row = _Row(int(warp["warp"]), int(issue["pc"]), begin, cycle, cycle + 1, facts)
        last = first + int(np.searchsorted(stalls["start"][first:], cycle))
        row.waits = _named(stalls[first:last])
        begin, first = cycle + 1, last
        rows.append(row)
    left = stalls[first:]
    if len(left) and rows and (trace.complete or warp["end"] < trace.until):
        rows[-1].waits += _named(left)
        rows[-1].end = int(left["end"][-1])
    elif len(left):
        pc = int(left["pc"][-1])
        text = trace.instructions[pc].text if pc < len(trace.instructions) else ""
        rows.append(_Row(int(warp["warp"]), pc, begin, None, int(left["end"][-1]), text, _named(left)))
    yield from rows


def _named(stalls: np.ndarray) -> list[tuple[int, int, str]]:
    return [(int(each["start"]), int(each["end"]), STALLS[each["reason"]]) for each in stalls]


def _events(trace: Recording, row: _Row, number: int) -> Iterator[tuple[int, int, int, str]]:
    """(cycle, order within it, number of the instruction, line) of everything about an instruction."""
    each = trace.instructions[row.pc] if row.pc < len(trace.instructions) else None
    text = f"{each.address:04x}: {each.text}" if each else ""
    yield row.begin, _STARTS, number, f"I\t{number}\t{number}\t{row.warp}"
    yield row.begin, _STARTS, number, f"L\t{number}\t0\tw{row.warp} {text}"
    yield row.begin, _STARTS, number, f"L\t{number}\t1\t{trace.warp_label(row.warp)}\\n{row.details}"
    stages = [(row.begin, row.end if row.issued is None else row.issued, WAIT)]
    if row.issued is not None:
        stages += [(row.issued, row.issued + 1, ISSUE), (row.issued + 1, row.end, DRAIN)]
    for lane, spans in enumerate((stages, row.waits)):
        for begin, end, name in spans:
            if end > begin:
                yield begin, _STARTS if begin == row.begin else _BEGINS, number, f"S\t{number}\t{lane}\t{name}"
                yield end, _ENDS, number, f"E\t{number}\t{lane}\t{name}"
    yield row.end, _RETIRES, number, f"R\t{number}\t{{}}\t{int(row.issued is None)}"
