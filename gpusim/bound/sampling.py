"""Runs chosen blocks of a grid, each alone on an SM of its own, and records what they do.

Blocks that do not talk to each other do the same whoever runs beside them, so a few of a large grid can be looked at
without the others. The engine hands out blocks by number; after it has done so, and before the first instruction, they
are given the numbers of those that were chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpusim.config import GPUConfig, load_config
from gpusim.engine.device import Engine
from gpusim.engine.state import layout as L
from gpusim.host.options import LaunchOptions
from gpusim.host.runner import Machine, run_launch
from gpusim.launch import Dim3, Launch
from gpusim.launch.memory import DeviceMemory
from gpusim.launch.program import place_arguments
from gpusim.results.record import LaunchRecord
from gpusim.tracing.trace import SPACES, Trace, TraceOptions
from isa import Program
from isa import microops as M
from isa.launch_values import launch_values, reads_launch_value

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


class ChosenBlocks(Engine):
    """A device of one SM for each chosen block, which runs these alone."""

    def __init__(self, config: GPUConfig, grid: Dim3, chosen: Sequence[int]):
        super().__init__(config)
        self._grid = grid
        self._chosen = chosen

    def submit(self, state: L.State, blocks: int, *args: Any, **kwargs: Any) -> Any:
        return super().submit(state, len(self._chosen), *args, **kwargs)

    def filled(self, state: L.State) -> None:
        across, down, _ = self._grid
        for block in state.block[:, 0]:
            if block[L.B_STATE] == 0:
                raise AssertionError("a chosen block has no SM")
            number = self._chosen[int(block[L.B_NUMBER])]
            block[L.B_NUMBER] = number
            block[L.B_X] = number % across
            block[L.B_Y] = number // across % down
            block[L.B_Z] = number // (across * down)


def communicates(program: Program, code: np.ndarray) -> bool:
    """Whether blocks may do what depends on other blocks: grid-wide barriers, clusters, what the host serves, atomics
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
    """Whether the kernel uses what blocks of a cooperative launch share."""
    return bool(reads_launch_value(program, launch_values(program.arch).environment + 4))


def run_chosen(
    config: GPUConfig, program: Program, launch: Launch, chosen: Sequence[int], limit: int, cycles: int
) -> tuple[LaunchRecord, DeviceMemory]:
    """The chosen blocks alone, traced with all addresses up to `limit` issues, for `cycles` at most.

    The trace numbers warps by a block's place in `chosen`.
    """
    machine = load_config(config, {"sm.count": len(chosen), **_SMALL})
    device = ChosenBlocks(machine, launch.grid, chosen)
    # A warp is asked for when it starts, under the first number, and its addresses when it issues, under the other.
    options = TraceOptions(sms=(), blocks={*range(len(chosen)), *chosen}, limit=limit)
    return _run(machine, program, launch, device, options, cycles)


def run_whole(
    config: GPUConfig, program: Program, launch: Launch, traced: Sequence[int], limit: int, cycles: int, footprint: int
) -> tuple[LaunchRecord, DeviceMemory]:
    """The whole launch, traced in part, on a machine whose L2 has room for `footprint` bytes several times over and
    fetches single sectors, so that what it gets from memory is what the launch reads without having written it."""
    l2 = config.l2
    step = l2.slices * l2.ways * l2.line_bytes
    machine = load_config(
        config,
        {
            "l2.partitions": 1,
            "l2.fetch_bytes": 32,
            "l2.bytes": max(-(-4 * footprint // step), 8) * step,
            "l2.dirty_before_bytes": 0,
            "l2.gpc_partitions": [0],
        },
    )
    return _run(machine, program, launch, None, TraceOptions(sms=(), blocks=traced, limit=limit), cycles)


def _run(
    config: GPUConfig,
    program: Program,
    launch: Launch,
    engine: Engine | None,
    options: TraceOptions | None,
    cycles: int,
) -> tuple[LaunchRecord, DeviceMemory]:
    memory = DeviceMemory(config.dram.capacity_bytes)
    with Machine(config, memory, engine=engine) as machine:
        placed = place_arguments(program, launch, memory)
        linked = machine.modules.link(program)
        chosen = LaunchOptions(max_cycles=cycles, trace=options)
        record = run_launch(machine, linked, launch, placed.parameter_bytes, chosen)
    if record.trace is not None:
        _count_constants(record.trace)
    return record, memory


def _count_constants(trace: Trace) -> None:
    """Gives accesses to constants a number of `lines`: distinct addresses, which are served one after the other."""
    rows = np.flatnonzero((trace.issues["space"] == SPACES.index("constant")) & (trace.issues["access"] >= 0))
    lanes = np.sort(trace.addresses[trace.issues["access"][rows]], axis=1)
    new = np.diff(lanes, axis=1, prepend=-1) != 0
    trace.issues["lines"][rows] = (new & (lanes >= 0)).sum(axis=1)
