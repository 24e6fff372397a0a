"""Driver API: initialization, versions, error texts, entry points, profiler control."""

from __future__ import annotations

import ctypes

from gpusim.driver.attributes import DRIVER_VERSION
from gpusim.driver.codes import Code, DriverError
from gpusim.driver.registry import find, function, get_text, put_int, put_pointer
from gpusim.driver.state import Driver

_FOUND, _SYMBOL_NOT_FOUND = 0, 1  # CUdriverProcAddressQueryResult
_texts: dict[str, ctypes.Array] = {}


@function("cuInit", "u", anytime=True)
def initialize(driver: Driver, flags: int) -> None:
    if flags:
        raise DriverError(Code.INVALID_VALUE)
    if driver.left_to_parent:
        raise DriverError(Code.NOT_INITIALIZED)
    driver.initialized = True


@function("cuDriverGetVersion", "p", anytime=True)
def driver_version(driver: Driver, version: int) -> None:
    put_int(version, DRIVER_VERSION)


@function("cuGetErrorName", "ip", anytime=True)
def error_name(driver: Driver, code: int, text: int) -> None:
    _put_constant_text(code, text, "symbol")


@function("cuGetErrorString", "ip", anytime=True)
def error_text(driver: Driver, code: int, text: int) -> None:
    _put_constant_text(code, text, "meaning")


def _put_constant_text(code: int, text: int, attribute: str) -> None:
    """A text that stays where it is as long as the process lives."""
    try:
        content = getattr(Code(code), attribute)
    except ValueError:
        put_pointer(text, 0)
        raise DriverError(Code.INVALID_VALUE) from None
    kept = _texts.setdefault(content, ctypes.create_string_buffer(content.encode()))
    put_pointer(text, ctypes.addressof(kept))


@function("cuGetProcAddress_v2", "ppiqp", since=12000, anytime=True)
def proc_address_with_status(
    driver: Driver, symbol: int, function_pointer: int, version: int, flags: int, status: int
) -> None:
    from gpusim.driver.hook import library

    name = get_text(symbol)
    found = find(name, version)
    loaded = library()
    address = loaded.address(found.symbol if found else name) or loaded.address(f"{name}_v2")
    put_pointer(function_pointer, address or 0)
    put_int(status, _FOUND if address else _SYMBOL_NOT_FOUND)
    if not address and not status:
        raise DriverError(Code.NOT_FOUND)


@function("cuGetProcAddress", "ppiq", since=11030, anytime=True)
def proc_address(driver: Driver, symbol: int, function_pointer: int, version: int, flags: int) -> None:
    proc_address_with_status(driver, symbol, function_pointer, version, flags, 0)


@function("cuProfilerStart")
def profiler_start(driver: Driver) -> None:
    driver.log.profiling = True


@function("cuProfilerStop")
def profiler_stop(driver: Driver) -> None:
    driver.log.profiling = False
