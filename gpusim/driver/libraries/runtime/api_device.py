"""Runtime API: devices, errors, versions, and what it makes streams and events with."""

from __future__ import annotations

from gpusim.driver.api import device as api_device
from gpusim.driver.api import stream as api_stream
from gpusim.driver.api.device import proc_address_with_status as _proc_address
from gpusim.driver.caller import caller, constant_text
from gpusim.driver.codes import ResultCode, code_texts, fail_if
from gpusim.driver.libraries.runtime.properties import device_properties
from gpusim.driver.objects import DriverGpu
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver

_VERSIONS = {12: 12090, 13: 13000}
"""CUDA versions of the runtime's interface, by library."""
_CUDA_11_BYTES = 712
"""Bytes of `cudaDeviceProp` before CUDA 12, which are the first of the later one."""
_UNKNOWN = "unrecognized error code"
_DEVICE_FLAGS = 0x3F  # cudaDeviceMask, without cudaDeviceMapHost's history

entries(
    ("cudaGetDeviceCount", "*i", lambda driver: driver.gpu_of(0) and len(driver.visible)),
    ("cudaGetDevice", "*i", lambda driver: driver.gpu.ordinal),
    ("cudaSetDevice", "D", Driver.use),
    ("cudaInitDevice", "D (uu)", nothing),
    ("cudaChooseDevice", "*i (p)", lambda driver: 0),
    ("cudaSetValidDevices", "(pi)", nothing),
    ("cudaGetDeviceFlags", "*i", lambda driver: driver.gpu.primary.flags),
    ("cudaRuntimeGetVersion", "*i", lambda driver: _VERSIONS[13]),
    ("cudaRuntimeGetVersion@12", "*i", lambda driver: _VERSIONS[12]),
    ("cudaDeviceGetSharedMemConfig", "*i", lambda driver: 1),  # banks of four bytes
    ("cudaDeviceSetSharedMemConfig", "(i)", nothing),
    ("cudaDeviceGetTexture1DLinearMaxWidth", "*p (p) D", lambda driver, _: 1 << 30),
    ("cudaDeviceReset cudaThreadExit", "", lambda driver: driver.clear(driver.gpu.primary)),
    ("cudaGetDeviceProperties", "p D", lambda driver, place, gpu: _put_properties(driver, 13, place, gpu)),
    ("cudaGetDeviceProperties_v2", "p D", lambda driver, place, gpu: _put_properties(driver, 12, place, gpu)),
    ("cudaGetDeviceProperties@12", "p D", lambda *of: _put_properties(of[0], 12, *of[1:], room=_CUDA_11_BYTES)),
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


def _put_properties(driver: Driver, version: int, place: int, gpu: DriverGpu, room: int | None = None) -> None:
    fail_if(not place, ResultCode.INVALID_VALUE)
    caller().write(place, device_properties(driver.config, version, gpu.number, driver.is_shared)[:room])


def _error_text(code: int, attribute: str) -> int:
    found = code_texts().get(code)
    return constant_text(getattr(found, attribute) if found and found.runtime != "-" else _UNKNOWN)


def _last_error(driver: Driver) -> int:
    """The calling thread's last error, or that of a kernel, after which nothing works any more."""
    return int(code if (code := driver.gpu.primary.failed) and code != ResultCode.UNKNOWN else driver.thread.last_error)


@entry("cudaGetLastError", "=", anytime=True)
def get_last_error(driver: Driver) -> int:
    found = _last_error(driver)
    driver.thread.last_error = ResultCode.SUCCESS
    return found


@entry("cudaSetDeviceFlags", "u", anytime=True)
def set_device_flags(driver: Driver, flags: int) -> None:
    fail_if(flags & ~_DEVICE_FLAGS, ResultCode.INVALID_VALUE)
    driver.gpu.primary.flags = flags


# --- other devices ----------------------------------------------------------------------------------------------------


@entry("cudaDeviceEnablePeerAccess", "D u")
def enable_peer(driver: Driver, peer: DriverGpu, flags: int) -> None:
    fail_if(peer is driver.gpu, ResultCode.INVALID_DEVICE)
    api_device.enable_peer(driver, peer.primary.handle, flags)


@entry("cudaDeviceDisablePeerAccess", "D")
def disable_peer(driver: Driver, peer: DriverGpu) -> None:
    fail_if(peer is driver.gpu, ResultCode.INVALID_DEVICE)
    api_device.disable_peer(driver, peer.primary.handle)
