"""Driver API: primary and other contexts, the stack of contexts of each thread, limits."""

from __future__ import annotations

from gpusim.driver.api_device import check_device
from gpusim.driver.codes import Code, DriverError
from gpusim.driver.registry import function, put_int, put_pointer, put_size
from gpusim.driver.state import Context, Driver

_LIMITS = {0: 1024, 1: 1 << 20, 2: 8 << 20, 3: 2, 4: 2048, 5: 64, 6: 0, 7: 0}
"""Defaults by number of `CUlimit`: bytes of stack, of printf's buffer, of malloc's heap, and so on."""
_API_VERSION = 3020
_PRIORITIES = 0, -5
"""Least and greatest priority of a stream, as on Hopper."""


def _primary(driver: Driver, device: int) -> Context:
    if not driver.initialized:
        raise DriverError(Code.NOT_INITIALIZED)
    check_device(device)
    return driver.primary


@function("cuDevicePrimaryCtxRetain", "pi", anytime=True)
def retain(driver: Driver, context: int, device: int) -> None:
    put_pointer(context, _primary(driver, device).handle)
    driver.primary_references += 1


@function("cuDevicePrimaryCtxRelease_v2", "i", anytime=True)
def release(driver: Driver, device: int) -> None:
    primary = _primary(driver, device)
    if driver.primary_references == 0:
        raise DriverError(Code.INVALID_CONTEXT)
    driver.primary_references -= 1
    if driver.primary_references == 0:
        driver.clear(primary)


@function("cuDevicePrimaryCtxReset_v2", "i", anytime=True)
def reset(driver: Driver, device: int) -> None:
    driver.clear(_primary(driver, device))


@function("cuDevicePrimaryCtxSetFlags_v2", "iu", anytime=True)
def set_primary_flags(driver: Driver, device: int, flags: int) -> None:
    _primary(driver, device).flags = flags


@function("cuDevicePrimaryCtxGetState", "ipp", anytime=True)
def primary_state(driver: Driver, device: int, flags: int, active: int) -> None:
    put_int(flags, _primary(driver, device).flags)
    put_int(active, int(driver.primary_references > 0))


@function("cuCtxCreate_v2", "pui", since=3020, anytime=True)
def create(driver: Driver, context: int, flags: int, device: int) -> None:
    _primary(driver, device)
    put_pointer(context, driver.create_context(flags).handle)


@function("cuCtxCreate_v3", "ppiui", since=11040, anytime=True)
def create_with_affinity(
    driver: Driver, context: int, affinity: int, count: int, flags: int, device: int
) -> None:
    create(driver, context, flags, device)


@function("cuCtxCreate_v4", "ppui", since=12050, anytime=True)
def create_with_parameters(driver: Driver, context: int, parameters: int, flags: int, device: int) -> None:
    create(driver, context, flags, device)


@function("cuCtxDestroy_v2", "p", anytime=True)
def destroy(driver: Driver, handle: int) -> None:
    context = driver.others.get(handle)
    if context is None:
        raise DriverError(Code.INVALID_CONTEXT)
    driver.clear(context)
    del driver.others[handle]
    if driver.stack and driver.stack[-1] is context:
        driver.stack.pop()


@function("cuCtxPushCurrent_v2", "p", anytime=True)
def push(driver: Driver, handle: int) -> None:
    driver.stack.append(driver.context_of(handle))


@function("cuCtxPopCurrent_v2", "p", anytime=True)
def pop(driver: Driver, handle: int) -> None:
    context = driver.context()
    driver.stack.pop()
    put_pointer(handle, context.handle)


@function("cuCtxSetCurrent", "p", anytime=True)
def set_current(driver: Driver, handle: int) -> None:
    context = driver.context_of(handle) if handle else None
    if driver.stack:
        driver.stack.pop()
    if context is not None:
        driver.stack.append(context)


@function("cuCtxGetCurrent", "p", anytime=True)
def current(driver: Driver, handle: int) -> None:
    if not driver.initialized:
        raise DriverError(Code.NOT_INITIALIZED)
    put_pointer(handle, driver.stack[-1].handle if driver.stack else 0)


@function("cuCtxGetDevice", "p", anytime=True)
def device(driver: Driver, number: int) -> None:
    driver.context()
    put_int(number, 0)


@function("cuCtxGetDevice_v2", "pp", since=13000, anytime=True)
def device_of(driver: Driver, number: int, handle: int) -> None:
    if handle:
        driver.context_of(handle)
    else:
        driver.context()
    put_int(number, 0)


@function("cuCtxGetFlags", "p", anytime=True)
def get_flags(driver: Driver, flags: int) -> None:
    put_int(flags, driver.context().flags)


@function("cuCtxSetFlags", "u", since=12010, anytime=True)
def set_flags(driver: Driver, flags: int) -> None:
    driver.context().flags = flags


@function("cuCtxGetId", "pp", since=12000, anytime=True)
def identifier(driver: Driver, handle: int, number: int) -> None:
    put_size(number, (driver.context_of(handle) if handle else driver.context()).handle)


@function("cuCtxGetApiVersion", "pp", anytime=True)
def api_version(driver: Driver, handle: int, version: int) -> None:
    put_int(version, _API_VERSION)


@function("cuCtxSynchronize")
def synchronize(driver: Driver) -> None:
    driver.wait_for_host_calls(list(driver.context().streams.values()))


@function("cuCtxSynchronize_v2", "p", since=13000)
def synchronize_context(driver: Driver, handle: int) -> None:
    context = driver.context_of(handle) if handle else driver.context()
    driver.wait_for_host_calls(list(context.streams.values()))


@function("cuCtxGetLimit", "pi")
def get_limit(driver: Driver, value: int, limit: int) -> None:
    if limit not in _LIMITS:
        raise DriverError(Code.UNSUPPORTED_LIMIT)
    put_size(value, driver.context().limits.get(limit, _LIMITS[limit]))


@function("cuCtxSetLimit", "iq")
def set_limit(driver: Driver, limit: int, value: int) -> None:
    if limit not in _LIMITS:
        raise DriverError(Code.UNSUPPORTED_LIMIT)
    driver.context().limits[limit] = value


@function("cuCtxGetCacheConfig", "p")
def get_cache_config(driver: Driver, config: int) -> None:
    put_int(config, 0)


@function("cuCtxSetCacheConfig", "i")
def set_cache_config(driver: Driver, config: int) -> None:
    """A preference, which Hopper's driver may ignore, and this one does."""


@function("cuCtxGetStreamPriorityRange", "pp")
def priority_range(driver: Driver, least: int, greatest: int) -> None:
    put_int(least, _PRIORITIES[0])
    put_int(greatest, _PRIORITIES[1])


@function("cuCtxResetPersistingL2Cache")
def reset_persisting(driver: Driver) -> None:
    """No line of L2 is kept back: there is nothing to reset."""
