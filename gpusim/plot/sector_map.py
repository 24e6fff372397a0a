"""Coalescing map: which sectors and lines of memory a warp's addresses touch, and what is used of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusim.plot import style
from gpusim.plot.colours import GREY, IDEAL, INK, SHARED_WORD
from gpusim.plot.words import machine_code, source
from gpusim.results.serving import LINE_BYTES, SECTOR_BYTES, WORD_BYTES, NotServed, Sectors, global_access
from gpusim.tracing.trace import SPACES, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WORDS = LINE_BYTES // WORD_BYTES
_COLOURS = ("#FFFFFF", "#F6CDB0", IDEAL, SHARED_WORD)
_MEANINGS = ("not touched", "moved for nothing", "wanted by one lane", "wanted by several lanes")


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

    >>> from gpusim import plot, simulate
    >>> from programs.registry import get
    >>> launch = get("access/strided").make(256, 0)
    >>> result = simulate(launch.kernel, launch.grid, launch.block, launch.args, trace=True)
    >>> ax = plot.coalescing(result.trace)
    >>> ax.collections[0].get_array().shape
    (8, 32)
    """
    issue = worst_global(trace) if issue is None else issue
    found = global_access(trace, issue)
    kind = np.repeat(found.touched, SECTOR_BYTES // WORD_BYTES, axis=1).astype(np.int64)
    kind[found.lanes == 1] = 2
    kind[found.lanes > 1] = 3
    rows = len(found.lines)
    ax = style.new_axes(ax, min(2.2 + 0.23 * max(rows, 3), 9.4))
    _cells(ax, found, kind)
    pc = int(trace.issues[issue]["pc"])
    used = WORD_BYTES * int((kind > 1).sum())
    moved = SECTOR_BYTES * found.total
    counts = f"{_plural(found.total, 'sector')} in {_plural(rows, 'line')}, {used:,} of {moved:,} B moved are used"
    who = f"{machine_code(trace, pc, 50)} of {trace.warp_label(trace.issues[issue]['warp'])}"
    ax.set_title(f"{source(trace, pc, 88)}\n{who}:\n{counts}")
    style.describe(
        ax,
        f"Coalescing of {machine_code(trace, pc)} at line {source(trace, pc)}: {found.asked:,} bytes asked for by "
        f"the lanes, {counts} ({100 * used / moved:.1f} %).",
    )
    return ax


def worst_global(trace: Trace) -> int:
    """Index of the recorded access to global memory with most sectors beyond what the bytes of its lanes fill, the
    first of equals; of local memory if there is none. Raises NotServed if neither was recorded."""
    issues = trace.issues
    for space in ("global", "local"):
        rows = np.flatnonzero(
            (issues["space"] == SPACES.index(space)) & (issues["access"] >= 0) & (issues["sectors"] > 0)
        )
        if rows.size:
            access = issues["access"][rows]
            asked = (trace.addresses[access] >= 0).sum(axis=1) * trace.sizes[access].astype(int)
            excess = issues["sectors"][rows] - -(-asked // SECTOR_BYTES)
            return int(rows[np.argmax(excess)])
    raise NotServed("no access to global or local memory was recorded")


def _cells(ax: Axes, found: Sectors, kind: np.ndarray) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    rows = len(found.lines)
    edges = (np.arange(_WORDS + 1), np.arange(rows + 1))
    ax.pcolormesh(*edges, kind, cmap=ListedColormap(_COLOURS), vmin=0, vmax=3, edgecolors="#DDDDDD", linewidth=0.6)
    for row, word in np.argwhere(kind > 1).tolist():
        many = found.lanes[row, word] > 1
        text = f"x{found.lanes[row, word]}" if many else str(found.lane[row, word])
        colour = style.text_on(_COLOURS[kind[row, word]])
        ax.text(word + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7.5, color=colour)
    for sector in range(0, _WORDS + 1, SECTOR_BYTES // WORD_BYTES):
        ax.axvline(sector, color=INK, linewidth=1.2)
    ax.set_xlim(0, _WORDS)
    ax.set_ylim(rows, 0)
    ax.set_xticks(range(0, _WORDS + 1, 4), [str(WORD_BYTES * word) for word in range(0, _WORDS + 1, 4)])
    ax.set_xlabel("byte of the 128-byte line; a sector is 32 bytes")
    ax.set_yticks([row + 0.5 for row in range(rows)], [f"0x{line:x}" for line in found.lines.tolist()])
    ax.set_ylabel("line")
    ax.tick_params(length=0, labelsize=8)
    right = ax.secondary_yaxis("right")
    right.set_yticks([row + 0.5 for row in range(rows)], [str(count) for count in found.touched.sum(axis=1)])
    right.set_ylabel("sectors")
    right.tick_params(length=0, labelsize=8)
    shown = [Patch(color=_COLOURS[k], label=_MEANINGS[k]) for k in (2, 3, 1) if (kind == k).any()]
    style.legend_below(ax, shown, 3)
    ax.spines[:].set_color(GREY)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
