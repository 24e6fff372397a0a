"""A warp between its instructions: where it is, and what it waits for."""

from __future__ import annotations

from collections import deque

from gpusim.engine.state import L
from gpusim.machine.instruction import Decoded

NEVER = float("inf")


class Scoreboard:
    """One of a warp's six counters of results on their way. pending: replies whose time nobody knows yet; until: the
    cycle at which the others are there; kind: the stall reason of who waits for it."""

    __slots__ = ("kind", "pending", "until")

    def __init__(self) -> None:
        self.pending, self.until, self.kind = 0, 0.0, L.STALL_SHORT

    @property
    def clear(self) -> float:
        """The cycle from which it is clear, NEVER if that is not known."""
        return NEVER if self.pending else self.until

    def hold(self, until: float, kind: int) -> None:
        """Hold it up to a cycle that is known."""
        if until >= self.until:
            self.until, self.kind = until, kind


class CopyGroup:
    """Asynchronous copies of a warp, up to its next commit. left: those whose bytes are not there yet; board: the
    scoreboard that counts the group, None before the commit."""

    __slots__ = ("board", "left")

    def __init__(self) -> None:
        self.left = 0
        self.board: Scoreboard | None = None


class Warp:
    """A resident warp. number: its row in the engine's state; place: in its sub-partition; slot: its block's place on
    the SM; pc: its next instruction; stall: the cycle up to which its last instruction keeps it; ready: from which the
    next one may issue, NEVER while that is unknown; blocked: the stall reason while it waits for other warps, else -1;
    since: up to which its time is attributed; on_way: accesses in the memory pipe's queues; groups: of copies that are
    not over, the last one open; fetched, constant: when its next instruction and the constant that it reads are
    there."""

    __slots__ = (
        *("age", "block", "blocked", "boards", "constant", "fetched", "groups", "number", "on_way", "pc", "place"),
        *("ready", "since", "slot", "stall", "stall_kind"),
    )

    # many parameters: what a block's start says of it
    def __init__(self, number: int, place: int, block: int, slot: int, age: int, start: int):
        self.number, self.place, self.block, self.slot, self.age = number, place, block, slot, age
        self.pc, self.stall, self.stall_kind, self.since = 0, float(start), L.STALL_WAIT, float(start)
        self.ready = self.stall
        self.fetched = self.constant = 0.0
        self.blocked, self.on_way = -1, 0
        self.boards = [Scoreboard() for _ in range(6)]
        self.groups = deque([CopyGroup()])

    def clear(self, instruction: Decoded) -> float:
        """Return the cycle from which the scoreboards that an instruction waits for are clear, as far as it is known;
        of a DEPBAR that leaves groups of copies on their way, whether there are few enough."""
        found = 0.0
        for k in instruction.awaited if not instruction.may_be_left else instruction.boards:
            found = max(found, self.boards[k].clear)
        for k in instruction.counted:
            found = NEVER if self.boards[k].pending > instruction.may_be_left else found
        return found

    def commit(self, board: int) -> None:
        """Its copies so far are a group, which a scoreboard counts."""
        self.boards[board].pending += 1
        self.boards[board].kind = L.STALL_LONG
        self.groups[-1].board = self.boards[board]
        self.groups.append(CopyGroup())

    def settle(self, now: float) -> None:
        """Groups are over in the order in which they were committed, as soon as all copies are there."""
        while (board := self.groups[0].board) is not None and not self.groups[0].left:
            self.groups.popleft()
            board.pending -= 1
            board.hold(now, L.STALL_LONG)

    def reasons(self, waits: tuple[int, ...]) -> list[tuple[float, int]]:
        """What keeps the next instruction, as (until, stall reason): its predecessor, its supply, its scoreboards."""
        found = [(self.stall, self.stall_kind), (self.fetched, L.STALL_NO_INSTRUCTION)]
        found += [(self.boards[k].until, self.boards[k].kind) for k in waits]
        return [*found, (self.constant, L.STALL_IMC)]
