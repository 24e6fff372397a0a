"""Sampled runs: some blocks of a grid are timed, the others follow from them.

Timed are the first blocks of the grid and its last ones, in one run: when the SMs have taken the first they go on with
the last, as if those came next, so that the SMs stay busy and the end is the real end. What lies between is a whole
number of generations, each as many blocks as the GPU holds at once. Evidence that these blocks do the same comes from
some of them, in groups all over the gap, which are executed without time. Then

- a generation of the gap takes as long as the last one before the grid ran out of blocks, in proportion to the
  instructions of the groups. Of long blocks, as those of a matrix product, one generation tells;
- L2 is given, at the jump, what the gap would have left there: the lines of its last generations, which are executed
  for that, and, if the data is larger than L2, lines in all places that are empty. The part of the gap that comes
  before L2 is full goes on as before the jump;
- counts of what instructions do are those of the groups, everything else grows with the number of blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpusim.config import GPUConfig
from gpusim.engine.memory.system import MemorySystem
from gpusim.engine.state import L, ms
from gpusim.engine.state.arrays import State
from gpusim.host.session import ReadyLaunch
from gpusim.results.record import Sampling
from isa import Program
from isa import microops as M
from isa.launch_values import launch_values, reads_launch_value

_WORTH_IT = 0.8  # of the blocks timed; what is left is executed for L2
_TIMED = (0, 4.2), (50, 2.5), (120, 4.2)
"""(Generations of a grid from which on, how many of them are timed at least). More than four tell how long one takes
before the jump as well; from 50 on that matters less than the time it takes, from 120 on that is short again."""
_LONG = 20_000
"""Least cycles of a generation of long blocks, by the instructions that one of them issues."""
_ALIKE = 0.02  # by how much the instructions of long blocks may differ
_LONG_MORE = 0.05  # generations of long blocks that are timed beside one, at least: they come as the first ones end
_TAIL = 2
"""Generations behind the jump: in the first, blocks end that have asked for their data before."""
_WARM = 4, 1
"""Generations that are executed before the last one, in grids of less than 50 and of more."""
_GROUPS = 16
_LEAST_ERROR = 0.15
"""Of the extrapolated cycles: fitted so that nine of ten programs keep to the error that is said, see docs/modes.md."""
_FIXED = [ms.CNT_LAUNCH_SECTORS, ms.CNT_FABRIC_LAUNCH_SECTORS, ms.CNT_FABRIC_BARRIERS]
"""Counters of traffic that a launch has once, however many blocks it has."""
ASKED = [ms.CNT_TEX_READ_SECTORS, ms.CNT_TEX_WRITE_SECTORS, ms.CNT_TEX_ATOMIC_SECTORS, ms.CNT_TEX_REDUCTION_SECTORS]
COUNTED = [
    *(L.COUNT_EXECUTED, L.COUNT_THREADS, L.COUNT_PRED_ON, L.COUNT_DIVERGENT, L.COUNT_BRANCHES),
    *(L.COUNT_SHARED_WAVEFRONTS, L.COUNT_SHARED_IDEAL, L.COUNT_REQUESTS, L.COUNT_SECTORS, L.COUNT_SECTORS_IDEAL),
    *(L.COUNT_TAGS, L.COUNT_SHARED_REQUESTS, L.COUNT_SHARED_DATA, L.COUNT_SHARED_CONFLICTS),
    *(L.COUNT_LOCAL_REQUESTS, L.COUNT_LOCAL_SECTORS),
]
"""Counters that follow from instructions and addresses alone."""


def communicates(program: Program, code: np.ndarray) -> bool:
    """Return True if blocks may depend on other blocks: by grid-wide barriers, clusters, what the host serves, atomics
    on global memory whose result is used, loads that see what others store. code: the program's lowered rows."""
    if program.cluster is not None or is_cooperative(program):
        return True
    operation, space = code[:, M.COL_OP], code[:, M.COL_AUX0]
    memory = code[:, M.COL_CLASS] == M.CLS_MEMORY
    outside = memory & np.isin(space, (M.SPACE_GLOBAL, M.SPACE_GENERIC))
    returns = (operation == M.OP_ATOM) & ((code[:, M.COL_DST_COUNT] > 0) | (code[:, M.COL_WBAR] != 7))
    strong = (operation == M.OP_LOAD) & (code[:, M.COL_AUX3] & M.MEM_STRONG != 0)
    return bool((outside & (returns | strong)).any() or (operation == M.OP_SYSCALL).any())


def is_cooperative(program: Program) -> bool:
    """Return whether the kernel uses what blocks of a cooperative launch share."""
    return bool(reads_launch_value(program, launch_values(program.arch).environment + 4))


class Sample:
    """A sampled run: its blocks that are evidence are executed when it is made, then the run times `plan.chosen` under
    the eyes of `watch`. plan: None if all blocks are timed, and `why`."""

    def __init__(self, run: ReadyLaunch):
        session = run.session
        blocks, resident = run.launch.blocks, run.fits.blocks_per_sm * session.config.sm.count
        self._run, self._blocks, self._resident = run, blocks, resident
        self.plan: Plan | None = None
        self.why = f"{blocks:,} blocks are few, of which the GPU holds {resident:,} at once"
        if communicates(run.program, run.lowered.code):
            self.why = "blocks may depend on what others do"
            return
        long, executed, each = False, {"host_seconds": 0.0}, np.zeros(0)
        if parts := probes(blocks, resident):
            with session.memory.undone():
                executed, each = run.run_untimed(parts)
            long = are_long(each, run.fits.blocks_per_sm, session.config)
        self.plan = plan = Plan.of(blocks, resident, long)
        if plan is None:
            return
        if not plan.long:
            executed, each = run.run_untimed(plan.groups)
        self._seconds, self._groups = executed["host_seconds"], each
        system = session.engine.memory_system
        footprint = session.memory.used_bytes // ms.LINE_BYTES * session.config.l2.partitions
        self.watch = Watch(plan, system, footprint, lambda: run.run_untimed([plan.warm], system))

    def outcome(self, timed: dict[str, Any], handed: np.ndarray) -> dict[str, Any]:
        """Return the record's fields for the whole grid; arguments as for `estimated`."""
        plan, run = self.plan, self._run
        if plan is None:
            return timed | {"sampling": Sampling(self._blocks, self._blocks, self._resident, 0, 0.0, True, self.why)}
        found = estimated(plan, self.watch, handed, timed, self._groups)
        seconds = self._seconds + timed["host_seconds"]
        if run.options.outputs and plan.others.size:
            seconds += run.run_untimed([plan.others])[0]["host_seconds"]
        sampling = replace(found["sampling"], outputs=run.options.outputs)
        return found | {"sampling": sampling, "host_seconds": seconds}


@dataclass(frozen=True)
class Plan:
    """The timed blocks of a grid: the first `head` and the last `tail`. resident: blocks on the GPU at once. long: each
    takes so much time that one generation tells, whatever L2 holds."""

    blocks: int
    resident: int
    head: int
    tail: int
    long: bool

    @classmethod
    def of(cls, blocks: int, resident: int, long: bool) -> Plan | None:
        """None if the grid is so small that sampling would save little."""
        waves = blocks / resident
        least = 1 + _LONG_MORE if long else max((first, timed) for first, timed in _TIMED if waves >= first)[1]
        # What is left out is a whole number of generations, which matters only if they are few.
        timed = math.ceil(least * resident)
        timed += (blocks - timed) % resident if long or waves < _TIMED[1][0] else 0
        tail = timed - resident if long else _TAIL * resident
        return cls(blocks, resident, timed - tail, tail, long) if timed < _WORTH_IT * blocks else None

    @property
    def timed(self) -> int:
        return self.head + self.tail

    @property
    def skipped(self) -> int:
        return self.blocks - self.timed

    @property
    def chosen(self) -> np.ndarray:
        """Numbers of the blocks that are timed, int64 [timed]."""
        return np.concatenate([np.arange(self.head), np.arange(self.blocks - self.tail, self.blocks)])

    @cached_property
    def groups(self) -> list[np.ndarray]:
        """Numbers of the blocks that are evidence: groups of neighbours, evenly over the gap; none of long ones."""
        count = 0 if self.long else min(_GROUPS, self.skipped)
        size = max(1, min(self.skipped // max(count, 1), self.resident // (4 * _GROUPS)))
        starts = self.head + np.arange(count) * (self.skipped - size) // max(count - 1, 1)
        return [start + np.arange(size) for start in starts]

    @cached_property
    def warm(self) -> np.ndarray:
        """Numbers of the blocks in front of the last ones that are executed for what they leave in L2."""
        generations = 0 if self.long else _WARM[self.blocks >= _TIMED[1][0] * self.resident]
        end = self.blocks - self.tail
        return self._without(np.arange(max(end - generations * self.resident, self.head), end), self.groups)

    @property
    def others(self) -> np.ndarray:
        """Numbers of the blocks that are neither timed nor executed for anything else."""
        return self._without(np.arange(self.head, self.blocks - self.tail), [*self.groups, self.warm])

    def _without(self, numbers: np.ndarray, parts: list[np.ndarray]) -> np.ndarray:
        """Return the `numbers`, which are consecutive, that are in none of the parts."""
        left = np.ones(len(numbers), bool)
        for part in parts if len(numbers) else ():
            left[part[(part >= numbers[0]) & (part <= numbers[-1])] - numbers[0]] = False
        return numbers[left]


def probes(blocks: int, resident: int) -> list[np.ndarray]:
    """Numbers of the blocks, one in each part, that tell whether blocks are long, where that matters."""
    if 1 + _LONG_MORE <= blocks / resident < _TIMED[1][0]:
        return list((np.arange(_GROUPS) * (blocks - 1) // (_GROUPS - 1))[:, None])
    return []


class Watch:
    """Follows a timed run from window to window (a `grid.Recorder`), and ages L2 at the jump.

    full: blocks of the grid after which L2 is. before: counters of the memory system at the jump; done: the share of
    all timed instructions that had been issued then.
    """

    def __init__(self, plan: Plan, system: MemorySystem, footprint: int, warm: Callable[[], Any]):
        """footprint: lines that the launch can touch. warm: executes the blocks `plan.warm`."""
        self._plan, self._system, self._footprint, self._warm = plan, system, footprint, warm
        self.full = plan.blocks
        self.before = np.zeros(0, np.int64)
        self._issued = self._jump = 0

    def begin(self, state: State) -> None:
        self._first = self._system.counters.copy()

    def collect(self, state: State, until: int) -> None:
        self._issued = int(state.sm[:, L.SM_ISSUED].sum())
        if not self.before.size and int(state.sm[:, L.SM_LAUNCHED].sum()) >= self._plan.head:
            self._jump = self._issued
            self.before = self._system.counters - self._first
            if self._plan.warm.size:
                self._age()

    @property
    def done(self) -> float:
        return self._jump / max(self._issued, 1)

    def _age(self) -> None:
        """Gives L2 what the gap would have left there."""
        before = self._system.held()
        self._warm()
        count = len(self._plan.warm)
        lines, dirty = np.maximum(np.array(self._system.held()) - before, 1) / count  # of a block
        room, wet = self._system.room()
        full = min(room / lines, wet / dirty)
        if full < self._plan.blocks and self._footprint > room:
            self.full = int(full)
            self._system.age(int(lines * (self._plan.skipped - count)), dirty / lines)


def generation(plan: Plan, handed: np.ndarray) -> tuple[float, float | None]:
    """Cycles of a generation of blocks after the jump and, if that can be told, before it."""

    def since(last: int) -> float:
        return float(handed[last, 0] - handed[last - plan.resident, 0])

    if plan.long:
        starts, ends = handed[: plan.resident].T
        wait = handed[plan.resident :, 0] - np.sort(ends)[: plan.tail]  # from a block's end to the start of the next
        return float((ends - starts).mean() + wait.mean()), None
    after = since(plan.timed - 1)
    return after, since(plan.head - 1) if plan.head > 2 * plan.resident else None


def are_long(counters: np.ndarray, blocks_per_sm: int, config: GPUConfig) -> bool:
    """Return True if blocks are long and alike, by counters of some, int64 [blocks, instructions, fields]."""
    work = counters[:, :, L.COUNT_EXECUTED].sum(axis=1)
    return bool(work.mean() * blocks_per_sm >= _LONG * config.sm.sub_partitions and work.std() < _ALIKE * work.mean())


def estimated(
    plan: Plan, watch: Watch, handed: np.ndarray, timed: Mapping[str, Any], groups: np.ndarray
) -> dict[str, Any]:
    """Return the record's fields for the whole grid. timed: fields of the record of the timed blocks; handed: when each
    started and ended. groups: int64 [groups, instructions, fields], counters of a block of each group, in the mean."""
    counters, mean = timed["counters"], groups.mean(axis=0)
    work = groups[:, :, L.COUNT_EXECUTED].sum(axis=1)
    factor = work.mean() / (counters[:, L.COUNT_EXECUTED].sum() / plan.timed)
    after, before = generation(plan, handed)
    fresh = min(max(watch.full - plan.head, 0), plan.skipped)
    share = 1.0 if before is None else before / after
    if fresh == plan.skipped:  # from one to the other, as L2 fills with what blocks share
        share = (1 + share) / 2
    generations = (plan.skipped + fresh * (share - 1)) / plan.resident
    extra = factor * after * generations
    cycles = round(timed["cycles"] + extra)

    spread = work.std() / work.mean() / np.sqrt(max(len(work) - 1, 1))
    drift = (0.0 if plan.long else 0.4) if before is None else abs(before / after - 1)
    error = extra / cycles * (_LEAST_ERROR + 0.25 * drift + 2 * spread + 0.3 * abs(factor - 1))

    times = plan.blocks / plan.timed
    whole = np.rint(counters * times)
    whole[:, COUNTED] = np.rint(counters[:, COUNTED] + plan.skipped * mean[:, COUNTED])
    done = watch.done * plan.timed
    memory = timed["memory"] * times
    if before is not None:
        memory = watch.before * ((done + fresh) / done)
        memory += (timed["memory"] - watch.before) * ((plan.blocks - done - fresh) / (plan.timed - done))
        # Blocks had asked for more at the jump than their share of instructions says, or less.
        memory *= times * timed["memory"][ASKED].sum() / max(memory[ASKED].sum(), 1)
    memory[_FIXED] = timed["memory"][_FIXED]
    grown = ("sm_warp_cycles", "sm_scheduler_cycles", "sm_issued", "sm_blocks", "slices", "channels")
    return {
        **timed,
        "cycles": cycles,
        "counters": whole.astype(np.int64),
        "memory": np.rint(memory).astype(np.int64),
        "sm_active_cycles": timed["sm_active_cycles"] + round(extra),
        **{name: np.rint(timed[name] * times).astype(np.int64) for name in grown},
        "sampling": Sampling(plan.timed, plan.blocks, plan.resident, len(groups), float(error)),
    }
