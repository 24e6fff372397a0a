"""Driver API: attributes of kernels, and how many of their blocks fit."""

from __future__ import annotations

from gpusim.driver.attributes import compute_capability
from gpusim.driver.caller import caller
from gpusim.driver.codes import DriverError, ResultCode, fail_if
from gpusim.driver.objects import LoadedKernel
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver
from gpusim.errors import LaunchError
from gpusim.launch.occupancy import occupancy

MAX_DYNAMIC_SHARED, _CARVEOUT = 8, 9  # CUfunction_attribute

entries(  # preferences that the driver may ignore, and this one does
    ("cuFuncSetCacheConfig", "K (i)", nothing),
    ("cuKernelSetCacheConfig", "K (ii)", nothing),
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


@entry("cuFuncGetAttribute", "*i i K")
@entry("cuKernelGetAttribute", "*i i K (i)")
def get_attribute(driver: Driver, number: int, kernel: LoadedKernel) -> int:
    """The value of an attribute of `CUfunction_attribute`. Raises INVALID_VALUE."""
    program = kernel.program
    sm, warp = driver.config.sm, driver.config.gpu.warp_size
    most = program.max_threads or sm.max_threads_per_block
    by_registers = max(
        (threads for threads in range(warp, most + 1, warp) if _blocks_per_sm(driver, kernel, threads, 0)),
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
        MAX_DYNAMIC_SHARED: sm.static_shared_bytes_max - program.static_shared_bytes,
        _CARVEOUT: -1,
    }
    fail_if(number not in values and not 10 <= number <= 17, ResultCode.INVALID_VALUE)
    return kernel.attributes.get(number, values.get(number, 0))


@entry("cuFuncSetAttribute", "K i i")
def set_attribute(driver: Driver, kernel: LoadedKernel, number: int, value: int) -> None:
    if number == MAX_DYNAMIC_SHARED:
        fits = 0 <= value <= driver.config.sm.shared_bytes_per_block_max - kernel.program.static_shared_bytes
    elif number == _CARVEOUT:
        fits = -1 <= value <= 100
    else:
        fits = 10 <= number <= 17
    fail_if(not fits, ResultCode.INVALID_VALUE)
    kernel.attributes[number] = value


@entry("cuKernelSetAttribute", "i i K (i)")
def kernel_set_attribute(driver: Driver, number: int, value: int, kernel: LoadedKernel) -> None:
    set_attribute(driver, kernel, number, value)


@entry("cuOccupancyMaxActiveBlocksPerMultiprocessor", "*i K i q")
@entry("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "*i K i q (u)")
def max_active_blocks(driver: Driver, kernel: LoadedKernel, threads: int, shared_bytes: int) -> int:
    fail_if(threads < 1, ResultCode.INVALID_VALUE)
    return _blocks_per_sm(driver, kernel, threads, shared_bytes)


@entry("cuOccupancyAvailableDynamicSMemPerBlock", "*p K i i")
def available_dynamic(driver: Driver, kernel: LoadedKernel, blocks: int, threads: int) -> int:
    sm = driver.config.sm
    if blocks < 1 or threads < 1 or _blocks_per_sm(driver, kernel, threads, 0) < blocks:
        raise DriverError(ResultCode.INVALID_VALUE)
    share = sm.shared_bytes // blocks // sm.shared_unit_bytes * sm.shared_unit_bytes - sm.shared_reserved_bytes
    return min(share, sm.shared_bytes_per_block_max) - kernel.program.static_shared_bytes


@entry("cuOccupancyMaxPotentialBlockSize", "*i *i K p q i")
@entry("cuOccupancyMaxPotentialBlockSizeWithFlags", "*i *i K p q i (u)")
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
