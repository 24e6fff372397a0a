"""Runtime API: devices, errors, versions, and what it makes streams and events with."""

from __future__ import annotations

from gpusim.driver.api import stream as api_stream
from gpusim.driver.api.device import proc_address_with_status as _proc_address
from gpusim.driver.caller import caller, constant_text
from gpusim.driver.codes import DriverError, ResultCode, code_texts, fail_if
from gpusim.driver.libraries.runtime.properties import device_properties
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import DEVICE_COUNT, Driver

_VERSIONS = {12: 12090, 13: 13000}
"""CUDA versions of the runtime's interface, by library."""
_CUDA_11_BYTES = 712
"""Bytes of `cudaDeviceProp` before CUDA 12, which are the first of the later one."""
_UNKNOWN = "unrecognized error code"
_DEVICE_FLAGS = 0x3F  # cudaDeviceMask, without cudaDeviceMapHost's history

entries(
    ("cudaGetDeviceCount", "*i", lambda driver: driver.check_device(0) or DEVICE_COUNT),
    ("cudaGetDevice", "*i", lambda driver: 0),
    ("cudaSetDevice", "D", lambda driver, _: driver.begin_runtime_call(anytime=False)),
    ("cudaInitDevice", "D (uu)", nothing),
    ("cudaChooseDevice", "*i (p)", lambda driver: 0),
    ("cudaSetValidDevices", "(pi)", nothing),
    ("cudaGetDeviceFlags", "*i", lambda driver: driver.primary.flags),
    ("cudaRuntimeGetVersion", "*i", lambda driver: _VERSIONS[13]),
    ("cudaRuntimeGetVersion@12", "*i", lambda driver: _VERSIONS[12]),
    ("cudaDeviceGetSharedMemConfig", "*i", lambda driver: 1),  # banks of four bytes
    ("cudaDeviceSetSharedMemConfig", "(i)", nothing),
    ("cudaDeviceGetTexture1DLinearMaxWidth", "*p (p) D", lambda driver, _: 1 << 30),
    ("cudaDeviceReset cudaThreadExit", "", lambda driver: driver.clear(driver.primary)),
    ("cudaGetDeviceProperties", "p D", lambda driver, place, _: _put_properties(driver, place, 13)),
    ("cudaGetDeviceProperties_v2", "p D", lambda driver, place, _: _put_properties(driver, place, 12)),
    ("cudaGetDeviceProperties@12", "p D", lambda driver, place, _: _put_properties(driver, place, 12, _CUDA_11_BYTES)),
    anytime=True,
)
entries(
    ("cudaGetErrorName", "&i", lambda driver, code: _error_text(code, "runtime")),
    ("cudaGetErrorString", "&i", lambda driver, code: _error_text(code, "meaning")),
    (
        "cudaGetDriverEntryPoint",
        *("T p q p", lambda driver, name, at, *how: _proc_address(driver, name, at, _VERSIONS[13], *how)),
    ),
    ("cudaGetDriverEntryPointByVersion", "T p u q p", _proc_address),
    ("cudaPeekAtLastError", "=", lambda driver: _last_error(driver)),
    anytime=True,
)
entries(
    ("cudaStreamCreate", "*p", lambda driver: api_stream.create(driver, 0)),
    ("cudaEventCreate", "*p", lambda driver: api_stream.event_create(driver, 0)),
)


def _put_properties(driver: Driver, place: int, version: int, room: int | None = None) -> None:
    fail_if(not place, ResultCode.INVALID_VALUE)
    caller().write(place, device_properties(driver.config, version)[:room])


def _error_text(code: int, attribute: str) -> int:
    found = code_texts().get(code)
    return constant_text(getattr(found, attribute) if found and found.runtime != "-" else _UNKNOWN)


def _last_error(driver: Driver) -> int:
    """The calling thread's last error, or that of a kernel, after which nothing works any more."""
    return int(code if (code := driver.primary.failed) and code != ResultCode.UNKNOWN else driver.thread.last_error)


@entry("cudaGetLastError", "=", anytime=True)
def get_last_error(driver: Driver) -> int:
    found = _last_error(driver)
    driver.thread.last_error = ResultCode.SUCCESS
    return found


@entry("cudaSetDeviceFlags", "u", anytime=True)
def set_device_flags(driver: Driver, flags: int) -> None:
    fail_if(flags & ~_DEVICE_FLAGS, ResultCode.INVALID_VALUE)
    driver.primary.flags = flags


# --- other devices ----------------------------------------------------------------------------------------------------


@entry("cudaDeviceEnablePeerAccess", "D u")
@entry("cudaDeviceDisablePeerAccess", "D")
def no_peer(driver: Driver, device: int, flags: int = 0) -> None:
    """A device is no peer of itself, and there is no other."""
    raise DriverError(ResultCode.INVALID_VALUE if flags else ResultCode.INVALID_DEVICE)
