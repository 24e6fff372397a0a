"""Driver API: attributes of kernels, and how many of their blocks and clusters fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from gpusim.driver.attributes import compute_capability
from gpusim.driver.caller import caller
from gpusim.driver.codes import DriverError, ResultCode, fail_if
from gpusim.driver.objects import LoadedKernel
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import Driver
from gpusim.errors import LaunchError
from gpusim.launch import Dim3
from gpusim.launch import occupancy as limits
from gpusim.launch.occupancy import occupancy

MAX_DYNAMIC_SHARED, CARVEOUT, _MUST_HAVE_CLUSTER = 8, 9, 10  # CUfunction_attribute
_REQUIRED_CLUSTER, _NON_PORTABLE_CLUSTER, _CLUSTER_SCHEDULING = (11, 12, 13), 14, 15
_PORTABLE_CLUSTER_BLOCKS = 8


def _prefer(most: int, driver: Driver, kernel: LoadedKernel, preference: int) -> None:
    """A preference that the driver may ignore, and this one does."""
    fail_if(not 0 <= preference <= most, ResultCode.INVALID_VALUE)


entries(
    ("cuFuncSetCacheConfig cuKernelSetCacheConfig", "K i", partial(_prefer, 3)),
    ("cuFuncSetSharedMemConfig", "K i", partial(_prefer, 2)),
)


def _blocks_per_sm(driver: Driver, kernel: LoadedKernel, threads: int, dynamic_shared_bytes: int) -> int:
    """Blocks of this size that one SM holds, 0 if none fits."""
    program = kernel.program
    shared = program.static_shared_bytes, dynamic_shared_bytes
    what = threads, program.registers, *shared, program.max_threads, program.name
    try:
        return occupancy(driver.config, *what).blocks_per_sm
    except LaunchError:
        return 0


@entry("cuFuncGetAttribute cuKernelGetAttribute", "*i i K")
def get_attribute(driver: Driver, number: int, kernel: LoadedKernel) -> int:
    """The value of an attribute of `CUfunction_attribute`. Raises INVALID_VALUE."""
    program = kernel.program
    sm, warp = driver.config.sm, driver.config.gpu.warp_size
    most = program.max_threads or sm.max_threads_per_block
    by_registers = max(
        (threads for threads in range(warp, most + 1, warp) if _blocks_per_sm(driver, kernel, threads, 0)), default=0
    )
    major, minor = compute_capability(driver.config)
    values = {
        0: min(most, by_registers) or most,
        1: program.static_shared_bytes,
        2: len(program.constant_banks.get(3, b"")),
        3: program.local_bytes,
        4: program.registers,
        5: 10 * major + minor,
        6: 10 * major + minor,
        7: 0,
        MAX_DYNAMIC_SHARED: sm.static_shared_bytes_max - program.static_shared_bytes,
        CARVEOUT: -1,
    }
    if program.cluster is not None:
        values |= {_MUST_HAVE_CLUSTER: 1, **dict(zip(_REQUIRED_CLUSTER, program.cluster, strict=True))}
    fail_if(not 0 <= number <= _CLUSTER_SCHEDULING, ResultCode.INVALID_VALUE)
    return kernel.attributes.get(number, values.get(number, 0))


@entry("cuFuncSetAttribute", "K i i")
def set_attribute(driver: Driver, kernel: LoadedKernel, number: int, value: int) -> None:
    if number == MAX_DYNAMIC_SHARED:
        fits = 0 <= value <= driver.config.sm.shared_bytes_per_block_max - kernel.program.static_shared_bytes
    else:
        first, last = _VALUES.get(number, (1, 0))
        fits = first <= value <= last
    if number in _REQUIRED_CLUSTER and kernel.program.cluster is not None:
        fits = value == kernel.program.cluster[_REQUIRED_CLUSTER.index(number)]
    fail_if(not fits, ResultCode.INVALID_VALUE)
    kernel.attributes[number] = int(value != 0) if number == _NON_PORTABLE_CLUSTER else value


entries(("cuKernelSetAttribute", "i i K", lambda driver, number, value, of: set_attribute(driver, of, number, value)))
_MOST = (1 << 31) - 1
_VALUES = {
    CARVEOUT: (-1, 100), **dict.fromkeys(_REQUIRED_CLUSTER, (0, _MOST)), _NON_PORTABLE_CLUSTER: (-_MOST - 1, _MOST),
    _CLUSTER_SCHEDULING: (0, 2),
}  # fmt: skip
"""First and last value of attributes that can be set."""


@entry("cuOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "*i K i q")
def max_active_blocks(driver: Driver, kernel: LoadedKernel, threads: int, shared_bytes: int) -> int:
    fail_if(threads < 1, ResultCode.INVALID_VALUE)
    return _blocks_per_sm(driver, kernel, threads, shared_bytes)


@entry("cuOccupancyAvailableDynamicSMemPerBlock", "*p K i i")
def available_dynamic(driver: Driver, kernel: LoadedKernel, blocks: int, threads: int) -> int:
    sm = driver.config.sm
    if blocks < 1 or threads < 1 or _blocks_per_sm(driver, kernel, threads, 0) < blocks:
        raise DriverError(ResultCode.INVALID_VALUE)
    share = sm.shared_bytes // blocks // sm.shared_unit_bytes * sm.shared_unit_bytes
    return min(share - kernel.program.static_shared_bytes, get_attribute(driver, MAX_DYNAMIC_SHARED, kernel))


@entry("cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags", "*i *i K p q i")
def potential_block_size(
    driver: Driver, kernel: LoadedKernel, shared_of: int, shared_bytes: int, limit: int
) -> tuple[int, int]:
    """The grid that fills the GPU, and the block size that keeps most threads resident, the largest of equals."""
    sm, warp = driver.config.sm, driver.config.gpu.warp_size
    most = min(limit or sm.max_threads_per_block, sm.max_threads_per_block)
    best = (0, 0, 0)
    dynamic_of = caller().function(shared_of, "i") if shared_of else lambda threads: shared_bytes
    for threads in range(most // warp * warp or most, 0, -warp):
        blocks = _blocks_per_sm(driver, kernel, threads, dynamic_of(threads))
        if blocks * threads > best[0]:
            best = (blocks * threads, threads, blocks)
    fail_if(not best[0], ResultCode.LAUNCH_OUT_OF_RESOURCES)
    return best[2] * sm.count, best[1]


# --- clusters ---------------------------------------------------------------------------------------------------------


def check_cluster(driver: Driver, kernel: LoadedKernel, asked: Dim3 | None, grid: Sequence[int]) -> Dim3 | None:
    """Blocks per cluster of a launch that asks for so many, None where its program says the same. Raises
    INVALID_CLUSTER_SIZE."""
    x, y, z = (kernel.attributes.get(number, 0) for number in _REQUIRED_CLUSTER)
    required = kernel.program.cluster or ((x, y, z) if x and y and z else None)
    cluster = asked or required
    if cluster is None:
        return None
    fail_if(0 in cluster or (required or cluster) != cluster, ResultCode.INVALID_CLUSTER_SIZE)
    message = f"clusters of more than {_PORTABLE_CLUSTER_BLOCKS} blocks are not portable: allow them by an attribute"
    large = math.prod(cluster) > _PORTABLE_CLUSTER_BLOCKS and not kernel.attributes.get(_NON_PORTABLE_CLUSTER)
    fail_if(large, ResultCode.INVALID_CLUSTER_SIZE, message)
    try:
        limits.check_cluster(driver.config, cluster, grid, driver.config.sm.max_blocks, kernel.name)
    except LaunchError as error:
        raise DriverError(ResultCode.INVALID_CLUSTER_SIZE, str(error)) from None
    return None if cluster == kernel.program.cluster else cluster


def active_clusters(
    driver: Driver, kernel: LoadedKernel, cluster: Dim3, threads: int, dynamic_shared_bytes: int
) -> int:
    """Clusters of this size that the GPU holds at once, each in a GPC (`gpusim.engine.dispatcher.place_clusters`)."""
    size = math.prod(cluster)
    slots = driver.config.sm.cluster_block_slots
    blocks = min(_blocks_per_sm(driver, kernel, threads, dynamic_shared_bytes), slots)
    return sum(count * blocks // size for count in limits.cluster_groups(driver.config) if count >= size)
