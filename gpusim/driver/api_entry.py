"""Driver API: initialization, versions, error texts, entry points, profiler control."""

from __future__ import annotations

from gpusim.driver.attributes import DRIVER_VERSION
from gpusim.driver.caller import constant_text, put_int, put_pointer
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.driver.registry import entries, entry, find, nothing
from gpusim.driver.state import Driver

_FOUND, _SYMBOL_NOT_FOUND = 0, 1  # CUdriverProcAddressQueryResult

entries(
    ("cuDriverGetVersion", "*i", lambda driver: DRIVER_VERSION),
    ("cuGetErrorName", "i p", lambda driver, code, text: _error_text(code, text, "symbol")),
    ("cuGetErrorString", "i p", lambda driver, code, text: _error_text(code, text, "meaning")),
    anytime=True,
)
entries(("cuProfilerStart", "", nothing), ("cuProfilerStop", "", nothing))


@entry("cuInit", "u", anytime=True)
def initialize(driver: Driver, flags: int) -> None:
    fail_if(flags, ResultCode.INVALID_VALUE)
    fail_if(driver.left_to_parent, ResultCode.NOT_INITIALIZED)
    driver.initialized = True


_NOT_OURS = (
    "a CUDA runtime of the vendor's, such as the static one that nvcc links by default, works with the vendor's driver "
    "alone: link the program with nvcc --cudart shared"
)


@entry("cuGetExportTable", "(pp)", anytime=True)
def export_table(driver: Driver) -> None:
    """Tables that no document describes, by which the vendor's runtime knows the vendor's driver: there are none here,
    so that runtime gives all its callers an error."""
    said, driver.told_of_runtime = driver.told_of_runtime, True
    raise DriverError(ResultCode.NOT_SUPPORTED, "" if said else _NOT_OURS)


def _error_text(code: int, text: int, attribute: str) -> None:
    put_pointer(text, 0)
    found = known(next((each for each in ResultCode if each == code), None), ResultCode.INVALID_VALUE)
    put_pointer(text, constant_text(getattr(found, attribute)))


@entry("cuGetProcAddress", "T p i (q)", since=11030, anytime=True)
@entry("cuGetProcAddress_v2", "T p i (q) p", since=12000, anytime=True)
def proc_address(driver: Driver, name: str, function: int, version: int, status: int = 0) -> None:
    found = find(name, version)
    address = driver.address_of(found.symbol if found else name) or driver.address_of(f"{name}_v2")
    put_pointer(function, address or 0)
    put_int(status, _FOUND if address else _SYMBOL_NOT_FOUND)
    fail_if(not address and not status, ResultCode.NOT_FOUND)
