"""Driver API: attributes of kernels, and how many of their blocks fit."""

from __future__ import annotations

import ctypes

from gpusim.driver.api_module import kernel_of
from gpusim.driver.attributes import compute_capability
from gpusim.driver.codes import Code, DriverError
from gpusim.driver.modules import Kernel
from gpusim.driver.registry import function, put_int, put_size
from gpusim.driver.state import Driver
from gpusim.errors import LaunchError
from gpusim.launch.occupancy import occupancy

_MAX_DYNAMIC_SHARED, _CARVEOUT = 8, 9
_SIZE_OF_DYNAMIC_SHARED = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)


def kernel_attribute(driver: Driver, kernel: Kernel, number: int) -> int:
    """The value of an attribute of `CUfunction_attribute`. Raises INVALID_VALUE."""
    program = kernel.program
    sm, warp = driver.config.sm, driver.config.gpu.warp_size
    most = program.max_threads or sm.max_threads_per_block
    by_registers = max(
        (threads for threads in range(warp, most + 1, warp) if blocks_per_sm(driver, kernel, threads, 0)),
        default=0,
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
        _MAX_DYNAMIC_SHARED: sm.static_shared_bytes_max - program.static_shared_bytes,
        _CARVEOUT: -1,
    }
    if number not in values and not 10 <= number <= 17:
        raise DriverError(Code.INVALID_VALUE)
    return kernel.attributes.get(number, values.get(number, 0))


def blocks_per_sm(driver: Driver, kernel: Kernel, threads: int, dynamic_shared_bytes: int) -> int:
    """Blocks of this size that one SM holds, 0 if none fits."""
    program = kernel.program
    try:
        return occupancy(
            driver.config,
            threads,
            program.registers,
            program.static_shared_bytes,
            dynamic_shared_bytes,
            program.max_threads,
            program.name,
        ).blocks_per_sm
    except LaunchError:
        return 0


@function("cuFuncGetAttribute", "pip")
def function_get(driver: Driver, value: int, number: int, handle: int) -> None:
    put_int(value, kernel_attribute(driver, kernel_of(driver, handle), number))


@function("cuKernelGetAttribute", "pipi")
def kernel_get(driver: Driver, value: int, number: int, handle: int, device: int) -> None:
    function_get(driver, value, number, handle)


@function("cuFuncSetAttribute", "pii")
def function_set(driver: Driver, handle: int, number: int, value: int) -> None:
    kernel = kernel_of(driver, handle)
    if number == _MAX_DYNAMIC_SHARED:
        room = driver.config.sm.shared_bytes_per_block_max - kernel.program.static_shared_bytes
        if not 0 <= value <= room:
            raise DriverError(Code.INVALID_VALUE)
    elif number == _CARVEOUT:
        if not -1 <= value <= 100:
            raise DriverError(Code.INVALID_VALUE)
    elif not 10 <= number <= 17:
        raise DriverError(Code.INVALID_VALUE)
    kernel.attributes[number] = value


@function("cuKernelSetAttribute", "iipi")
def kernel_set(driver: Driver, number: int, value: int, handle: int, device: int) -> None:
    function_set(driver, handle, number, value)


@function("cuFuncSetCacheConfig", "pi")
def function_cache_config(driver: Driver, handle: int, config: int) -> None:
    """A preference that the driver may ignore, and this one does."""
    kernel_of(driver, handle)


@function("cuKernelSetCacheConfig", "pii")
def kernel_cache_config(driver: Driver, handle: int, config: int, device: int) -> None:
    function_cache_config(driver, handle, config)


@function("cuOccupancyMaxActiveBlocksPerMultiprocessor", "ppiq")
def max_active_blocks(driver: Driver, count: int, handle: int, threads: int, shared_bytes: int) -> None:
    if threads < 1:
        raise DriverError(Code.INVALID_VALUE)
    put_int(count, blocks_per_sm(driver, kernel_of(driver, handle), threads, shared_bytes))


@function("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "ppiqu")
def max_active_blocks_with_flags(
    driver: Driver, count: int, handle: int, threads: int, shared_bytes: int, flags: int
) -> None:
    max_active_blocks(driver, count, handle, threads, shared_bytes)


@function("cuOccupancyAvailableDynamicSMemPerBlock", "ppii")
def available_dynamic(driver: Driver, nbytes: int, handle: int, blocks: int, threads: int) -> None:
    kernel, sm = kernel_of(driver, handle), driver.config.sm
    if blocks < 1 or threads < 1 or blocks_per_sm(driver, kernel, threads, 0) < blocks:
        raise DriverError(Code.INVALID_VALUE)
    share = sm.shared_bytes // blocks // sm.shared_unit_bytes * sm.shared_unit_bytes - sm.shared_reserved_bytes
    put_size(nbytes, min(share, sm.shared_bytes_per_block_max) - kernel.program.static_shared_bytes)


@function("cuOccupancyMaxPotentialBlockSize", "ppppqi")
def potential_block_size(
    driver: Driver, grid: int, block: int, handle: int, shared_of: int, shared_bytes: int, limit: int
) -> None:
    """The block size that keeps most threads resident, the largest of equals, and the grid that fills the GPU."""
    kernel, sm = kernel_of(driver, handle), driver.config.sm
    warp = driver.config.gpu.warp_size
    most = min(limit or sm.max_threads_per_block, sm.max_threads_per_block)
    best = (0, 0, 0)
    for threads in range(most // warp * warp or most, 0, -warp):
        dynamic = _SIZE_OF_DYNAMIC_SHARED(shared_of)(threads) if shared_of else shared_bytes
        blocks = blocks_per_sm(driver, kernel, threads, dynamic)
        if blocks * threads > best[0]:
            best = (blocks * threads, threads, blocks)
    if not best[0]:
        raise DriverError(Code.LAUNCH_OUT_OF_RESOURCES)
    put_int(grid, best[2] * sm.count)
    put_int(block, best[1])


@function("cuOccupancyMaxPotentialBlockSizeWithFlags", "ppppqiu")
def potential_block_size_with_flags(
    driver: Driver, grid: int, block: int, handle: int, shared_of: int, shared_bytes: int, limit: int, flags: int
) -> None:
    potential_block_size(driver, grid, block, handle, shared_of, shared_bytes, limit)
