"""The profile of a launch, independent of the machine's size and speed: work by unit, memory that it touches, a path.

Most grids are made of few kinds of blocks: those at the edges and all others. So the first and last block and two or
three others along each axis are run, and the rest follows if those inside do the same at addresses that move evenly
from block to block. A launch whose blocks differ, or talk to each other, is run as a whole.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from gpusim.bound.footprint import Footprint, Region, atomic_requests, footprint_of, hot_requests
from gpusim.bound.walk import Path, path_of
from gpusim.bound.work import Amount, Kinds, Tally, work
from gpusim.config import GPUConfig, load_config
from gpusim.config.load import Overrides
from gpusim.engine.retime import lowered_once
from gpusim.engine.state import layout as L
from gpusim.host.launch_run import session_run
from gpusim.host.options import DEFAULT_MAX_CYCLES, LaunchOptions
from gpusim.host.sampling import communicates, is_cooperative
from gpusim.host.session import GpuSession
from gpusim.launch import Dim3, Launch
from gpusim.launch.arguments import program_of
from gpusim.launch.memory import DeviceMemory
from gpusim.results.record import LaunchRecord
from gpusim.tracing.perfetto import Trace
from gpusim.tracing.recording import SPACES, TraceOptions
from isa import Program

#: An L2 and a memory for blocks whose time does not matter.
_SMALL: dict[str, Any] = {
    "sm.gpcs": 1,
    "l2.partitions": 1,
    "l2.gpc_partitions": [0],
    "l2.slices": 4,
    "l2.ways": 16,
    "l2.bytes": 1 << 20,
    "l2.dirty_before_bytes": 0,
    "dram.channels": 4,
}


def _large_l2(config: GPUConfig, footprint: int) -> dict[str, Any]:
    """An L2 that has room for `footprint` bytes several times over and fetches single sectors, so that what it gets
    from memory is what a launch reads without having written it."""
    l2 = config.l2
    step = l2.slices * l2.ways * l2.line_bytes
    return {
        "l2.partitions": 1,
        "l2.fetch_bytes": 32,
        "l2.bytes": max(-(-4 * footprint // step), 8) * step,
        "l2.dirty_before_bytes": 0,
        "l2.gpc_partitions": [0],
    }


def _run(
    machine: GPUConfig, program: Program, launch: Launch, traced: Sequence[int], limit: int, cycles: int,
    blocks: tuple[int, ...] | None = None,
) -> tuple[LaunchRecord, Trace, DeviceMemory]:  # fmt: skip
    """A launch, or some `blocks` of it alone, for `cycles` at most; of the blocks `traced` all addresses are recorded,
    up to `limit` issues."""
    memory = DeviceMemory(machine.dram.capacity_bytes)
    options = TraceOptions(sms=(), blocks=traced, limit=limit)
    chosen = LaunchOptions(max_cycles=cycles, trace=options, blocks=blocks)
    with GpuSession(machine, memory) as session:
        session.calls.write = lambda text: None  # the launch itself prints
        record = session_run(session, program, launch, chosen, copy_back=False).submit().wait()
    assert record.trace is not None
    _count_constants(record.trace)
    return record, record.trace, memory


def _count_constants(trace: Trace) -> None:
    """Gives accesses to constants a number of `lines`: distinct addresses, which are served one after the other."""
    rows = np.flatnonzero((trace.issues["space"] == SPACES.index("constant")) & (trace.issues["access"] >= 0))
    lanes = np.sort(trace.addresses[trace.issues["access"][rows]], axis=1)
    new = np.diff(lanes, axis=1, prepend=-1) != 0
    trace.issues["lines"][rows] = (new & (lanes >= 0)).sum(axis=1)


#: Grids of no more blocks are run as a whole; those of no more warps are also traced as a whole, as far as so many
#: issues.
_FEW_BLOCKS = 16
_FEW_WARPS = 4096
_FEW_ISSUES = 150_000
#: Axes of no more blocks are run all along, by the number of axes.
_FEW_PER_AXIS = {1: 8, 2: 4, 3: 3}


@dataclass(frozen=True, eq=False)
class Profile:
    """A launch, as the bound sees it.

    launch: without its arguments. warps: of a block.
    counts: blocks of each kind, int64 [kinds]; amounts: what one of them asks of the machine, float64
    [kinds, work.AMOUNTS].
    footprint: memory that the grid touches. hot: requests of atomics to the line that gets most of
    them, and sectors in these.
    path: issues of the warps of one block, which is of the kind `walked`.
    uniform: whether blocks of a kind do the same; else `counts` has one kind, the mean. sampled: blocks that were run.
    needs: what the numbers depend on, {dotted key of the configuration: value}.
    """

    program: Program
    launch: Launch
    warps: int
    counts: np.ndarray
    amounts: np.ndarray
    footprint: Footprint
    hot: tuple[float, float]
    path: Path
    walked: int
    uniform: bool
    sampled: int
    needs: dict[str, Any]
    memo: dict[Any, Any] = field(default_factory=dict)

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.program.name

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.launch.blocks

    @cached_property
    def cooperative(self) -> bool:
        """True if all blocks have to be resident at once."""
        return is_cooperative(self.program)

    @property
    def total(self) -> np.ndarray:
        """Work of the whole grid, float64 [work.AMOUNTS]."""
        return self.counts @ self.amounts


@dataclass(frozen=True)
class Effort:
    """Limits of a profile's cost: issues that are traced, cycles of a run, and whether a whole launch may
    be run that has more than a few blocks."""

    issues: int = 1_000_000
    cycles: int = DEFAULT_MAX_CYCLES
    whole: bool = True


THOROUGH, QUICK = Effort(), Effort(120_000, 100_000, False)


class NotSampled(Exception):
    """A few blocks do not tell what all do. `issues`: about how many instructions the grid issues, 0 if unknown."""

    def __init__(self, reason: str, issues: int = 0):
        self.reason, self.issues = reason, issues
        super().__init__(reason)


def _made(program: Program, launch: Launch, config: GPUConfig, effort: Effort) -> Profile:
    """Run what is needed and sum it up."""
    if launch.blocks <= _FEW_BLOCKS:
        return _whole(program, launch, config, effort, 0)
    try:
        return _sampled(program, launch, config, effort)
    except NotSampled as found:
        if not effort.whole:
            raise
        return _whole(program, launch, config, effort, found.issues)


def needs_of(config: GPUConfig) -> dict[str, Any]:
    """The values of a configuration that change the numbers of a profile."""
    return {
        "gpu.arch": config.gpu.arch, "shared.banks": config.shared.banks, "shared.bank_bytes": config.shared.bank_bytes,
        "l1.store_line_cycles": config.l1.store_line_cycles,
    }  # fmt: skip


def kinds_of(grid: Dim3) -> list[Region]:
    """The kinds of blocks of a grid by place, and which of each are run."""
    axes = sum(extent > 1 for extent in grid)
    parts = [_parts(extent, _FEW_PER_AXIS[max(axes, 1)]) for extent in grid]
    found = []
    for combination in itertools.product(*parts):
        places = itertools.product(*(part[1] for part in combination))
        found.append(Region(tuple(part[0] for part in combination), tuple((x, y, z) for x, y, z in places)))
    return found


def _parts(extent: int, few: int) -> list[tuple[tuple[int, int], tuple[int, ...]]]:
    """Ranges of an axis with the positions in each that are run."""
    if extent <= few:
        return [((k, k), (k,)) for k in range(extent)]
    inside = (1, 2, extent // 2, extent - 2) if few == _FEW_PER_AXIS[1] else (1, extent - 2)
    return [((0, 0), (0,)), ((1, extent - 2), inside), ((extent - 1, extent - 1), (extent - 1,))]


def _sampled(program: Program, launch: Launch, config: GPUConfig, effort: Effort) -> Profile:
    """The profile by some blocks. Raises NotSampled if they do not stand for the others."""
    if communicates(program, lowered_once(program, config).code):
        raise NotSampled("its blocks may depend on what others do")
    kinds = kinds_of(launch.grid)
    across, down, _ = launch.grid
    places = [place for kind in kinds for place in kind.places]
    if 2 * len(places) > launch.blocks:
        raise NotSampled("its grid is so small that most of its blocks are at an edge")
    numbers = tuple(x + across * (y + down * z) for x, y, z in places)
    machine = load_config(config, {"sm.count": len(numbers), **_SMALL})
    record, trace, memory = _run(machine, program, launch, numbers, effort.issues, effort.cycles, numbers)
    code = record.code
    if not trace.complete:
        issues = int(record.counters[:, L.COUNT_EXECUTED].sum()) * launch.blocks // len(places)
        raise NotSampled(f"{len(places)} of its blocks execute more than {effort.issues:,} instructions", issues)
    issues = len(trace.issues) * launch.blocks // len(places)
    samples = iter(_split(trace, numbers))
    amounts, regions = [], []
    for kind in kinds:
        mine = tuple(itertools.islice(samples, len(kind.places)))
        if any(not _same_course(mine[0], other) for other in mine[1:]):
            raise NotSampled("its blocks differ in what they execute", issues)
        amounts.append(np.min([_work(trace, each, code, config) for each in mine], axis=0))
        regions.append(replace(kind, samples=mine))
    footprint, touched = footprint_of(trace, regions, memory, code)
    if touched.irregular and issues < _FEW_ISSUES:
        raise NotSampled("its blocks touch memory in no regular way", issues)
    most = max(range(len(kinds)), key=lambda k: kinds[k].blocks)
    return Profile(
        program=program,
        launch=replace(launch, args=()),
        warps=trace.warps_per_block,
        counts=np.array([kind.blocks for kind in kinds], np.int64),
        amounts=np.array(amounts),
        footprint=footprint,
        hot=hot_requests(trace, regions, memory, Kinds(code)),
        path=path_of(trace, regions[most].samples[0], touched, code),
        walked=most,
        uniform=True,
        sampled=len(places),
        needs=needs_of(config),
    )


def _whole(program: Program, launch: Launch, config: GPUConfig, effort: Effort, issues: int) -> Profile:
    """The profile of a launch that was run as a whole, in which about so many instructions are issued."""
    nbytes = sum(np.asarray(each).nbytes for each in launch.args)
    few = launch.blocks <= _FEW_BLOCKS or launch.blocks * -(-launch.threads_per_block // 32) <= _FEW_WARPS
    few &= issues < _FEW_ISSUES
    traced = range(launch.blocks) if few else (0, launch.blocks // 2, launch.blocks - 1)
    limit = _FEW_ISSUES if few and launch.blocks > _FEW_BLOCKS else effort.issues
    machine = load_config(config, _large_l2(config, nbytes))
    record, trace, memory = _run(machine, program, launch, traced, limit, effort.cycles)
    code = record.code
    complete = trace.complete and few
    # Of a block that the trace leaves, what there is is where all of its warps began.
    blocks = _split(trace, traced if trace.complete else traced[:1])
    regions = [_own_region(launch.grid, number, rows) for number, rows in zip(traced, blocks, strict=False)]
    footprint, touched = footprint_of(trace, regions, memory, code)
    touched.complete &= complete
    longest = max(range(len(blocks)), key=lambda k: len(blocks[k]))
    if complete:
        counts, amounts = np.ones(len(blocks), np.int64), [_work(trace, rows, code, config) for rows in blocks]
    else:
        whole = work(Tally.of_counters(record.counters), code, config.l1.store_line_cycles)
        counts, amounts = np.array([launch.blocks]), [whole / launch.blocks]
    return Profile(
        program=program,
        launch=replace(launch, args=()),
        warps=trace.warps_per_block,
        counts=counts,
        amounts=np.array(amounts),
        footprint=footprint.measured(record),
        hot=hot_requests(trace, regions, memory, Kinds(code)),
        path=path_of(trace, blocks[longest], touched, code),
        walked=longest if complete else 0,
        uniform=complete,
        sampled=launch.blocks,
        needs=needs_of(config),
    )


def _work(trace: Trace, issues: np.ndarray, code: np.ndarray, config: GPUConfig) -> np.ndarray:
    """The work vector of one block, atomics counted by their addresses."""
    found = work(Tally.of_issues(issues, len(code)), code, config.l1.store_line_cycles)
    found[Amount.ATOMIC_LINES] = max(found[Amount.ATOMIC_LINES], atomic_requests(trace, issues, Kinds(code)))
    return found


def _own_region(grid: Dim3, number: int, rows: np.ndarray) -> Region:
    x, y, z = number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])
    return Region(((x, x), (y, y), (z, z)), ((x, y, z),), (rows,))


def _split(trace: Trace, blocks: Sequence[int]) -> list[np.ndarray]:
    """Issues of each of some blocks, by warp and in each by time."""
    warps = trace.warps_per_block
    issues = trace.issues[np.argsort(trace.issues["warp"], kind="stable")]
    first = np.searchsorted(issues["warp"], warps * np.array(blocks))
    last = np.searchsorted(issues["warp"], warps * (np.array(blocks) + 1))
    return [issues[a:b] for a, b in zip(first, last, strict=True)]


def _same_course(a: np.ndarray, b: np.ndarray) -> bool:
    """True if the warps of two blocks execute the same instructions with the same lanes."""
    warp = a["warp"][0] if len(a) else 0
    other = b["warp"][0] if len(b) else 0
    return (
        len(a) == len(b)
        and all(np.array_equal(a[name], b[name]) for name in ("pc", "active", "executed"))
        and np.array_equal(a["warp"] - warp, b["warp"] - other)
    )


_MOST_PROFILES = 64
_known: OrderedDict[str, Profile] = OrderedDict()


def profile(
    target: Any, gpu: str | FilePath | GPUConfig = "h200", overrides: Overrides = None, effort: Effort = THOROUGH
) -> Profile:
    """The profile of a launch, the same for machines of any size and speed; from a cache if it is known.

    target: a `gpusim.Launch`, or anything with one as `launch`, or a function that makes one of these.
    gpu, overrides: a machine, as for `gpusim.simulate`, of which only what changes the program or its bank conflicts
    counts (`Profile.needs`); the profile then holds for all machines that agree in that. Program and contents of the
    arguments are what it is known by.

    Raises SimulationError, or one of its subclasses, for what is wrong with the launch or what the kernel does wrong;
    NotSampled if it would have to be run as a whole, and the effort does not allow that.
    """
    config = load_config(gpu, overrides)
    target = target() if callable(target) else target
    launch: Launch = getattr(target, "launch", target)
    program = program_of(launch, config.gpu.arch)
    content = repr((program.sha256, _contents(launch), needs_of(config)))
    if content not in _known:
        _known[content] = _made(program, launch, config, effort)
    _known.move_to_end(content)
    if len(_known) > _MOST_PROFILES:
        _known.popitem(last=False)
    return _known[content]


def _contents(launch: Launch) -> list[Any]:
    """Shape and contents of arguments, by which a launch is known from others."""
    parts: list[Any] = [launch.grid, launch.block, launch.shared_bytes, str(launch.signature)]
    for value in launch.args:
        array = np.asarray(value)
        content = hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).hexdigest()
        parts.append((str(array.dtype), array.shape, array.strides, content))
    return parts
