"""Bank-by-wavefront map: how shared memory serves one instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusim.plot import style
from gpusim.plot.colours import EXCESSIVE, GREY, IDEAL, SHARED_WORD
from gpusim.plot.words import machine_code, ranges, source
from gpusim.results.serving import NotServed, Wavefronts, shared_access
from gpusim.tracing.trace import SPACES, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS = (
    (IDEAL, "one lane"),
    (EXCESSIVE, "one lane, in a wavefront beyond the ideal"),
    (SHARED_WORD, "several lanes: broadcast"),
)


@style.styled
def bank_wavefronts(trace: Trace, issue: int | None = None, ax: Axes | None = None) -> Axes:
    """Which bank serves which lane in which wavefront of a shared-memory instruction.

    issue: index into `trace.issues`; None takes the recorded access with most wavefronts beyond its ideal. A row is a
    wavefront, a column a bank, the number in a cell the lane that it serves (x8: eight lanes that want the same word).
    A conflict is a column with more than one cell in a pass over the banks, and the wavefronts that it adds are its
    price. Rows are as many as the instruction adds to `memory_l1_wavefronts_shared`:
    `ax.collections[0].get_array()` has a row for each, with 0 where a bank rests.

    Raises gpusim.results.serving.NotServed for an issue that is no recorded access to shared memory.

    >>> from gpusim import plot, simulate
    >>> from programs.registry import get
    >>> launch = get("bank_conflict/8").make(256, 0)
    >>> result = simulate(launch.kernel, launch.grid, launch.block, launch.args, trace=True)
    >>> ax = plot.bank_wavefronts(result.trace)
    >>> ax.collections[0].get_array().shape
    (8, 32)
    """
    issue = worst_shared(trace) if issue is None else issue
    served = shared_access(trace, issue)
    banks = trace.config.shared.banks
    lanes = np.zeros((served.total, banks), np.int64)
    who: dict[tuple[int, int], list[int]] = {}
    for wavefront in range(served.total):
        for bank in range(banks):
            who[wavefront, bank] = served.lanes_of(wavefront, bank)
            lanes[wavefront, bank] = len(who[wavefront, bank])
    ax = style.new_axes(ax, min(1.9 + 0.21 * max(served.total, 4), 9.0))
    _cells(ax, lanes, served, who)
    pc = int(trace.issues[issue]["pc"])
    spare = served.total - served.ideal
    ax.set_xlabel("bank")
    ax.set_ylabel("wavefront")
    ax.set_title(
        f"{source(trace, pc, 88)}\n{machine_code(trace, pc, 40)} of {trace.warp_label(trace.issues[issue]['warp'])}: "
        f"{_plural(served.total)}, ideal {served.ideal}, {spare} excessive"
    )
    style.describe(ax, _words(trace, pc, served))
    return ax


def worst_shared(trace: Trace) -> int:
    """Index of the recorded access to shared memory with most wavefronts beyond its ideal, the first of equals.
    Raises NotServed if none was recorded."""
    issues = trace.issues
    recorded = (issues["space"] == SPACES.index("shared")) & (issues["access"] >= 0)
    rows = np.flatnonzero(recorded & (issues["wavefronts"] > 0))
    if not rows.size:
        raise NotServed("no access to shared memory was recorded")
    excess = issues["wavefronts"][rows].astype(int) - issues["ideal"][rows]
    return int(rows[np.argmax(excess)])


def _cells(ax: Axes, lanes: np.ndarray, served: Wavefronts, who: dict[tuple[int, int], list[int]]) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    kind = np.where(lanes == 0, 0, np.where(lanes > 1, 3, 1))
    kind[served.excessive[:, None] & (kind == 1)] = 2
    edges = (np.arange(lanes.shape[1] + 1) - 0.5, np.arange(lanes.shape[0] + 1) - 0.5)
    colours = ["#FFFFFF", *(colour for colour, _ in _KINDS)]
    ax.pcolormesh(*edges, kind, cmap=ListedColormap(colours), vmin=0, vmax=3, edgecolors="#DDDDDD", linewidth=0.6)
    for (wavefront, bank), found in who.items():
        if found:
            text = str(found[0]) if len(found) == 1 else f"x{len(found)}"
            colour = style.text_on(colours[kind[wavefront, bank]])
            ax.text(bank, wavefront, text, ha="center", va="center", fontsize=7.5, color=colour)
    ax.set_xlim(-0.5, lanes.shape[1] - 0.5)
    ax.set_ylim(lanes.shape[0] - 0.5, -0.5)
    ax.set_xticks(range(0, lanes.shape[1], 1 if lanes.shape[1] <= 32 else 4))
    ax.set_yticks(range(0, lanes.shape[0], max(1, lanes.shape[0] // 16)))
    ax.tick_params(length=0, labelsize=8)
    shown = [Patch(color=colour, label=text) for k, (colour, text) in enumerate(_KINDS, 1) if (kind == k).any()]
    style.legend_below(ax, shown, 3)
    ax.spines[:].set_color(GREY)


def _plural(count: int) -> str:
    return f"{count} wavefront{'' if count == 1 else 's'}"


def _words(trace: Trace, pc: int, served: Wavefronts) -> str:
    taken = served.banks[served.first >= 0]
    used = np.unique(taken)
    return (
        f"Banks by wavefronts of {machine_code(trace, pc)} at line {source(trace, pc)}: {_plural(served.total)}, ideal "
        f"{served.ideal}; lanes meet in {len(used)} of {trace.config.shared.banks} banks ({ranges(used.tolist())})."
    )
