"""A warp between its instructions: where it is, and what it waits for."""

from __future__ import annotations

from gpusim.engine.state import L

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


class Warp:
    """A resident warp. number: its row in the engine's state; pc: its next instruction; stall: the cycle up to which
    its last instruction keeps it; ready: from which the next one may issue, NEVER while that is unknown; blocked: the
    stall reason while it waits for other warps, else -1; since: up to which its time is attributed; slot: its block's
    place on the SM; fetched, constant: when its next instruction and the constant that it reads are there."""

    __slots__ = (
        *("age", "block", "blocked", "boards", "constant", "fetched", "number", "pc", "ready", "since", "slot"),
        *("stall", "stall_kind"),
    )

    def __init__(self, number: int, block: int, slot: int, age: int, start: int):
        self.number, self.block, self.slot, self.age = number, block, slot, age
        self.pc, self.stall, self.stall_kind, self.since = 0, float(start), L.STALL_WAIT, float(start)
        self.ready = self.stall
        self.fetched = self.constant = 0.0
        self.blocked = -1
        self.boards = [Scoreboard() for _ in range(6)]

    def reasons(self, waits: tuple[int, ...]) -> list[tuple[float, int]]:
        """What keeps the next instruction, as (until, stall reason): its predecessor, its supply, its scoreboards."""
        found = [(self.stall, self.stall_kind), (self.fetched, L.STALL_NO_INSTRUCTION)]
        found += [(self.boards[k].until, self.boards[k].kind) for k in waits]
        return [*found, (self.constant, L.STALL_IMC)]
