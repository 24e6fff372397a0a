"""Runs chosen blocks of a grid, each alone on an SM of its own, and records what they do.

Blocks that do not talk to each other do the same whoever runs beside them, so a few of a large grid can be looked at
without the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpusim.config import GPUConfig, load_config
from gpusim.host.launch_run import session_run
from gpusim.host.options import LaunchOptions
from gpusim.host.session import GpuSession
from gpusim.launch import Launch
from gpusim.launch.memory import DeviceMemory
from gpusim.results.record import LaunchRecord
from gpusim.tracing.trace import SPACES, Trace, TraceOptions
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


def run_chosen(
    config: GPUConfig, program: Program, launch: Launch, chosen: Sequence[int], limit: int, cycles: int
) -> tuple[LaunchRecord, DeviceMemory]:
    """The chosen blocks alone, traced with all addresses up to `limit` issues, for `cycles` at most."""
    machine = load_config(config, {"sm.count": len(chosen), **_SMALL})
    options = TraceOptions(sms=(), blocks=chosen, limit=limit)
    return _run(machine, program, launch, options, cycles, tuple(chosen))


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
    return _run(machine, program, launch, TraceOptions(sms=(), blocks=traced, limit=limit), cycles, None)


def _run(
    config: GPUConfig,
    program: Program,
    launch: Launch,
    options: TraceOptions | None,
    cycles: int,
    blocks: tuple[int, ...] | None,
) -> tuple[LaunchRecord, DeviceMemory]:
    memory = DeviceMemory(config.dram.capacity_bytes)
    chosen = LaunchOptions(max_cycles=cycles, trace=options, blocks=blocks)
    with GpuSession(config, memory) as session:
        record = session_run(session, program, launch, chosen, copy_back=False).submit().wait()
    if record.trace is not None:
        _count_constants(record.trace)
    return record, memory


def _count_constants(trace: Trace) -> None:
    """Gives accesses to constants a number of `lines`: distinct addresses, which are served one after the other."""
    rows = np.flatnonzero((trace.issues["space"] == SPACES.index("constant")) & (trace.issues["access"] >= 0))
    lanes = np.sort(trace.addresses[trace.issues["access"][rows]], axis=1)
    new = np.diff(lanes, axis=1, prepend=-1) != 0
    trace.issues["lines"][rows] = (new & (lanes >= 0)).sum(axis=1)
