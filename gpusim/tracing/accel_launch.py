"""One launch as an Accel-Sim trace: the engine's log is made into lines after every few thousand instructions, and a
block is written when it has ended and all blocks before it are."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.engine.state.log import AS_TRACER, BLOCK_ROWS, SOME_BLOCKS, WITH_BULK
from gpusim.errors import TraceError
from gpusim.tracing.accel_lines import BULK, Lines
from gpusim.tracing.accel_text import PIECE_END, PIECE_FIELDS, PIECE_LINES, PIECE_WARP, put_lines
from isa import Program

_ROWS, _ROWS_TOGETHER = 1 << 14, 1 << 11
"""Issues that an SM can log: where blocks take turns on one, and where they are on all."""
_BUFFER_BYTES = 8 << 20
MOST_HELD_BYTES = 64 << 20
"""Of lines of blocks that cannot be written yet. More goes to a file without a name until its turn has come."""

_Part = bytes | tuple[int, int]  # of a warp's lines: text, or place and length in the file


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """A TraceError for what the operating system does not let us write."""
    try:
        yield
    except OSError as error:
        raise TraceError(f"{folder}: {error.strerror or os.strerror(error.errno or 0)}") from None


@dataclass
class _Block:
    """Lines of a block that has not been written. running: warps that have not ended."""

    running: int
    parts: list[list[_Part]]
    lines: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = [0] * len(self.parts)


class AccelSimLaunch:
    """Takes the log of a launch's SMs and writes it: a `Recorder` of the engine.

    out: where blocks go, behind the header. blocks: those that are written, by number, in this order. par: `State.par`.
    together: whether all blocks run at the same time. folder: for what does not fit into memory. told: called now and
    then with the instructions so far. `arrays` belong to the launch's state; `started`: when its first block did.
    """

    def __init__(
        self,
        out: IO[bytes],
        lines: Lines,
        program: Program,
        blocks: Sequence[int],
        par: np.ndarray,
        together: bool,
        folder: Path,
        told: Callable[[int], None] = lambda instructions: None,
    ):
        clusters = program.cluster is not None
        rows = (_ROWS_TOGETHER if together or clusters else _ROWS) + BLOCK_ROWS
        sms, count = int(par[L.P_SM_COUNT]), int(np.prod(par[L.P_GRID_X : L.P_GRID_Z + 1]))
        bulk = bool((lines.kind == BULK).any())
        self.arrays: dict[str, np.ndarray] = {
            "log": np.empty((sms, rows, L.V_FIELDS), np.int64),
            "log_lanes": np.empty((sms, _ROWS if bulk else rows, 32), np.int64),
            "wanted": np.zeros(count, np.int32),
            "log_before": np.zeros((1, 1, 32), np.uint32),
            "life": np.zeros((count, 3), np.int64),
        }
        self.arrays["wanted"][list(blocks)] = 1
        self.instructions = 0
        self.started = 0.0
        self._what = AS_TRACER | (WITH_BULK if bulk else 0)
        self._out, self._lines, self._folder, self._told = out, lines, folder, told
        self._grid, self._cluster = par[L.P_GRID_X : L.P_GRID_Z + 1].tolist(), program.cluster
        self._warps = int(par[L.P_WARPS])
        self._order = iter(blocks)
        self._next = next(self._order, None)
        self._blocks: dict[int, _Block] = {}
        self._held = 0
        self._spilled: IO[bytes] | None = None
        self._text = np.empty(_BUFFER_BYTES, np.uint8)
        self._pieces = np.empty((rows, PIECE_FIELDS), np.int64)

    def begin(self, state: L.State) -> None:
        """Say what is logged."""
        state.sm[:, L.S_LOG] = self._what | SOME_BLOCKS
        self._take(state.log[0, :0], state.log_lanes[0])  # the compiled code is there before the clock starts
        self.started = time.perf_counter()

    def collect(self, state: L.State, until: int) -> None:
        """Take away what SMs have logged, and write the blocks that are due."""
        counts = state.sm[:, L.S_LOGGED : L.S_LOG_LANES + 1]
        for sm in np.flatnonzero(counts[:, 0]):
            logged, accesses = counts[sm].tolist()
            if logged > state.log.shape[1] or accesses > state.log_lanes.shape[1]:
                raise AssertionError(f"SM {sm} logged {logged} rows and {accesses} accesses")
            with writing(self._folder):
                self._take(state.log[sm, :logged], state.log_lanes[sm])
        counts[:] = 0
        with writing(self._folder):
            while self._next in self._blocks and not self._blocks[self._next].running:
                self._write(self._next, self._blocks.pop(self._next))
                self._next = next(self._order, None)
        self._told(self.instructions)

    def close(self) -> None:
        """Forget what has not been written."""
        if self._spilled is not None:
            self._spilled.close()

    def _take(self, rows: np.ndarray, lanes: np.ndarray) -> None:
        kinds, warps = rows[:, L.V_KIND], rows[:, L.V_WARP]
        for block in np.unique(warps[kinds == L.LOG_START] // self._warps).tolist():
            self._blocks[block] = _Block(self._warps, [[] for _ in range(self._warps)])
        issues = np.flatnonzero(kinds == L.LOG_ISSUE)
        self.instructions += len(issues)
        order = issues[np.argsort(warps[issues], kind="stable")]
        done, left = 0, True
        lines = self._lines
        tables = lines.text, lines.at, lines.kind, lines.width, lines.values
        while left:
            done, pieces = put_lines(rows, order, done, lanes, *tables, self._text, self._pieces)
            left = done < len(order)
            start = 0
            for piece in self._pieces[:pieces].tolist():
                block, warp = divmod(piece[PIECE_WARP], self._warps)
                waiting = self._blocks[block]
                waiting.parts[warp].append(self._keep(self._text[start : piece[PIECE_END]].tobytes()))
                waiting.lines[warp] += piece[PIECE_LINES]
                start = piece[PIECE_END]
        ended, times = np.unique(warps[kinds == L.LOG_END] // self._warps, return_counts=True)
        for block, count in zip(ended.tolist(), times.tolist(), strict=True):
            self._blocks[block].running -= count

    def _keep(self, text: bytes) -> _Part:
        if self._held + len(text) <= MOST_HELD_BYTES:
            self._held += len(text)
            return text
        if self._spilled is None:
            self._spilled = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (`close` does)
        place = self._spilled.seek(0, 2)
        self._spilled.write(text)
        return place, len(text)

    def _write(self, number: int, block: _Block) -> None:
        across, down, _ = self._grid
        at = number % across, number // across % down, number // (across * down)
        text = [b"\n#BEGIN_TB\n\nthread block = %d,%d,%d\n" % at]
        if self._cluster is not None:
            inner = tuple(a % n for a, n in zip(at, self._cluster, strict=True))
            rank = inner[0] + self._cluster[0] * (inner[1] + self._cluster[1] * inner[2])
            text.append(b"cluster id = %d,%d,%d\n" % tuple(a // n for a, n in zip(at, self._cluster, strict=True)))
            text.append(b"cluster cta = %d,%d,%d\ncluster rank = %d\n" % (*inner, rank))
        for warp, (parts, lines) in enumerate(zip(block.parts, block.lines, strict=True)):
            text.append(b"\nwarp = %d\ninsts = %d\n" % (warp, lines))
            for part in parts:
                if isinstance(part, bytes):
                    self._held -= len(part)
                    text.append(part)
                elif self._spilled is not None:
                    self._out.write(b"".join(text))
                    text.clear()
                    self._spilled.seek(part[0])
                    self._out.write(self._spilled.read(part[1]))
        text.append(b"\n#END_TB\n")
        self._out.write(b"".join(text))
