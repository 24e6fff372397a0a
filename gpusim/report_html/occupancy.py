"""What fills an SM, and how many warps it would hold with other blocks: the pictures of the section on occupancy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gpusim.config import GPUConfig
from gpusim.errors import LaunchError
from gpusim.launch.occupancy import occupancy
from gpusim.results.analysis import Analysis

_SHARED_STEP = 1024


def make_occupancy(result: Analysis) -> dict[str, Any]:
    """The document's `occupancy`. resources: of an SM, [name, what a block takes, what there is, unit, whether it
    limits]. curves: as below."""
    record, found = result.record, result.occupancy
    config, program, launch = record.config, record.program, record.launch
    sm, threads = config.sm, launch.threads_per_block
    static, dynamic = program.static_shared_bytes, launch.shared_bytes
    resources = (
        ("Warps", found.warps_per_block, sm.max_warps, "warps", {"warps", "threads"}),
        ("Blocks", 1, sm.max_blocks, "blocks", {"blocks"}),
        ("Registers", found.registers_per_warp * found.warps_per_block, sm.registers, "registers", {"registers"}),
        ("Shared memory", found.shared_bytes_per_block, sm.shared_bytes, "B", {"shared"}),
    )

    return {
        "blocks": found.blocks_per_sm,
        "warps": found.warps_per_sm,
        "most": sm.max_warps,
        "achieved": result.metrics["sm__warps_active.avg.per_cycle_active"],
        "resources": [
            [name, each, of, unit, not names.isdisjoint(found.limiters)] for name, each, of, unit, names in resources
        ],
        "curves": curves(config, threads, program.registers, static + dynamic),
    }


def curves(config: GPUConfig, threads: int, registers: int, shared: int) -> list[list[Any]]:
    """[title, unit, the launch's, most, [value, warps on an SM, ...]] of registers of a thread, and of threads and
    shared memory of a block, while the other two stay: the values at which the number of warps changes."""
    sm = config.sm
    shapes: tuple[tuple[str, str, int, range, Callable[[int], int]], ...] = (
        ("Registers per thread", "", registers, range(1, sm.max_registers_per_thread + 1),
         lambda n: _warps(config, threads, n, shared)),
        ("Threads per block", "", threads, range(1, sm.max_threads_per_block + 1, config.gpu.warp_size),
         lambda n: _warps(config, n, registers, shared)),
        ("Shared memory per block", "B", shared, range(0, sm.shared_bytes_per_block_max + 1, _SHARED_STEP),
         lambda n: _warps(config, threads, registers, n)),
    )  # fmt: skip
    return [[title, unit, here, values.stop - 1, _changes(values, of)] for title, unit, here, values, of in shapes]


def _warps(config: GPUConfig, threads: int, registers: int, shared: int) -> int:
    """Warps that an SM holds of such blocks, 0 where not one fits."""
    try:
        return occupancy(config, threads, registers, 0, shared).warps_per_sm
    except LaunchError:
        return 0


def _changes(values: Iterable[int], warps: Callable[[int], int]) -> list[int]:
    """[value, warps, ...] where the number of warps changes."""
    found: list[int] = []
    for value in values:
        now = warps(value)
        if not found or found[-1] != now:
            found += [value, now]
    return found
