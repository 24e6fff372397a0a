"""Which lane a memory instruction serves when: wavefronts of shared memory, lines and sectors of global memory.

`engine.sm.coalescer` counts; this module says who is behind the count, by the same rules, for pictures and reports.
Within a pass over the banks the rules fix how many wavefronts there are, not their order: here each bank serves its
words in the order of the lanes that want them first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.engine.sm.coalescer import least_wavefronts, mergeable, pass_lanes
from gpusim.tracing.trace import SPACES, Trace
from isa import microops as M

LANES = 32
LINE_BYTES, SECTOR_BYTES, WORD_BYTES = 128, 32, 4


class NotServed(ValueError):
    """An issue that is no recorded access of the kind asked for."""


@dataclass(frozen=True)
class Wavefronts:
    """A shared-memory instruction, wavefront by wavefront.

    words: int64 [32, words of a lane], number of each bank word that a lane wants (byte address / bank width), -1 for
    lanes without a part; banks: the same modulo the number of banks. first: int64 of the same shape, wavefront in which
    the word is served, -1 for lanes that CAST.SPIN turns away. each: wavefronts that a word takes, 2 of a
    compare-and-swap. starts: the first wavefront of each pass over the banks. total, ideal: wavefronts, and what they
    would be without conflicts: the counters `memory_l1_wavefronts_shared` and `..._ideal`.
    """

    words: np.ndarray
    banks: np.ndarray
    first: np.ndarray
    each: int
    starts: tuple[int, ...]
    total: int
    ideal: int

    @property
    def excessive(self) -> np.ndarray:
        """bool [total]: the wavefronts beyond the ideal, which are the later ones of each pass."""
        wavefront = np.arange(self.total)
        turn = wavefront - np.array(self.starts)[np.searchsorted(self.starts, wavefront, side="right") - 1]
        found = np.ones(self.total, bool)
        found[np.lexsort((wavefront, turn))[: self.ideal]] = False
        return found

    def lanes_of(self, wavefront: int, bank: int) -> list[int]:
        """Lanes that a bank serves in a wavefront."""
        at = self.first
        found = (at >= 0) & (at <= wavefront) & (wavefront < at + self.each) & (self.banks == bank)
        return [int(lane) for lane in np.flatnonzero(found.any(axis=1))]


def wavefronts(
    addresses: np.ndarray, size: int, operation: int, atomic: int = 0, banks: int = 32, bank_bytes: int = 4
) -> Wavefronts:
    """How shared memory serves one instruction.

    addresses: int64 [32] byte addresses, -1 for lanes without a part; size: bytes per lane; operation: one of
    `isa.microops.OP_*`; atomic: ATOMIC_* of an atomic. Raises NotServed if no lane has a part.
    """
    address = np.asarray(addresses, np.int64)
    mask = sum(1 << lane for lane in range(LANES) if address[lane] >= 0)
    if not mask:
        raise NotServed("no lane has a part in this access")
    shift = bank_bytes.bit_length() - 1
    words = np.where(address[:, None] < 0, -1, (address[:, None] >> shift) + np.arange(max(size >> shift, 1)))
    first = np.full(words.shape, -1, np.int64)
    each, ideal, spin = 1, int(least_wavefronts(mask, size, banks, shift)), atomic == M.ATOMIC_CAST_SPIN
    alone = operation not in (M.OP_LOAD, M.OP_STORE, M.OP_LDSM, M.OP_STSM) and atomic != M.ATOMIC_POPC_INC
    if operation in (M.OP_LDSM, M.OP_STSM):
        passes = [range(start, start + 8) for start in range(0, LANES, 8) if address[start] >= 0]
        ideal = len(passes)
    elif alone:
        lanes = int(pass_lanes(size, banks, shift))
        passes = [range(start, start + lanes) for start in range(0, LANES, lanes)]
        each = 2 if spin or atomic == M.ATOMIC_CAS else 1
        ideal *= each
    else:
        passes = _passes(address, words, mask, size, operation, banks, shift)
    ends = _serve(words, first, passes, banks, each, alone, spin)
    if operation in (M.OP_LOAD, M.OP_STORE) or atomic == M.ATOMIC_POPC_INC:
        ideal = min(ends[-1], ideal)
    starts = tuple(sorted({0, *ends} - {ends[-1]}))
    return Wavefronts(words, np.where(words < 0, -1, words % banks), first, each, starts, ends[-1], ideal)


def _passes(
    address: np.ndarray, words: np.ndarray, mask: int, size: int, operation: int, banks: int, shift: int
) -> list[range]:
    """Groups of lanes that are served together, as Nsight Compute's source counters have them: neighbouring passes of a
    load are one if they may be merged and then have no conflict left."""
    lanes = int(pass_lanes(size, banks, shift))
    if lanes == LANES:
        return [range(LANES)]
    found = []
    for start in range(0, LANES, 2 * lanes):
        pair = range(start, start + 2 * lanes)
        halves = [pair[:lanes], pair[lanes:]]
        both = all((address[half.start : half.stop] >= 0).any() for half in halves)
        may = operation == M.OP_LOAD and (
            mergeable(address, mask, 0, LANES) or mergeable(address, mask, pair.start, pair.stop)
        )
        alone = both and may and _serve(words, np.full(words.shape, -1, np.int64), [pair], banks) == [1]
        found += [pair] if alone else halves
    return found


def _serve(
    words: np.ndarray, first: np.ndarray, passes: list[range], banks: int, each: int = 1, alone: bool = False,
    spin: bool = False,
) -> list[int]:  # fmt: skip
    """Fills `first`: in a pass, the n-th different word of a bank has the n-th turn, of `each` wavefronts. alone: lanes
    that want one word have a turn each; with `spin` the lowest lane of a bank alone has one. Returns the number of
    wavefronts up to the end of each pass."""
    start = 0
    ends = []
    for lanes in passes:
        turn: dict[int | tuple[int, int], int] = {}
        taken = [0] * banks
        for lane in lanes:
            for k, word in enumerate(words[lane].tolist()):
                key = (lane, word) if alone else word
                if word < 0 or (spin and taken[word % banks]):
                    continue
                if key not in turn:
                    turn[key] = taken[word % banks]
                    taken[word % banks] += 1
                first[lane, k] = start + each * turn[key]
        start += each * max(taken)
        ends.append(start)
    return ends


@dataclass(frozen=True)
class Sectors:
    """A global- or local-memory instruction, line by line.

    lines: int64 [lines], addresses of the 128-byte lines that it touches, ascending. lane: int64 [lines, 32 words], the
    lowest lane that wants each word, -1 for none; lanes: how many want it. touched: bool [lines, 4 sectors]. asked:
    bytes that the lanes want, repetitions included. The sum of `touched` is what the instruction adds to the counters
    of sectors, the number of lines what it adds to those of tag requests.
    """

    lines: np.ndarray
    lane: np.ndarray
    lanes: np.ndarray
    touched: np.ndarray
    asked: int

    @property
    def total(self) -> int:
        """Sectors."""
        return int(self.touched.sum())


def sectors(addresses: np.ndarray, size: int, local: bool = False) -> Sectors:
    """Lines, sectors and words of one instruction.

    addresses: int64 [32] byte addresses, -1 for lanes without a part; size: bytes per lane. local: they are offsets in
    each thread's own memory, which lies interleaved: word n of all 32 lanes side by side in one line.
    Raises NotServed if no lane has a part.
    """
    wanted: dict[int, list[int]] = {}
    address = np.asarray(addresses, np.int64)
    for lane in np.flatnonzero(address >= 0).tolist():
        start = int(address[lane])
        for word in range(start // WORD_BYTES, -(-(start + size) // WORD_BYTES)):
            wanted.setdefault(LANES * word + lane if local else word, []).append(lane)
    if not wanted:
        raise NotServed("no lane has a part in this access")
    words = LINE_BYTES // WORD_BYTES
    lines = sorted({word // words for word in wanted})
    row = {line: k for k, line in enumerate(lines)}
    lane_of = np.full((len(lines), words), -1, np.int64)
    count = np.zeros((len(lines), words), np.int64)
    for word, who in wanted.items():
        lane_of[row[word // words], word % words] = who[0]
        count[row[word // words], word % words] = len(who)
    touched = (count > 0).reshape(len(lines), -1, SECTOR_BYTES // WORD_BYTES).any(axis=2)
    asked = size * int((address >= 0).sum())
    return Sectors(LINE_BYTES * np.array(lines, np.int64), lane_of, count, np.asarray(touched), asked)


def access_of(trace: Trace, issue: int) -> tuple[np.ndarray, int, int, int]:
    """(addresses, bytes per lane, OP_*, ATOMIC_*) of row `issue` of `trace.issues`. Raises NotServed if its addresses
    were not recorded."""
    row = trace.issues[issue]
    access = int(row["access"])
    if access < 0:
        raise NotServed(
            f"issue {issue} has no recorded addresses; TraceOptions.blocks says of which blocks they are recorded"
        )
    code = trace.code[row["pc"]]
    atomic = int(code[M.COL_AUX4]) >> 8 if code[M.COL_OP] in (M.OP_ATOM, M.OP_RED) else 0
    return trace.addresses[access], int(trace.sizes[access]), int(code[M.COL_OP]), atomic


def shared_access(trace: Trace, issue: int) -> Wavefronts:
    """How shared memory serves an issue. Raises NotServed if it is no recorded access to shared memory."""
    if SPACES[trace.issues[issue]["space"]] != "shared":
        raise NotServed(f"issue {issue} does not access shared memory")
    shared = trace.config.shared
    return wavefronts(*access_of(trace, issue), shared.banks, shared.bank_bytes)


def global_access(trace: Trace, issue: int) -> Sectors:
    """Lines and sectors of an issue. Raises NotServed if it is no recorded access to global or local memory."""
    space = SPACES[trace.issues[issue]["space"]]
    if space not in ("global", "local"):
        raise NotServed(f"issue {issue} does not access global or local memory")
    addresses, size, _, _ = access_of(trace, issue)
    return sectors(addresses, size, space == "local")
