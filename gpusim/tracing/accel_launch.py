"""One launch as an Accel-Sim trace: the engine's log is made into lines after every few thousand instructions, and a
block is written when it has ended and all blocks before it are."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from gpusim.engine.state import L, P, compiled
from gpusim.engine.state.arrays import State
from gpusim.engine.state.log import AS_TRACER, BLOCK_ROWS, SOME_BLOCKS
from gpusim.errors import TraceError
from gpusim.tracing.accel_lines import Lines
from gpusim.tracing.recorder import logs
from isa import Program

LONGEST = 33 * 21
"""Bytes of a line but for its text: 32 addresses, the mask and the width."""
PIECE_WARP, PIECE_LINES, PIECE_END, PIECE_FIELDS = range(4)
#: The reader's formats of addresses (enum address_format): the first and a stride, the first and differences.
_STRIDE, _DELTA = 1, 2
_SPACE, _MINUS, _ZERO, _X, _A, _LINE_END = 32, 45, 48, 120, 97, 10
_NO_STRIDE = 1 << 40


@compiled
def put_text(out: np.ndarray, n: int, text: np.ndarray, first: int, end: int) -> int:
    for k in range(first, end):
        out[n] = text[k]
        n += 1
    return n


@compiled
def put_number(out: np.ndarray, n: int, value: int) -> int:
    """A decimal number and a space."""
    if value < 0:
        out[n] = _MINUS
        n += 1
        value = -value
    digits = 1
    limit = 10
    while digits < 19 and value >= limit:
        digits += 1
        limit *= 10
    for k in range(n + digits - 1, n - 1, -1):
        out[k] = _ZERO + value % 10
        value //= 10
    out[n + digits] = _SPACE
    return n + digits + 1


@compiled
def put_hex(out: np.ndarray, n: int, value: int, digits: int) -> int:
    """A hexadecimal number of at least so many digits, and a space."""
    while digits < 16 and value >> (4 * digits) != 0:
        digits += 1
    for k in range(n + digits - 1, n - 1, -1):
        digit = value & 15
        out[k] = _ZERO + digit if digit < 10 else _A + digit - 10
        value >>= 4
    out[n + digits] = _SPACE
    return n + digits + 1


@compiled
def put_address(out: np.ndarray, n: int, value: int) -> int:
    out[n] = _ZERO
    out[n + 1] = _X
    return put_hex(out, n + 2, value, 1)


@compiled
def stride_of(addresses: np.ndarray, mask: int) -> int:
    """The distance of neighbours if the lanes in `mask` lie side by side, two at least, and their addresses equally far
    apart, as a number of 32 bits; else _NO_STRIDE."""
    first = 0
    while (mask >> first) & 1 == 0:
        first += 1
    stride = addresses[min(first + 1, 31)] - addresses[first]
    lanes = mask >> first
    if lanes & 2 == 0 or lanes & (lanes + 1) != 0 or stride != ((stride + 0x80000000) & 0xFFFFFFFF) - 0x80000000:
        return _NO_STRIDE
    for lane in range(first + 2, 32):
        if (mask >> lane) & 1 and addresses[lane] - addresses[lane - 1] != stride:
            return _NO_STRIDE
    return stride


@compiled
def put_lanes(out: np.ndarray, n: int, addresses: np.ndarray, mask: int) -> int:
    """The addresses of the lanes in `mask`, as the reader wants them: none as one that is zero."""
    if mask == 0:
        return put_number(out, put_address(out, put_number(out, n, _STRIDE), 0), 0)
    stride = stride_of(addresses, mask)
    regular = stride != _NO_STRIDE
    n = put_number(out, n, _STRIDE if regular else _DELTA)
    before = -1
    for lane in range(32):
        if (mask >> lane) & 1:
            if before < 0:
                n = put_address(out, n, addresses[lane])
                if regular:
                    return put_number(out, n, stride)
            else:
                n = put_number(out, n, addresses[lane] - addresses[before])
            before = lane
    return n


# many parameters: the log of an SM, the lines of the program, and where the text goes.
@compiled
def put_lines(
    rows: np.ndarray,
    order: np.ndarray,
    start: int,
    lanes: np.ndarray,
    text: np.ndarray,
    at: np.ndarray,
    width: np.ndarray,
    out: np.ndarray,
    pieces: np.ndarray,
) -> tuple[int, int]:
    """Writes the issues rows[order[start:]], which go by warp, as lines. Those of a warp are a piece: its number, their
    number, and where they end.

    Returns (place in `order` of the first row for which there was no room, number of pieces).
    """
    n = 0
    count = -1
    for k in range(start, order.size):
        row = rows[order[k]]
        i = row[L.EVENT_PC]
        access = row[L.EVENT_ACCESS]
        if n + LONGEST + at[i, 3] - at[i, 0] > out.size:
            return k, count + 1
        if count < 0 or pieces[count, PIECE_WARP] != row[L.EVENT_WARP]:
            if count + 1 == pieces.shape[0]:
                return k, count + 1
            count += 1
            pieces[count, PIECE_WARP] = row[L.EVENT_WARP]
            pieces[count, PIECE_LINES] = 0
        mask = row[L.EVENT_GUARDED] & 0xFFFFFFFF
        n = put_text(out, n, text, at[i, 0], at[i, 1])
        n = put_hex(out, n, mask, 8)
        n = put_text(out, n, text, at[i, 1], at[i, 2])
        if width[i] > 0 and (mask == 0 or access >= 0):
            n = put_lanes(out, put_number(out, n, width[i]), lanes[max(access, 0)], mask)
        else:
            n = put_number(out, n, 0)
        n = put_text(out, n, text, at[i, 2], at[i, 3])
        out[n] = _LINE_END
        n += 1
        pieces[count, PIECE_LINES] += 1
        pieces[count, PIECE_END] = n
    return order.size, count + 1


_ROWS, _ROWS_TOGETHER = 1 << 14, 1 << 11
"""Issues that an SM can log: where blocks take turns on one, and where they are on all."""
_BUFFER_BYTES = 8 << 20


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """A TraceError for what the operating system does not let us write."""
    try:
        yield
    except OSError as error:
        raise TraceError(f"{folder}: {error.strerror or os.strerror(error.errno or 0)}") from None


@dataclass
class _Block:
    """Lines of a block that has not been written, by warp. running: warps that have not ended."""

    running: int
    text: list[bytearray]
    lines: list[int]


class AccelSimLaunch:
    """Takes the log of a launch's SMs and writes it: a `Recorder` of the engine.

    out: where blocks go, behind the header. par: `State.par`. together: whether all blocks run at the same time.
    folder: where `out` is. `arrays` belong to the launch's state; `started`: when its first block did.
    """

    def __init__(
        self, out: IO[bytes], lines: Lines, program: Program, par: np.ndarray, together: bool, folder: Path
    ):
        rows = (_ROWS_TOGETHER if together or program.cluster is not None else _ROWS) + BLOCK_ROWS
        sms, count = int(par[P.SM_COUNT]), int(np.prod(par[P.GRID_X : P.GRID_Z + 1]))
        self.arrays: dict[str, np.ndarray] = {
            "log": np.empty((sms, rows, L.EVENT_FIELDS), np.int64), "log_lanes": np.empty((sms, rows, 32), np.int64),
            "wanted": np.ones(count, np.int32), "log_before": np.zeros((1, 1, 32), np.uint32),
            "life": np.zeros((count, 3), np.int64),
        }  # fmt: skip
        self.instructions = 0
        self.started = 0.0
        self._out, self._lines, self._folder = out, lines, folder
        self._grid = par[P.GRID_X : P.GRID_Z + 1].tolist()
        self._warps = int(par[P.WARPS])
        self._next = 0
        self._blocks: dict[int, _Block] = {}
        self._text = np.empty(_BUFFER_BYTES, np.uint8)
        self._pieces = np.empty((rows, PIECE_FIELDS), np.int64)

    def begin(self, state: State) -> None:
        """Say what is logged."""
        state.sm[:, L.SM_LOG] = AS_TRACER | SOME_BLOCKS
        self._take(state.log[0, :0], state.log_lanes[0])  # the compiled code is there before the clock starts
        self.started = time.perf_counter()

    def collect(self, state: State, until: int) -> None:
        """Take away what SMs have logged, and write the blocks that are due."""
        with writing(self._folder):
            for sm, rows, _ in logs(state):
                self._take(rows, state.log_lanes[sm])
            while self._next in self._blocks and not self._blocks[self._next].running:
                self._write(self._next, self._blocks.pop(self._next))
                self._next += 1

    def _take(self, rows: np.ndarray, lanes: np.ndarray) -> None:
        kinds, warps = rows[:, L.EVENT_KIND], rows[:, L.EVENT_WARP]
        for block in np.unique(warps[kinds == L.LOG_START] // self._warps).tolist():
            self._blocks[block] = _Block(self._warps, [bytearray() for _ in range(self._warps)], [0] * self._warps)
        issues = np.flatnonzero(kinds == L.LOG_ISSUE)
        self.instructions += len(issues)
        order = issues[np.argsort(warps[issues], kind="stable")]
        done, left = 0, True
        lines = self._lines
        tables = lines.text, lines.at, lines.width
        while left:
            done, pieces = put_lines(rows, order, done, lanes, *tables, self._text, self._pieces)
            left = done < len(order)
            start = 0
            for piece in self._pieces[:pieces].tolist():
                block, warp = divmod(piece[PIECE_WARP], self._warps)
                waiting = self._blocks[block]
                waiting.text[warp] += self._text[start : piece[PIECE_END]].data
                waiting.lines[warp] += piece[PIECE_LINES]
                start = piece[PIECE_END]
        ended, times = np.unique(warps[kinds == L.LOG_END] // self._warps, return_counts=True)
        for block, count in zip(ended.tolist(), times.tolist(), strict=True):
            self._blocks[block].running -= count

    def _write(self, number: int, block: _Block) -> None:
        across, down, _ = self._grid
        at = number % across, number // across % down, number // (across * down)
        text: list[bytes | bytearray] = [b"\n#BEGIN_TB\n\nthread block = %d,%d,%d\n" % at]
        for warp, (own, lines) in enumerate(zip(block.text, block.lines, strict=True)):
            text += b"\nwarp = %d\ninsts = %d\n" % (warp, lines), own
        text.append(b"\n#END_TB\n")
        self._out.writelines(text)
