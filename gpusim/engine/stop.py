"""A run that is stopped to be looked at: at a cycle, or right before a warp executes an instruction.

A cycle is where a lookahead window ends, so nothing in the compiled engine knows of it. Before an instruction, the
engine asks only where SM_LOG says so, which it looks at for traces anyhow.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.engine.describe import describe, describe_warp, predicates, registers
from gpusim.engine.state import L, P
from gpusim.engine.state.arrays import State
from gpusim.engine.state.log import STOPS
from gpusim.errors import ModeError, Stopped
from isa import Program
from isa.instruction import INSTRUCTION_BYTES


@dataclass(frozen=True)
class Stop:
    """The place where a run stops: at a `cycle`, for a look at SM `sm`, or before the instruction at address `pc` of
    the code is executed, by warp `warp` of block `block` (their numbers in the block and in the grid; None: whichever
    comes first), for a look at that warp.

    Raises ModeError unless it is one of the two.
    """

    cycle: int | None = None
    sm: int = 0
    pc: int | None = None
    block: int | None = None
    warp: int | None = None

    def __post_init__(self) -> None:
        numbers = self.cycle, self.sm, self.pc, self.block, self.warp
        wrong = (self.cycle is None) == (self.pc is None) or any(each is not None and each < 0 for each in numbers)
        if wrong or self.cycle == 0 or (self.pc or 0) % INSTRUCTION_BYTES:
            what = f"at a cycle from 1 on, or at an instruction, an address that is a multiple of {INSTRUCTION_BYTES}"
            raise ModeError(f"a run stops {what}; what is counted is counted from 0")

    @property
    def modes(self) -> tuple[str, ...]:
        """Modes of runs that can stop so."""
        return ("detailed",) if self.pc is None else ("detailed", "functional")

    @classmethod
    def of(cls, at: str | None, until: str | None) -> Stop | None:
        """Read CYCLE[:SM] or PC[:BLOCK[:WARP]], numbers as in Python (0x90); None without either."""
        if at is None and until is None:
            return None
        names = ("cycle", "sm") if at is not None else ("pc", "block", "warp")
        parts = (at or until or "").split(":")
        try:
            if len(parts) > len(names) or (at is not None and until is not None):
                raise ValueError
            return cls(**dict(zip(names, (int(part, 0) for part in parts), strict=False)))
        except ValueError:
            raise ModeError("a run stops at CYCLE[:SM] or at PC[:BLOCK[:WARP]], which are numbers") from None


class StopWatch:
    """Stops one launch of a program (a `grid.Recorder`)."""

    def __init__(self, stop: Stop, program: Program):
        self._stop, self._program, self._start = stop, program, 0

    def cycles(self, start: int) -> tuple[int, ...]:
        """Cycles of the device at which windows have to end. start: that at which the launch was taken up."""
        self._start = start
        # Where nothing happens time goes on to the first of the two, and the window that begins there is short.
        return () if self._stop.cycle is None else (start + self._stop.cycle - 1, start + self._stop.cycle)

    def begin(self, state: State) -> None:
        """Tells the SMs. Raises ModeError for a place that the launch does not have."""
        stop, sms = self._stop, int(state.par[P.SM_COUNT])
        if stop.sm >= sms:
            raise ModeError(f"there is no SM {stop.sm} to look at; the GPU has {sms}, from 0 on")
        if stop.pc is None:
            return
        if stop.pc >= (end := len(self._program.instructions) * INSTRUCTION_BYTES):
            raise ModeError(f"{stop.pc:#x} lies behind the kernel's code, which ends at {end:#x}")
        state.par[P.STOP_PC] = stop.pc // INSTRUCTION_BYTES
        state.par[P.STOP_BLOCK] = -1 if stop.block is None else stop.block
        state.par[P.STOP_WARP] = -1 if stop.warp is None else stop.warp
        state.sm[:, L.SM_LOG] = STOPS

    def collect(self, state: State, until: int) -> None:
        """Raises Stopped once the cycle has come."""
        cycle = until - self._start
        if self._stop.cycle is not None and cycle >= self._stop.cycle:
            raise Stopped(f"cycle {cycle:,}\n{describe(state, self._stop.sm, self._program)}")


def stopped_warp(state: State, sm: int, program: Program) -> Stopped:
    """The exception for a warp that has come to where it was to stop."""
    w = int(state.sm[sm, L.SM_ERROR_WARP])
    text = f"SM {sm}, {describe_warp(state, sm, w, program)}"
    return Stopped(text, registers(state, w), predicates(state, w))
