"""Driver API: primary and other contexts, the stack of contexts of each thread, limits."""

from __future__ import annotations

from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.objects import HEAP_LIMIT, PRINTF_LIMIT, STACK_LIMIT, Context, DriverGpu
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver
from gpusim.driver.work.launch_attributes import PRIORITIES
from gpusim.host.options import DEFAULT_STACK_BYTES
from gpusim.host.syscalls import HEAP_BYTES

_PERSISTING = 6
_LIMITS = {
    STACK_LIMIT: (DEFAULT_STACK_BYTES, 0, 16, 512 << 10),
    PRINTF_LIMIT: (8650752, 512 << 10, 1, 1 << 40),  # nothing is lost here, however small it is
    HEAP_LIMIT: (HEAP_BYTES, 4 << 20, 1, 1 << 40),
    4: (2048, 32, 1, 1 << 30),  # launches from the device that are pending
    5: (64, 0, 1, 128),  # bytes that L2 fetches
    _PERSISTING: (0, 0, 1, 1 << 30),  # of L2 set aside for persisting accesses: what the device has
}
"""By number of `CUlimit`: the default, the least, the unit, and the most that can be set, as an H200 has them."""
_FIXED = (7, 8)
"""Limits that are told and cannot be set: shared memory, and sharing with graphics."""
_LAST_LIMIT = 9
_API_VERSION = 3020
_MAPS_HOST = 8  # of CUctx_flags: always so

entries(
    ("cuDevicePrimaryCtxReset_v2", "D", lambda driver, gpu: driver.clear(gpu.primary)),
    ("cuDevicePrimaryCtxSetFlags_v2", "D u", lambda driver, gpu, flags: setattr(gpu.primary, "flags", flags)),
    ("cuDevicePrimaryCtxGetState", "D *i *i", lambda driver, gpu: (gpu.primary.flags, gpu.references > 0)),
    ("cuCtxPushCurrent_v2", "p", lambda driver, handle: driver.stack.append(driver.context_of(handle))),
    ("cuCtxPopCurrent_v2", "*p", lambda driver: driver.context() and driver.stack.pop().handle),
    ("cuCtxGetDevice", "*i", lambda driver: driver.context().gpu.ordinal),
    ("cuCtxGetDevice_v2 13000", "*i C", lambda driver, context: context.gpu.ordinal),
    ("cuCtxGetFlags", "*i", lambda driver: driver.context().flags | _MAPS_HOST),
    ("cuCtxSetFlags 12010", "u", lambda driver, flags: setattr(driver.context(), "flags", flags)),
    ("cuCtxGetId 12000", "C *p", lambda driver, context: context.handle),
    ("cuCtxGetApiVersion", "(p) *i", lambda driver: _API_VERSION),
    anytime=True,
)
entries(
    ("cuCtxGetCacheConfig", "*i", lambda driver: 0),
    ("cuCtxGetSharedMemConfig", "*i", lambda driver: 1),
    ("cuCtxSetCacheConfig", "(i)", nothing),  # a preference, which Hopper's driver may ignore, and this one does
    ("cuCtxSetSharedMemConfig", "(i)", nothing),  # banks of four bytes
    ("cuFlushGPUDirectRDMAWrites", "(ii)", nothing),
    ("cuCtxGetStreamPriorityRange", "*i *i", lambda driver: PRIORITIES),
    ("cuCtxResetPersistingL2Cache", "", lambda driver: driver.device.reset_persisting()),
)


@entry("cuDevicePrimaryCtxRetain", "*p D", anytime=True)
def retain(driver: Driver, gpu: DriverGpu) -> int:
    gpu.references += 1
    return gpu.primary.handle


@entry("cuDevicePrimaryCtxRelease_v2", "D", anytime=True)
def release(driver: Driver, gpu: DriverGpu) -> None:
    fail_if(gpu.references == 0, ResultCode.INVALID_CONTEXT)
    gpu.references -= 1
    if gpu.references == 0:
        driver.clear(gpu.primary)


@entry("cuCtxCreate_v2 3020", "*p u D", anytime=True)
@entry("cuCtxCreate_v3 11040", "*p (pi) u D", anytime=True)
@entry("cuCtxCreate_v4 12050", "*p (p) u D", anytime=True)
def create(driver: Driver, flags: int, gpu: DriverGpu) -> int:
    context = Context(gpu, flags)
    driver.others[context.handle] = context
    driver.stack.append(context)
    return context.handle


@entry("cuCtxDestroy_v2", "p", anytime=True)
def destroy(driver: Driver, handle: int) -> None:
    context = known(driver.others.get(handle), ResultCode.INVALID_CONTEXT)
    driver.clear(context)
    del driver.others[handle]
    if driver.stack and driver.stack[-1] is context:
        driver.stack.pop()


@entry("cuCtxSetCurrent", "p", anytime=True)
def set_current(driver: Driver, handle: int) -> None:
    context = driver.context_of(handle) if handle else None
    if driver.stack:
        driver.stack.pop()
    if context is not None:
        driver.stack.append(context)


@entry("cuCtxGetCurrent", "*p", anytime=True)
def current(driver: Driver) -> int:
    fail_if(not driver.initialized, ResultCode.NOT_INITIALIZED)
    return driver.stack[-1].handle if driver.stack else 0


@entry("cuCtxSynchronize")
@entry("cuCtxSynchronize_v2 13000", "C")
def synchronize(driver: Driver, context: Context | None = None) -> None:
    driver.not_in_captures(relaxed=True)
    if context is not None:
        driver.wait_for_all(context.gpu)
    driver.trim_pools()


@entry("cuCtxGetLimit", "*p i")
def get_limit(driver: Driver, limit: int) -> int:
    fail_if(not 0 <= limit <= _LAST_LIMIT, ResultCode.INVALID_VALUE)
    if limit in _FIXED:
        return driver.config.sm.shared_bytes_per_block_max if limit == _FIXED[0] else 0
    default, *_ = known(_LIMITS.get(limit), ResultCode.UNSUPPORTED_LIMIT)
    if limit == _PERSISTING:
        default = round(driver.config.l2.persisting_start_share * driver.config.l2.bytes)
    return driver.context().limits.get(limit, default)


@entry("cuCtxSetLimit", "i q")
def set_limit(driver: Driver, limit: int, value: int) -> None:
    driver.not_in_captures()
    fail_if(not 0 <= limit <= _LAST_LIMIT, ResultCode.INVALID_VALUE)
    fail_if(limit in _FIXED, ResultCode.NOT_PERMITTED)
    _, least, unit, most = known(_LIMITS.get(limit), ResultCode.UNSUPPORTED_LIMIT)
    fail_if(value > most, ResultCode.INVALID_VALUE)
    if limit == _PERSISTING:
        fail_if(value > driver.config.l2.persisting_max_bytes, ResultCode.INVALID_VALUE)
        value = driver.device.set_aside_l2(value)
    value = max(least, -(-value // unit) * unit)
    # A kernel that has printed or allocated has settled the size of what it did that in.
    asked = {PRINTF_LIMIT: "vprintf", HEAP_LIMIT: "malloc"}.get(limit)
    fail_if(asked in driver.device.calls.made, ResultCode.INVALID_VALUE)
    if limit == HEAP_LIMIT:
        driver.device.calls.heap_bytes = value
    driver.context().limits[limit] = value
