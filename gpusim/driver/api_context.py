"""Driver API: primary and other contexts, the stack of contexts of each thread, limits."""

from __future__ import annotations

from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.objects import Context
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver

_LIMITS = {0: 1024, 1: 1 << 20, 2: 8 << 20, 3: 2, 4: 2048, 5: 64, 6: 0, 7: 0}
"""Defaults by number of `CUlimit`: bytes of stack, of printf's buffer, of malloc's heap, and so on."""
_API_VERSION = 3020
_PRIORITIES = 0, -5
"""Least and greatest priority of a stream, as on Hopper."""

entries(
    ("cuDevicePrimaryCtxReset_v2", "D", lambda driver, device: driver.clear(driver.primary)),
    ("cuDevicePrimaryCtxSetFlags_v2", "D u", lambda driver, _, flags: setattr(driver.primary, "flags", flags)),
    (
        "cuDevicePrimaryCtxGetState",
        "D *i *i",
        lambda driver, _: (driver.primary.flags, driver.primary_references > 0),
    ),
    ("cuCtxPushCurrent_v2", "p", lambda driver, handle: driver.stack.append(driver.context_of(handle))),
    ("cuCtxGetFlags", "*i", lambda driver: driver.context().flags),
    ("cuCtxSetFlags 12010", "u", lambda driver, flags: setattr(driver.context(), "flags", flags)),
    ("cuCtxGetId 12000", "C *p", lambda driver, context: context.handle),
    ("cuCtxGetApiVersion", "(p) *i", lambda driver: _API_VERSION),
    anytime=True,
)
entries(
    ("cuCtxGetCacheConfig", "*i", lambda driver: 0),
    ("cuCtxSetCacheConfig", "(i)", nothing),  # a preference, which Hopper's driver may ignore, and this one does
    ("cuCtxGetStreamPriorityRange", "*i *i", lambda driver: _PRIORITIES),
    ("cuCtxResetPersistingL2Cache", "", nothing),  # no line of L2 is kept back
)


@entry("cuDevicePrimaryCtxRetain", "*p D", anytime=True)
def retain(driver: Driver, device: int) -> int:
    driver.primary_references += 1
    return driver.primary.handle


@entry("cuDevicePrimaryCtxRelease_v2", "D", anytime=True)
def release(driver: Driver, device: int) -> None:
    fail_if(driver.primary_references == 0, ResultCode.INVALID_CONTEXT)
    driver.primary_references -= 1
    if driver.primary_references == 0:
        driver.clear(driver.primary)


@entry("cuCtxCreate_v2", "*p u D", since=3020, anytime=True)
@entry("cuCtxCreate_v3", "*p (pi) u D", since=11040, anytime=True)
@entry("cuCtxCreate_v4", "*p (p) u D", since=12050, anytime=True)
def create(driver: Driver, flags: int, device: int) -> int:
    context = Context(flags)
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


@entry("cuCtxPopCurrent_v2", "*p", anytime=True)
def pop(driver: Driver) -> int:
    driver.context()
    return driver.stack.pop().handle


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


@entry("cuCtxGetDevice", "*i", anytime=True)
@entry("cuCtxGetDevice_v2", "*i C", since=13000, anytime=True)
def device_of(driver: Driver, context: Context | None = None) -> int:
    _ = context or driver.context()  # raises if there is none
    return 0


@entry("cuCtxSynchronize")
@entry("cuCtxSynchronize_v2", "C", since=13000)
def synchronize(driver: Driver, context: Context | None = None) -> None:
    driver.wait_for_host_calls((context or driver.context()).streams.values())


@entry("cuCtxGetLimit", "*p i")
def get_limit(driver: Driver, limit: int) -> int:
    fail_if(limit not in _LIMITS, ResultCode.UNSUPPORTED_LIMIT)
    return driver.context().limits.get(limit, _LIMITS[limit])


@entry("cuCtxSetLimit", "i q")
def set_limit(driver: Driver, limit: int, value: int) -> None:
    fail_if(limit not in _LIMITS, ResultCode.UNSUPPORTED_LIMIT)
    driver.context().limits[limit] = value
