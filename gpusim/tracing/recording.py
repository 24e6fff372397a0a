"""The tables of a recording, and the questions that they answer. `gpusim.simulate(..., trace=...)` makes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpusim.config import GPUConfig
from gpusim.errors import TraceError
from gpusim.launch import Launch
from isa import Program
from isa.instruction import Instruction


@dataclass(frozen=True)
class TraceOptions:
    """Choice of what is recorded. Every field accepts any sequence of numbers and keeps a sorted tuple.

    sms: SMs whose every issue and stall is recorded; the first block of a grid runs on SM 0.
    blocks: blocks, by linear number (x + grid.x * (y + grid.y * z)), whose issues, stalls, lanes' addresses and values
        of registers are recorded wherever they run. A number beyond the grid stands for nothing.
    limit: issues that are kept, of all SMs together. What comes later is not recorded: `Trace.complete` is then False
        and `Trace.until` says from which cycle on. Of changes of registers as many are kept.

    Raises TraceError for a negative number, or a limit below 1.
    """

    sms: Iterable[int] = (0,)
    blocks: Iterable[int] = (0,)
    limit: int = 200_000

    def __post_init__(self) -> None:
        for name in ("sms", "blocks"):
            given = getattr(self, name)
            numbers = tuple(sorted({int(each) for each in ([given] if isinstance(given, int) else given)}))
            if numbers and numbers[0] < 0:
                raise TraceError(f"{name} to trace are numbered from 0, got {numbers[0]}")
            object.__setattr__(self, name, numbers)
        if self.limit < 1:
            raise TraceError(f"the limit of a trace must be positive, got {self.limit}")

    @classmethod
    def of(cls, value: bool | TraceOptions | None) -> TraceOptions | None:
        """The options that an argument `trace=` means: None and False nothing, True the defaults."""
        if value is None or value is False:
            return None
        if value is True:
            return cls()
        if not isinstance(value, TraceOptions):
            raise TraceError(f"trace= takes True or gpusim.TraceOptions, got {type(value).__name__}")
        return value


#: Names of `issues["space"]`: the memory that an instruction accesses, "" for none.
SPACES = ("", "global", "shared", "local", "constant")

ISSUE = np.dtype(
    [
        ("cycle", "i8"),
        ("sm", "i2"),
        ("scheduler", "i1"),
        ("slot", "i2"),
        ("warp", "i4"),
        ("pc", "i4"),
        ("active", "u4"),
        ("executed", "u4"),
        ("wavefronts", "i2"),
        ("ideal", "i2"),
        ("sectors", "i2"),
        ("lines", "i2"),
        ("space", "i1"),
        ("access", "i4"),
        ("divergent", "i1"),
    ]
)
STALL = np.dtype([("warp", "i4"), ("start", "i8"), ("end", "i8"), ("reason", "i1"), ("pc", "i4")])
VALUE = np.dtype([("warp", "i4"), ("cycle", "i8"), ("register", "i2")])
BLOCK = np.dtype([("block", "i4"), ("sm", "i2"), ("start", "i8"), ("end", "i8")])
WARP = np.dtype(
    [("warp", "i4"), ("block", "i4"), ("sm", "i2"), ("scheduler", "i1"), ("slot", "i2"), ("start", "i8"), ("end", "i8")]
)


def counts_over_time(spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cycles at which the number of rows under way changes, by their `start` and `end`, and what it becomes."""
    times, change = np.unique(np.concatenate([spans["start"], spans["end"]]), return_inverse=True)
    return times, np.cumsum(np.bincount(change, np.repeat([1, -1], len(spans)), len(times))).astype(int)


@dataclass(frozen=True, eq=False)
class Recording:
    """The record of one launch, as structured arrays in order of time.

    A warp's number is that of its block times the warps of a block, plus its index in the block. A lane mask has bit n
    set for lane n.

    issues: one row for each instruction issued by a traced warp, by (cycle, sm, scheduler). `scheduler` is the
        sub-partition, `slot` the warp's slot there; `pc` the index in `instructions`; `active` the lanes that issue it
        together, `executed` those of them whose guard holds. Of a shared-memory access: `wavefronts`, and `ideal`, what
        they would be without bank conflicts; of a global or local one: `sectors` (32 bytes) and `lines` (128 bytes)
        that it touches. `divergent`: of a branch, targets beyond the first that its lanes part for. `space` is an index
        into `SPACES`, `access` the row of `addresses`, -1 if there is none.
    stalls: intervals in which a traced warp waited to issue its instruction `pc`, for
        `engine.state.layout.STALLS[reason]`, by (start, warp). Every cycle of a warp's life is in one of them or
        is the cycle of an issue.
    addresses: int64 [accesses, 32], what each lane of an access names: a device address in global memory, an offset
        in the block's shared window, in the thread's local memory or in a constant bank. -1 for a lane that has no part
        in it. Of an asynchronous copy these are the sources in global memory; bulk copies have none.
    sizes: int16 [accesses], bytes per lane. stores: bool [accesses], whether it writes: stores, reductions, atomics.
    blocks: life of every block of the launch, by number, on all SMs: from the cycle in which its first warp may issue
        to the end of its last one, its stores on their way.
    warps: life of every traced warp, by number.
    values: a row for each register that a warp of `options.blocks` found changed when it issued, by (cycle, warp): what
        it issued before has written it, or a result has come since. `register` is an index into `registers`; of the
        last one, predicates, a row has P0 to P6 as lane masks. Registers begin as zero.
    lanes: uint32 [values, 32], what each lane's register has become.
    values_until: cycle of the first change that may be missing, `until` if none is.
    complete: whether every issue of what was asked for is there; until: cycle from which on nothing is.
    code: the lowered program, int32 [instructions, COLUMNS].
    """

    issues: np.ndarray
    stalls: np.ndarray
    addresses: np.ndarray
    sizes: np.ndarray
    stores: np.ndarray
    blocks: np.ndarray
    warps: np.ndarray
    complete: bool
    until: int
    options: TraceOptions
    program: Program
    code: np.ndarray
    launch: Launch
    config: GPUConfig
    cycles: int
    values: np.ndarray = field(default_factory=lambda: np.zeros(0, VALUE))
    lanes: np.ndarray = field(default_factory=lambda: np.zeros((0, 32), np.uint32))
    values_until: int = 0
    registers: tuple[str, ...] = ()

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The machine code that `pc` counts."""
        return self.program.instructions

    @property
    def warps_per_block(self) -> int:
        return -(-self.launch.threads_per_block // self.config.gpu.warp_size)

    def of_warp(self, warp: int) -> np.ndarray:
        """The rows of `issues` of one warp."""
        return self.issues[self.issues["warp"] == warp]

    def stalls_of(self, warp: int) -> np.ndarray:
        """The rows of `stalls` of one warp."""
        return self.stalls[self.stalls["warp"] == warp]

    def values_of(self, warp: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of `values` and `lanes` of one warp."""
        chosen = self.values["warp"] == warp
        return self.values[chosen], self.lanes[chosen]

    def first_access(self, pc: int) -> int:
        """Index into `issues` of the first execution of instruction `pc` whose addresses were recorded, -1 if there
        is none."""
        found = np.flatnonzero((self.issues["pc"] == pc) & (self.issues["access"] >= 0))
        return int(found[0]) if found.size else -1

    def reconvergence(self, warp: int) -> tuple[LaneGroup, ...]:
        """The groups of lanes that a warp's instructions were issued for, in the order of their first issue: the first
        is the whole warp, every other one has a parent that it has parted from. See `gpusim.tracing.recording`."""
        ends = np.array([each.opcode in ("EXIT", "KILL") for each in self.instructions], bool)
        return lane_groups(self.of_warp(warp), ends)

    def warp_label(self, warp: int) -> str:
        """Block coordinates and index of a warp, as in 'block 3,0,0 warp 1'."""
        number, index = divmod(int(warp), self.warps_per_block)
        x, y, _ = self.launch.grid
        return f"block {number % x},{number // x % y},{number // (x * y)} warp {index}"

    def places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of `blocks` by (start, block), the place of each on its SM, the first that is free, and how many blocks
        had it before."""
        blocks = np.sort(self.blocks, order=["start", "block"])
        taken: dict[int, list[tuple[int, int]]] = {}
        place, turn = np.zeros((2, len(blocks)), np.int64)
        for k, (sm, start, end) in enumerate(blocks[["sm", "start", "end"]].tolist()):
            ends = taken.setdefault(sm, [])
            at = next((n for n, (until, _) in enumerate(ends) if until <= start), len(ends))
            if at == len(ends):
                ends.append((0, -1))
            place[k], turn[k] = at, ends[at][1] + 1
            ends[at] = end, ends[at][1] + 1
        return blocks, place, turn

    def spans(self, warps: np.ndarray, most: int | None = None) -> np.ndarray:
        """Everything that some warps do, as rows like those of `stalls` by (start, warp): their stalls, and issues,
        whose reason is 0. most: of issues and of stalls that are looked at."""
        issues = self.issues[np.isin(self.issues["warp"], warps)][:most]
        found = np.zeros(len(issues), STALL)
        for name, column in (("warp", "warp"), ("start", "cycle"), ("end", "cycle"), ("pc", "pc")):
            found[name] = issues[column]
        found["end"] += 1
        found = np.concatenate([found, self.stalls[np.isin(self.stalls["warp"], warps)][:most]])
        return found[np.lexsort((found["warp"], found["start"]))]

    def source_of(self, pc: int) -> str:
        """Source of instruction `pc`, as in 'kernel.py:12  x = a[i]'; '' where unknown."""
        each = self.instructions[pc]
        if each.line is None:
            return ""
        text = (self.program.source_line(each) or "").strip()
        return f"{Path(each.file or '').name}:{each.line}  {text}".rstrip()

    def describe(self, issue: np.void) -> dict[str, str]:
        """Facts of a row of `issues`, as texts under the names that viewers show."""
        active, executed = int(issue["active"]), int(issue["executed"])
        each = self.instructions[issue["pc"]]
        facts = {"instruction": f"{each.address:04x}  {each.text}", "source": self.source_of(issue["pc"])}
        facts["active lanes"] = f"{active:#010x} ({active.bit_count()})"
        if executed != active:
            facts["executed by"] = f"{executed:#010x} ({executed.bit_count()})"
        if issue["space"]:
            facts["space"] = SPACES[issue["space"]]
        if issue["wavefronts"]:
            facts["wavefronts"] = f"{issue['wavefronts']}, without bank conflicts {issue['ideal']}"
        if issue["sectors"]:
            facts["sectors"] = f"{issue['sectors']} in {issue['lines']} lines"
        return {name: text for name, text in facts.items() if text}

    def __repr__(self) -> str:
        part = "complete" if self.complete else f"until cycle {self.until:,}"
        return f"<Trace of {self.program.name}: {len(self.issues):,} issues of {len(self.warps):,} warps, {part}>"


# --- the divergence tree of a warp ------------------------------------------------------------------------------------
# It follows from the active masks of the warp's issues alone. A group is a set of lanes that issue together. When an
# issue has fewer lanes than the group that they were in, they have parted from it and are a group of their own, its
# child. When an issue joins lanes of several groups, those groups have ended, and the group that they all had come from
# goes on, if it is whole again; lanes that have exited do not count.


@dataclass(slots=True)
class LaneGroup:
    """Lanes that ran together.

    lanes: mask of the lanes, as they were when the group began. parent: index of the group that they parted from, -1 of
    the whole warp. parted_pc: the instruction after which they parted, -1 if they did not. rows: its issues, as indices
    into the warp's, in order of time. met_pc: the first instruction that they issued together with others again, and
    met_row its index among the warp's issues; -1 if they never did.
    """

    lanes: int
    parent: int = -1
    parted_pc: int = -1
    rows: list[int] = field(default_factory=list)
    met_pc: int = -1
    met_row: int = -1


def lane_groups(issues: np.ndarray, exits: np.ndarray) -> tuple[LaneGroup, ...]:
    """The groups of one warp, in the order of their first issue.

    issues: rows of `Trace.issues` of one warp, in order of time. exits: bool [instructions], those that end the lanes
    that execute them.
    """
    if not len(issues):
        return ()
    groups = [LaneGroup(int(issues["active"][0]))]
    owner = [0] * 32
    ended = 0
    for row, (active, executed, pc) in enumerate(issues[["active", "executed", "pc"]].tolist()):
        owners = {owner[lane] for lane in range(32) if active >> lane & 1}
        home = _common(groups, owners)
        if groups[home].lanes & ~ended != active:
            # Of one group's lanes some are missing: they part. Of several groups: they meet before their ancestor is
            # whole again.
            parted_pc = int(issues["pc"][groups[home].rows[-1]]) if groups[home].rows else -1
            groups.append(LaneGroup(active, home, parted_pc))
            new = len(groups) - 1
        else:
            new = home
        if len(owners) > 1:
            for each in owners - {home}:
                _meet(groups, each, home, row, pc)
        groups[new].rows.append(row)
        for lane in range(32):
            if active >> lane & 1:
                owner[lane] = new
        if exits[pc]:
            ended |= executed
    return tuple(groups)


def _ancestors(groups: list[LaneGroup], group: int) -> list[int]:
    """A group and those that it comes from, the whole warp last."""
    found = [group]
    while groups[found[-1]].parent >= 0:
        found.append(groups[found[-1]].parent)
    return found


def _common(groups: list[LaneGroup], owners: set[int]) -> int:
    """The nearest group that all of `owners` are or come from."""
    first, *others = owners
    lines = [set(_ancestors(groups, each)) for each in others]
    return next(each for each in _ancestors(groups, first) if all(each in line for line in lines))


def _meet(groups: list[LaneGroup], group: int, home: int, row: int, pc: int) -> None:
    """A group and those between it and `home` have met others at an issue."""
    while group != home:
        if groups[group].met_row < 0:
            groups[group].met_row, groups[group].met_pc = row, pc
        group = groups[group].parent
