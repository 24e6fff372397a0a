"""Service of one instruction by memory: banks of shared memory by wavefront, sectors and lines of global memory.

`engine.sm.coalescer` counts; this module says which lanes are behind the count, by the same rules. Within a pass over
the banks the rules fix how many wavefronts there are, not their order: here each bank serves its words in the order of
the lanes that want them first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpusim.engine.sm.coalescer import mergeable, pass_lanes
from gpusim.plot import style
from gpusim.plot.colours import EXCESSIVE, IDEAL, INK, SHARED_WORD
from gpusim.plot.style import machine_code, ranges, source
from gpusim.tracing.perfetto import Trace
from gpusim.tracing.recording import SPACES
from gpusim.units import counted
from isa import microops as M

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Wavefront = dict[int, list[int]]
"""The lanes that each bank serves."""
_LANES = 32
_LINE_BYTES, _SECTOR_BYTES, _WORD_BYTES = 128, 32, 4
_WORDS = _LINE_BYTES // _WORD_BYTES
_BANK_COLOURS = ("#FFFFFF", IDEAL, EXCESSIVE, SHARED_WORD)
_BANK_KINDS = {1: "one lane", 2: "one lane, in a wavefront beyond the ideal", 3: "several lanes: broadcast"}
_WORD_COLOURS = ("#FFFFFF", "#F6CDB0", IDEAL, SHARED_WORD)
_WORD_KINDS = {2: "wanted by one lane", 3: "wanted by several lanes", 1: "moved for nothing"}


def bank_passes(
    address: np.ndarray, size: int, operation: int, atomic: int = 0, banks: int = 32, bank_bytes: int = 4
) -> list[list[Wavefront]]:
    """The wavefronts of a shared-memory instruction, by passes over the banks.

    address: int64 [32] byte addresses, -1 for lanes without a part; size: bytes per lane; operation: one of
    `isa.microops.OP_*`; atomic: ATOMIC_* of an atomic, of which CAST.SPIN serves the lowest lane of a bank alone.
    """
    shift = bank_bytes.bit_length() - 1
    words = {
        lane: range(int(address[lane]) >> shift, (int(address[lane]) >> shift) + max(size >> shift, 1))
        for lane in np.flatnonzero(address >= 0).tolist()
    }
    plain = operation in (M.OP_LOAD, M.OP_STORE)
    alone = not (plain or operation in (M.OP_LDSM, M.OP_STSM) or atomic == M.ATOMIC_POPC_INC)
    spin, each = atomic == M.ATOMIC_CAST_SPIN, 2 if alone and atomic in (M.ATOMIC_CAST_SPIN, M.ATOMIC_CAS) else 1

    def serve(lanes: Sequence[int]) -> list[Wavefront]:
        """The n-th different word of a bank has the n-th turn, of `each` wavefronts; `alone` each lane has its own."""
        taken: Counter[int] = Counter()
        turn: dict[tuple[int, int], int] = {}
        found: list[Wavefront] = []
        for lane in lanes:
            for word in words.get(lane, ()):
                bank, key = word % banks, (lane if alone else 0, word)
                if spin and taken[bank]:
                    continue
                if key not in turn:
                    turn[key] = each * taken[bank]
                    taken[bank] += 1
                    found += [{} for _ in range(turn[key] + each - len(found))]
                for wavefront in found[turn[key] : turn[key] + each]:
                    wavefront.setdefault(bank, []).append(lane)
        return found

    if operation in (M.OP_LDSM, M.OP_STSM):  # a matrix each
        return [serve(range(first, first + 8)) for first in range(0, _LANES, 8) if first in words]
    lanes = int(pass_lanes(size, banks, shift))
    passes = [range(first, first + lanes) for first in range(0, _LANES, lanes)]
    if operation != M.OP_LOAD or lanes == _LANES:
        return [serve(group) for group in passes]
    # Neighbouring passes of a load are one if they may be merged and then have no conflict left.
    found, mask = [], sum(1 << lane for lane in words)
    for one, other in zip(passes[::2], passes[1::2], strict=True):
        both = not words.keys().isdisjoint(one) and not words.keys().isdisjoint(other)
        may = mergeable(address, mask, 0, _LANES) or mergeable(address, mask, one.start, other.stop)
        together = serve(range(one.start, other.stop)) if both and may else []
        found += [together] if len(together) == 1 else [serve(one), serve(other)]
    return found


def lanes_by_word(address: np.ndarray, size: int, local: bool = False) -> dict[int, list[int]]:
    """The lanes that want each word of 4 bytes, by its number, ascending. local: addresses are offsets in each thread's
    own memory, which lies interleaved: word n of all 32 lanes side by side in one line."""
    wanted: dict[int, list[int]] = {}
    for lane in np.flatnonzero(address >= 0).tolist():
        start = int(address[lane])
        for word in range(start // _WORD_BYTES, -(-(start + size) // _WORD_BYTES)):
            wanted.setdefault(_LANES * word + lane if local else word, []).append(lane)
    return dict(sorted(wanted.items()))


def _access(trace: Trace, issue: int, *spaces: str) -> tuple[np.ndarray, int, int, int]:
    """(addresses, bytes per lane, OP_*, ATOMIC_*) of row `issue` of `trace.issues`. Raises ValueError if it does not
    access one of some spaces, or its addresses were not recorded."""
    row = trace.issues[issue]
    access, code = int(row["access"]), trace.code[row["pc"]]
    if SPACES[row["space"]] not in spaces:
        raise ValueError(f"issue {issue} does not access {' or '.join(spaces)} memory")
    if access < 0 or not (trace.addresses[access] >= 0).any():
        raise ValueError(f"issue {issue} has no recorded addresses; TraceOptions.blocks says of which blocks they are")
    atomic = int(code[M.COL_AUX4]) >> 8 if code[M.COL_OP] in (M.OP_ATOM, M.OP_RED) else 0
    return trace.addresses[access], int(trace.sizes[access]), int(code[M.COL_OP]), atomic


@style.styled
def bank_wavefronts(trace: Trace, issue: int | None = None, ax: Axes | None = None) -> Axes:
    """Banks that serve lanes, by wavefronts of a shared-memory instruction.

    issue: index into `trace.issues`; None takes the recorded access with most wavefronts beyond its ideal. A row is a
    wavefront, a column a bank, the number in a cell the lane that it serves (x8: eight lanes that want the same word).
    A conflict is a column with more than one cell in a pass over the banks, and the wavefronts that it adds are its
    price. Rows are as many as the instruction adds to `memory_l1_wavefronts_shared`:
    `ax.collections[0].get_array()` has a row for each, with 0 where a bank rests.

    Raises ValueError for an issue that is no recorded access to shared memory.
    """
    issue = _worst(trace, "wavefronts", "shared") if issue is None else issue
    shared, ideal = trace.config.shared, int(trace.issues[issue]["ideal"])
    banks = shared.banks
    passes = bank_passes(*_access(trace, issue, "shared"), banks, shared.bank_bytes)
    served = [wavefront for each in passes for wavefront in each]
    # Those beyond the ideal are the later ones of each pass.
    turns = [turn for each in passes for turn in range(len(each))]
    excessive = np.argsort(turns, kind="stable")[ideal:].tolist()
    rows, kind = len(served), np.zeros((len(served), banks), np.int64)
    for row, wavefront in enumerate(served):
        for bank, lanes in wavefront.items():
            kind[row, bank] = 3 if len(lanes) > 1 else 2 if row in excessive else 1
    ax = style.new_axes(ax, min(1.9 + 0.21 * max(rows, 4), 9.0))
    edges = np.arange(banks + 1) - 0.5, np.arange(rows + 1) - 0.5
    shown = style.cells(ax, kind, _BANK_COLOURS, _BANK_KINDS, *edges)
    for row, bank in np.argwhere(kind).tolist():
        lanes = served[row][bank]
        _number(ax, bank, row, lanes[0], len(lanes), _BANK_COLOURS[kind[row, bank]])
    ax.set_xticks(range(0, banks, 1 if banks <= 32 else 4))
    ax.set_yticks(range(0, rows, max(1, rows // 16)))
    pc = int(trace.issues[issue]["pc"])
    used = np.flatnonzero(kind.any(axis=0)).tolist()
    count = counted(rows, "wavefront")
    return style.finish(
        ax,
        f"{source(trace, pc, 88)}\n{machine_code(trace, pc, 40)} of {trace.warp_label(trace.issues[issue]['warp'])}: "
        f"{count}, ideal {ideal}, {rows - ideal} excessive",
        f"Banks by wavefronts of {machine_code(trace, pc)} at line {source(trace, pc)}: {count}, ideal "
        f"{ideal}; lanes meet in {len(used)} of {banks} banks ({ranges(used)}).",
        x="bank", y="wavefront", legend=shown,
    )  # fmt: skip


def _worst(trace: Trace, served: str, *spaces: str) -> int:
    """Index of the recorded access, to the first of these spaces that has one, that is served in most 'wavefronts' or
    'sectors' beyond its ideal, the first of equals. Raises ValueError if none was recorded."""
    issues = trace.issues
    for space in spaces:
        rows = np.flatnonzero((issues["space"] == SPACES.index(space)) & (issues["access"] >= 0) & (issues[served] > 0))
        if rows.size:
            access = issues["access"][rows]
            asked = (trace.addresses[access] >= 0).sum(axis=1) * trace.sizes[access].astype(int)
            ideal = issues["ideal"][rows] if served == "wavefronts" else -(-asked // _SECTOR_BYTES)
            return int(rows[np.argmax(issues[served][rows].astype(int) - ideal)])
    raise ValueError(f"no access to {' or '.join(spaces)} memory was recorded")


@style.styled
def coalescing(trace: Trace, issue: int | None = None, ax: Axes | None = None) -> Axes:
    """Lines and sectors that the lanes of a global- or local-memory instruction touch.

    issue: index into `trace.issues`; None takes the recorded access that moves most sectors beyond what its bytes need.
    A row is a 128-byte line, a column a word of it, the number in a cell the lane that wants it (x8: eight lanes).
    A sector of 32 bytes moves whole: words that come along for nobody are pale. `ax.collections[0].get_array()` holds
    0 for words of sectors that are not touched, 1 for words moved for nothing, 2 and 3 for words that one or several
    lanes want; sectors and lines are as many as the instruction adds to `memory_l2_theoretical_sectors_global` and
    `memory_l1_tag_requests_global`.

    Raises ValueError for an issue that is no recorded access to global or local memory.
    """
    issue = _worst(trace, "sectors", "global", "local") if issue is None else issue
    address, size, *_ = _access(trace, issue, "global", "local")
    wanted = lanes_by_word(address, size, SPACES[trace.issues[issue]["space"]] == "local")
    lines = sorted({word // _WORDS for word in wanted})
    rows, kind = len(lines), np.zeros((len(lines), _WORDS), np.int64)
    for word, lanes in wanted.items():
        kind[lines.index(word // _WORDS), word % _WORDS] = 3 if len(lanes) > 1 else 2
    sectors = kind.reshape(rows, -1, _SECTOR_BYTES // _WORD_BYTES)
    touched = np.asarray(sectors.any(axis=2))
    sectors[(sectors == 0) & touched[:, :, None]] = 1
    ax = style.new_axes(ax, min(2.2 + 0.23 * max(rows, 3), 9.4))
    shown = style.cells(ax, kind, _WORD_COLOURS, _WORD_KINDS, np.arange(_WORDS + 1), np.arange(rows + 1))
    for row, word in np.argwhere(kind > 1).tolist():
        lanes = wanted[lines[row] * _WORDS + word]
        _number(ax, word + 0.5, row + 0.5, lanes[0], len(lanes), _WORD_COLOURS[kind[row, word]])
    for sector in range(0, _WORDS + 1, _SECTOR_BYTES // _WORD_BYTES):
        ax.axvline(sector, color=INK, linewidth=1.2)
    ax.set_xticks(range(0, _WORDS + 1, 4), [str(_WORD_BYTES * word) for word in range(0, _WORDS + 1, 4)])
    middles = [row + 0.5 for row in range(rows)]
    ax.set_yticks(middles, [f"0x{_LINE_BYTES * line:x}" for line in lines])
    right = ax.secondary_yaxis("right")
    right.set_yticks(middles, [str(count) for count in touched.sum(axis=1)])
    right.set_ylabel("sectors")
    right.tick_params(length=0, labelsize=8)
    pc = int(trace.issues[issue]["pc"])
    total, asked = int(touched.sum()), size * int((address >= 0).sum())
    used, moved = _WORD_BYTES * len(wanted), _SECTOR_BYTES * total
    counts = f"{counted(total, 'sector')} in {counted(rows, 'line')}, {used:,} of {moved:,} B moved are used"
    who = f"{machine_code(trace, pc, 50)} of {trace.warp_label(trace.issues[issue]['warp'])}"
    return style.finish(
        ax,
        f"{source(trace, pc, 88)}\n{who}:\n{counts}",
        f"Coalescing of {machine_code(trace, pc)} at line {source(trace, pc)}: {asked:,} bytes asked for by "
        f"the lanes, {counts} ({100 * used / moved:.1f} %).",
        x="byte of the 128-byte line; a sector is 32 bytes", y="line", legend=shown,
    )  # fmt: skip


def _number(ax: Axes, x: float, y: float, lane: int, lanes: int, colour: str) -> None:
    """The lane of a cell, or how many there are."""
    text = str(lane) if lanes == 1 else f"x{lanes}"
    ax.text(x, y, text, ha="center", va="center", fontsize=7.5, color=style.text_on(colour))
