"""Occupancy: GPUs that take a launch, its blocks on an SM, and the rest of the unified memory, which is L1.

The rules are the vendor's: the occupancy section of the CUDA programming guide, the occupancy calculator's allocation
units for compute capabilities 8.0 and 9.0, and the shared memory sizes of the Ampere and Hopper tuning guides.

- Warps, threads, blocks: as many as the SM has room for.
- Registers: a warp gets its registers times its lanes, rounded up to `register_unit`, out of its own sub-partition. A
  block must fit as a multiple of `warp_allocation_unit` warps; resident blocks together count their warps as they are
  (an H200 reports 18 blocks for 2 warps of 56 registers, 42 for 2 warps of 24).
- Shared memory: a block gets static + dynamic + reserved bytes rounded up to `shared_unit_bytes`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpusim.config import GPUConfig
from gpusim.errors import LaunchError
from gpusim.launch.memory import round_up

LEAST_REGISTERS = 16
"""Least registers of a thread: an H200 shows kernels of 8 to 15 with 16, and as many blocks as follow from that."""
_ARCHITECTURE = re.compile(r"sm_(\d+)(\d)([af]?)$")


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The part of a launch that one SM holds.

    limits: blocks per SM that each resource alone would allow: 'warps', 'threads', 'blocks', 'registers',
    'shared'. limiters: the resources whose limit is the smallest.
    warp_slots: warps that a sub-partition holds. block_slots: blocks of which an SM holds some warps, while others have
    ended and made room: as many as it has slots and, for what a whole block keeps, shared memory for.
    shared_bytes_per_block: with the reserved part and rounding.
    carveout_bytes: shared memory that the SM is set to; `l1_bytes` is the rest of the unified memory.
    theoretical: resident warps as a share of the SM's maximum, 0 to 1.
    """

    blocks_per_sm: int
    warps_per_block: int
    warps_per_sm: int
    warp_slots: int
    block_slots: int
    limits: dict[str, int]
    limiters: tuple[str, ...]
    registers_per_warp: int
    shared_bytes_per_block: int
    carveout_bytes: int
    l1_bytes: int
    theoretical: float


def occupancy(
    config: GPUConfig,
    threads_per_block: int,
    registers_per_thread: int,
    static_shared_bytes: int = 0,
    dynamic_shared_bytes: int = 0,
    max_threads: int | None = None,
    kernel: str | None = None,
    preference: int = -1,
) -> Occupancy:
    """Return how blocks of this shape fill an SM. `max_threads` is the bound that the kernel was compiled
    for, `preference` as for `carveout_bytes`.

    Raises LaunchError, naming the limit, if not even one block fits.
    """
    sm, warp_size = config.sm, config.gpu.warp_size
    asked = static_shared_bytes + dynamic_shared_bytes
    shared_bytes = (static_shared_bytes, dynamic_shared_bytes)
    _check_block(config, threads_per_block, registers_per_thread, max_threads, shared_bytes, kernel)
    warps = -(-threads_per_block // warp_size)
    registers = max(registers_per_thread, LEAST_REGISTERS) if registers_per_thread else 0
    registers_per_warp = round_up(registers * warp_size, sm.register_unit)
    shared = round_up(asked + sm.shared_reserved_bytes, sm.shared_unit_bytes)
    allocated_warps = round_up(warps, sm.warp_allocation_unit)
    limits = {
        "warps": sm.max_warps // warps,
        "threads": sm.max_threads // (warps * warp_size),
        "blocks": sm.max_blocks,
        "registers": sm.max_blocks,
        "shared": sm.shared_bytes // shared if shared else sm.max_blocks,
    }
    warp_slots = min(sm.max_warps, sm.max_threads // warp_size) // sm.sub_partitions
    if registers_per_warp:
        register_warps = sm.registers_per_sub_partition // registers_per_warp * sm.sub_partitions
        limits["registers"] = register_warps // warps if register_warps >= allocated_warps else 0
        warp_slots = min(warp_slots, register_warps // sm.sub_partitions)
    blocks = min(limits.values())
    if blocks == 0:
        lacking = " and ".join(name for name, limit in limits.items() if limit == 0)
        words = f"a block of {threads_per_block:,} threads needs more {lacking} than an SM has"
        if limits["registers"] == 0:
            each = f"{threads_per_block:,} threads with {registers_per_thread} registers each"
            words = f"{each} need more than the {sm.registers:,} of an SM"
        raise LaunchError(words, kernel=kernel)
    carveout = carveout_bytes(config, warps, blocks, shared, asked, preference)
    if carveout < blocks * shared:
        limits["shared"] = blocks = carveout // shared
    return Occupancy(
        blocks_per_sm=blocks,
        warps_per_block=warps,
        warps_per_sm=blocks * warps,
        warp_slots=warp_slots,
        block_slots=min(sm.max_blocks, carveout // shared) if shared else sm.max_blocks,
        limits=limits,
        limiters=tuple(name for name, limit in limits.items() if limit == blocks),
        registers_per_warp=registers_per_warp,
        shared_bytes_per_block=shared,
        carveout_bytes=carveout,
        l1_bytes=sm.unified_l1_bytes - carveout,
        theoretical=blocks * warps / sm.max_warps,
    )


def carveout_bytes(
    config: GPUConfig, warps: int, blocks: int, shared_bytes: int, asked_bytes: int, preference: int = -1
) -> int:
    """Return the bytes of shared memory that the driver sets an SM to.

    warps: of a block; blocks: that fit on an SM; shared_bytes: of a block, of which the program asks for `asked_bytes`
    and the rest is reserved. Without a preference (-1) it is the smallest size that holds twice the blocks that fit,
    or `sm.max_blocks` less the warps of a block if these are fewer. Where one block fits, and of sizes over half of the
    unified memory, it is the smallest that holds the blocks that fit. Blocks that ask for none get room for the second
    number. preference: per cent of all shared memory. It is the smallest size with so much, and with the reserved parts
    of the blocks that together ask for so much; it holds at least one block, or what blocks that ask for none get.

    Source: `launch__shared_mem_config_size` of Nsight Compute on an H200, driver 580.159.04. It is so in all 1,222
    launches of a sweep (`tests/gpusim/data/h200_carveout.json`) and all 798 that were recorded of programs.
    """
    sm = config.sm
    preferred = max(preference, 0) * sm.shared_bytes // 100
    wanted = max(blocks, sm.max_blocks - warps) if blocks > 1 else 1
    if asked_bytes:
        preferred = max(preferred, preferred // asked_bytes * shared_bytes)
        wanted = min(wanted, 2 * blocks)
        if preference >= 0:
            blocks = wanted = 1
    held = ((size, wanted if 2 * size <= sm.unified_l1_bytes else blocks) for size in sm.shared_capacities_bytes)
    return next((size for size, count in held if size >= max(preferred, count * shared_bytes)), sm.shared_bytes)


def check_architecture(program: str, gpu: str, kernel: str) -> None:
    """Refuse machine code that a GPU's instruction decoder does not know.

    Code for compute capability X.y runs on X.z with z >= y; code for an 'a' target on that one only, for an 'f'
    target on its family, which is X.z with z >= y too (CUDA C++ Programming Guide, "Binary Compatibility" and
    "Family-Specific Features").

    Args:
        program: what the code was compiled for, such as 'sm_86' or 'sm_90a'.
        gpu: the configuration's `gpu.arch`.
        kernel: name for the message.

    Raises:
        LaunchError: names both.
    """
    code, machine = _ARCHITECTURE.match(program), _ARCHITECTURE.match(gpu)
    if code is None or machine is None:
        raise LaunchError(f"'{program}' on '{gpu}': not two architectures", kernel=kernel)
    same = code[1] == machine[1]
    if same and (int(code[2]) == int(machine[2]) if code[3] == "a" else int(code[2]) <= int(machine[2])):
        return
    raise LaunchError(
        f"its machine code is for {program}, which a GPU of {gpu} does not run; compile it for {gpu}, "
        f'or simulate the other architecture on this machine with overrides=["gpu.arch={program}"]',
        kernel=kernel,
    )


def check_dimensions(config: GPUConfig, grid: Sequence[int], block: Sequence[int], kernel: str | None = None) -> None:
    """Raise LaunchError unless `grid` and `block`, each (x, y, z), are within the limits of the GPU."""
    limits = (("grid", "blocks", grid, config.launch.max_grid), ("block", "threads", block, config.launch.max_block))
    for what, unit, size, maximum in limits:
        for axis, extent, most in zip("xyz", size, maximum, strict=True):
            if not 1 <= extent <= most:
                raise LaunchError(
                    f"{what} {tuple(size)}: {extent:,} {unit} in {axis}, allowed 1 to {most:,}", kernel=kernel
                )


def cluster_groups(config: GPUConfig) -> tuple[int, ...]:
    """SMs of each group that a thread block cluster lies in: `sm.cluster_sms`, or whole TPCs of GPCs that are alike."""
    sms, tpc = config.sm.count, config.crossbar.sms_per_port
    if sum(config.sm.cluster_sms) == sms:
        return config.sm.cluster_sms
    begins = [min(gpc * -(-sms // tpc) // config.sm.gpcs * tpc, sms) for gpc in range(config.sm.gpcs + 1)]
    return tuple(last - first for first, last in pairwise(begins))


def check_cluster(
    config: GPUConfig, cluster: Sequence[int], grid: Sequence[int], blocks_per_sm: int, kernel: str | None = None
) -> None:
    """Raise LaunchError unless thread block clusters of `cluster` (x, y, z) blocks divide the grid and fit a GPC."""
    blocks = cluster[0] * cluster[1] * cluster[2]
    size = tuple(cluster)
    if blocks > config.sm.max_cluster_blocks:
        most = config.sm.max_cluster_blocks
        what = f"allowed at most {most}" if most > 1 else f"and {config.gpu.name} has no clusters"
        raise LaunchError(f"clusters of {size}: {blocks:,} blocks, {what}", kernel=kernel)
    if any(extent % part for extent, part in zip(grid, cluster, strict=True)):
        raise LaunchError(f"grid {tuple(grid)} is not a multiple of the cluster's {size} blocks", kernel=kernel)
    room = max(cluster_groups(config)) * blocks_per_sm
    if blocks > room:
        raise LaunchError(f"a cluster of {blocks} blocks does not fit a GPC, which has room for {room}", kernel=kernel)


def _check_block(
    config: GPUConfig,
    threads: int,
    registers: int,
    max_threads: int | None,
    shared_bytes: tuple[int, int],
    kernel: str | None,
) -> None:
    """Raise LaunchError for a block that no SM of this GPU takes. shared_bytes: static and dynamic."""
    sm, (static, dynamic) = config.sm, shared_bytes
    for wrong, words in (
        (not 1 <= threads <= sm.max_threads_per_block,
         f"{threads:,} threads per block, allowed 1 to {sm.max_threads_per_block:,}"),
        (max_threads is not None and threads > max_threads,
         f"{threads:,} threads per block, the kernel was compiled for {max_threads or 0:,} at most"),
        (not 0 <= registers <= sm.max_registers_per_thread,
         f"{registers:,} registers per thread, allowed at most {sm.max_registers_per_thread:,}"),
        (min(static, dynamic) < 0, f"shared memory must not be negative, got {min(static, dynamic):,} bytes"),
        (static > sm.static_shared_bytes_max,
         f"{static:,} bytes of static shared memory per block, allowed at most {sm.static_shared_bytes_max:,}"),
        (static + dynamic > sm.shared_bytes_per_block_max,
         f"{static + dynamic:,} bytes of shared memory per block ({static:,} static + "
         f"{dynamic:,} dynamic), allowed at most {sm.shared_bytes_per_block_max:,}"),
    ):  # fmt: skip
        if wrong:
            raise LaunchError(words, kernel=kernel)
