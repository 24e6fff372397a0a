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
    limits]. curves: of what a block takes, [title, unit, the launch's, most, [value, warps on an SM, ...]] where the
    number of warps changes.
    """
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

    def warps(registers: int = program.registers, block: int = threads, shared: int = static + dynamic) -> int:
        return warps_on_sm(config, block, registers, shared)

    shapes = (
        ("Registers per thread", "", program.registers, range(1, sm.max_registers_per_thread + 1),
         lambda n: warps(registers=n)),
        ("Threads per block", "", threads, range(1, sm.max_threads_per_block + 1, config.gpu.warp_size),
         lambda n: warps(block=n)),
        ("Shared memory per block", "B", static + dynamic, range(0, sm.shared_bytes_per_block_max + 1, _SHARED_STEP),
         lambda n: warps(shared=n)),
    )  # fmt: skip
    return {
        "blocks": found.blocks_per_sm,
        "warps": found.warps_per_sm,
        "most": sm.max_warps,
        "achieved": result.metrics["sm__warps_active.avg.per_cycle_active"],
        "resources": [
            [name, each, of, unit, not names.isdisjoint(found.limiters)] for name, each, of, unit, names in resources
        ],
        "curves": [
            [title, unit, here, values.stop - 1, _changes(values, of)] for title, unit, here, values, of in shapes
        ],
    }


def warps_on_sm(config: GPUConfig, threads: int, registers: int, shared: int) -> int:
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
