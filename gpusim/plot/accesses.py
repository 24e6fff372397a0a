"""Service of one instruction by memory: banks of shared memory by wavefront, sectors and lines of global memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusim.plot import style
from gpusim.plot.colours import EXCESSIVE, IDEAL, INK, SHARED_WORD
from gpusim.plot.words import machine_code, ranges, source
from gpusim.results import serving
from gpusim.results.table import counted
from gpusim.tracing.trace import SPACES, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BANK_COLOURS = ("#FFFFFF", IDEAL, EXCESSIVE, SHARED_WORD)
_BANK_KINDS = {
    1: "one lane",
    2: "one lane, in a wavefront beyond the ideal",
    3: "several lanes: broadcast",
}
_WORDS = serving.LINE_BYTES // serving.WORD_BYTES
_WORD_COLOURS = ("#FFFFFF", "#F6CDB0", IDEAL, SHARED_WORD)
_WORD_KINDS = {2: "wanted by one lane", 3: "wanted by several lanes", 1: "moved for nothing"}


@style.styled
def bank_wavefronts(trace: Trace, issue: int | None = None, ax: Axes | None = None) -> Axes:
    """Banks that serve lanes, by wavefronts of a shared-memory instruction.

    issue: index into `trace.issues`; None takes the recorded access with most wavefronts beyond its ideal. A row is a
    wavefront, a column a bank, the number in a cell the lane that it serves (x8: eight lanes that want the same word).
    A conflict is a column with more than one cell in a pass over the banks, and the wavefronts that it adds are its
    price. Rows are as many as the instruction adds to `memory_l1_wavefronts_shared`:
    `ax.collections[0].get_array()` has a row for each, with 0 where a bank rests.

    Raises gpusim.results.serving.NotServed for an issue that is no recorded access to shared memory.
    """
    issue = worst_shared(trace) if issue is None else issue
    served = serving.shared_access(trace, issue)
    rows, banks = served.total, trace.config.shared.banks
    who = {(row, bank): served.lanes_of(row, bank) for row in range(rows) for bank in range(banks)}
    lanes = np.array([len(found) for found in who.values()], np.int64).reshape(rows, banks)
    kind = np.where(lanes == 0, 0, np.where(lanes > 1, 3, 1))
    kind[served.excessive[:, None] & (kind == 1)] = 2
    ax = style.new_axes(ax, min(1.9 + 0.21 * max(rows, 4), 9.0))
    edges = np.arange(banks + 1) - 0.5, np.arange(rows + 1) - 0.5
    shown = style.cells(ax, kind, _BANK_COLOURS, _BANK_KINDS, *edges)
    for (row, bank), found in who.items():
        if found:
            _number(ax, bank, row, found[0], len(found), _BANK_COLOURS[kind[row, bank]])
    ax.set_xticks(range(0, banks, 1 if banks <= 32 else 4))
    ax.set_yticks(range(0, rows, max(1, rows // 16)))
    pc = int(trace.issues[issue]["pc"])
    used = np.unique(served.banks[served.first >= 0])
    count = counted(rows, "wavefront")
    return style.finish(
        ax,
        f"{source(trace, pc, 88)}\n{machine_code(trace, pc, 40)} of {trace.warp_label(trace.issues[issue]['warp'])}: "
        f"{count}, ideal {served.ideal}, {rows - served.ideal} excessive",
        f"Banks by wavefronts of {machine_code(trace, pc)} at line {source(trace, pc)}: {count}, ideal "
        f"{served.ideal}; lanes meet in {len(used)} of {banks} banks ({ranges(used.tolist())}).",
        x="bank", y="wavefront", legend=shown,
    )  # fmt: skip


def worst_shared(trace: Trace, cycles: tuple[int, int] | None = None) -> int:
    """Index of the recorded access to shared memory with most wavefronts beyond its ideal, the first of equals.
    cycles: of those issued in them. Raises NotServed if none was recorded."""
    rows = _recorded(trace, "shared", "wavefronts", cycles)
    if not rows.size:
        raise serving.NotServed("no access to shared memory was recorded")
    excess = trace.issues["wavefronts"][rows].astype(int) - trace.issues["ideal"][rows]
    return int(rows[np.argmax(excess)])


@style.styled
def coalescing(trace: Trace, issue: int | None = None, ax: Axes | None = None) -> Axes:
    """Lines and sectors that the lanes of a global- or local-memory instruction touch.

    issue: index into `trace.issues`; None takes the recorded access that moves most sectors beyond what its bytes need.
    A row is a 128-byte line, a column a word of it, the number in a cell the lane that wants it (x8: eight lanes).
    A sector of 32 bytes moves whole: words that come along for nobody are pale. `ax.collections[0].get_array()` holds
    0 for words of sectors that are not touched, 1 for words moved for nothing, 2 and 3 for words that one or several
    lanes want; sectors and lines are as many as the instruction adds to `memory_l2_theoretical_sectors_global` and
    `memory_l1_tag_requests_global`.

    Raises gpusim.results.serving.NotServed for an issue that is no recorded access to global or local memory.
    """
    issue = worst_global(trace) if issue is None else issue
    found = serving.global_access(trace, issue)
    kind = np.repeat(found.touched, serving.SECTOR_BYTES // serving.WORD_BYTES, axis=1).astype(np.int64)
    kind[found.lanes == 1] = 2
    kind[found.lanes > 1] = 3
    rows = len(found.lines)
    ax = style.new_axes(ax, min(2.2 + 0.23 * max(rows, 3), 9.4))
    shown = style.cells(ax, kind, _WORD_COLOURS, _WORD_KINDS, np.arange(_WORDS + 1), np.arange(rows + 1))
    for row, word in np.argwhere(kind > 1).tolist():
        colour = _WORD_COLOURS[kind[row, word]]
        _number(ax, word + 0.5, row + 0.5, found.lane[row, word], found.lanes[row, word], colour)
    for sector in range(0, _WORDS + 1, serving.SECTOR_BYTES // serving.WORD_BYTES):
        ax.axvline(sector, color=INK, linewidth=1.2)
    ax.set_xticks(range(0, _WORDS + 1, 4), [str(serving.WORD_BYTES * word) for word in range(0, _WORDS + 1, 4)])
    middles = [row + 0.5 for row in range(rows)]
    ax.set_yticks(middles, [f"0x{line:x}" for line in found.lines.tolist()])
    right = ax.secondary_yaxis("right")
    right.set_yticks(middles, [str(count) for count in found.touched.sum(axis=1)])
    right.set_ylabel("sectors")
    right.tick_params(length=0, labelsize=8)
    pc = int(trace.issues[issue]["pc"])
    used, moved = serving.WORD_BYTES * int((kind > 1).sum()), serving.SECTOR_BYTES * found.total
    touched = f"{counted(found.total, 'sector')} in {counted(rows, 'line')}"
    counts = f"{touched}, {used:,} of {moved:,} B moved are used"
    who = f"{machine_code(trace, pc, 50)} of {trace.warp_label(trace.issues[issue]['warp'])}"
    return style.finish(
        ax,
        f"{source(trace, pc, 88)}\n{who}:\n{counts}",
        f"Coalescing of {machine_code(trace, pc)} at line {source(trace, pc)}: {found.asked:,} bytes asked for by "
        f"the lanes, {counts} ({100 * used / moved:.1f} %).",
        x="byte of the 128-byte line; a sector is 32 bytes", y="line", legend=shown,
    )  # fmt: skip


def worst_global(trace: Trace, cycles: tuple[int, int] | None = None) -> int:
    """Index of the recorded access to global memory with most sectors beyond what the bytes of its lanes fill, the
    first of equals; of local memory if there is none. cycles: as above. Raises NotServed if neither was recorded."""
    for space in ("global", "local"):
        rows = _recorded(trace, space, "sectors", cycles)
        if rows.size:
            access = trace.issues["access"][rows]
            asked = (trace.addresses[access] >= 0).sum(axis=1) * trace.sizes[access].astype(int)
            excess = trace.issues["sectors"][rows] - -(-asked // serving.SECTOR_BYTES)
            return int(rows[np.argmax(excess)])
    raise serving.NotServed("no access to global or local memory was recorded")


def _recorded(trace: Trace, space: str, served: str, cycles: tuple[int, int] | None) -> np.ndarray:
    """Issues that access a space, in a window of cycles if there is one, and were recorded with their addresses."""
    issues = trace.issues
    there = (issues["space"] == SPACES.index(space)) & (issues["access"] >= 0) & (issues[served] > 0)
    if cycles is not None:
        there &= (issues["cycle"] >= cycles[0]) & (issues["cycle"] < cycles[1])
    return np.flatnonzero(there)


def _number(ax: Axes, x: float, y: float, lane: int, lanes: int, colour: str) -> None:
    """The lane of a cell, or how many there are."""
    text = str(lane) if lanes == 1 else f"x{lanes}"
    ax.text(x, y, text, ha="center", va="center", fontsize=7.5, color=style.text_on(colour))
