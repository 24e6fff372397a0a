"""Driver API: initialization, versions, error texts, entry points, profiler control; devices and who reaches whom."""

from __future__ import annotations

from gpusim.driver import attributes as A
from gpusim.driver.attributes import DRIVER_VERSION
from gpusim.driver.caller import caller, constant_text, put_int, put_pointer, put_text
from gpusim.driver.codes import DriverError, ResultCode, code_texts, fail_if, known
from gpusim.driver.objects import DriverGpu
from gpusim.driver.registry import entries, entry, find, nothing
from gpusim.driver.state import Driver

_FOUND, _NOT_FOUND, _TOO_OLD = 0, 1, 2  # CUdriverProcAddressQueryResult
_OF_PROCESS, _OF_THREAD = 1, 2  # CUdriverProcAddress_flags: whose stream 0 is

entries(
    ("cuDriverGetVersion", "*i", lambda driver: DRIVER_VERSION),
    ("cuGetErrorName", "i p", lambda driver, code, place: _error_text(code, place, "driver")),
    ("cuGetErrorString", "i p", lambda driver, code, place: _error_text(code, place, "meaning")),
    ("cuDeviceGetCount", "*i", lambda driver: driver.gpu_of(0) and len(driver.visible)),
    ("cuDeviceGet", "*i D", lambda driver, gpu: gpu.ordinal),
    ("cuDeviceGetName", "p i D", lambda driver, text, room, _: put_text(text, room, driver.config.gpu.name)),
    ("cuDeviceGetUuid_v2", "p D", lambda driver, content, gpu: caller().write(content, A.uuid(gpu.number))),
    ("cuDeviceTotalMem_v2", "*p D", lambda driver, _: driver.config.dram.capacity_bytes),
    ("cuDeviceComputeCapability", "*i *i D", lambda driver, _: A.compute_capability(driver.config)),
    ("cuDeviceGetPCIBusId", "p i D", lambda driver, text, room, gpu: put_text(text, room, A.pci_bus_id(gpu.number))),
    ("cuDeviceCanAccessPeer", "*i D D", Driver.reaches),
    ("cuDeviceGetExecAffinitySupport", "*i (i) D", lambda driver, _: 0),
    ("cuDeviceGetTexture1DLinearMaxWidth", "*p (i) (u) D", lambda driver, _: 1 << 30),
    anytime=True,
)


@entry("cuInit", "u", anytime=True)
def initialize(driver: Driver, flags: int) -> None:
    fail_if(flags, ResultCode.INVALID_VALUE)
    driver.begin_runtime_call(anytime=True)
    driver.gpu_of(0)


@entry("cuGetExportTable", "(pp)", anytime=True)
def export_table(driver: Driver) -> None:
    """Tables that no document describes, by which the vendor's runtime knows the vendor's driver: there are none here,
    so that runtime gives all its callers an error."""
    driver.runtime_refused = True
    raise DriverError(ResultCode.NOT_SUPPORTED)


def _error_text(code: int, place: int, attribute: str) -> None:
    put_pointer(place, 0)
    found = code_texts().get(code)
    fail_if(found is None or found.driver == "-", ResultCode.INVALID_VALUE)
    put_pointer(place, constant_text(getattr(found, attribute)))


@entry("cuGetProcAddress 11030", "T p i q", anytime=True)
def proc_address(driver: Driver, name: str, function: int, version: int, flags: int) -> None:
    address = _address(driver, name, version, flags)[0]
    fail_if(not address, ResultCode.NOT_FOUND)
    put_pointer(function, address)


@entry("cuGetProcAddress_v2 12000", "T p i q p", anytime=True)
def proc_address_with_status(driver: Driver, name: str, function: int, version: int, flags: int, status: int) -> None:
    """Write a function's address and status; a missing one is 0, and an error only where no status is wanted."""
    address, found = _address(driver, name, version, flags)
    put_pointer(function, address)
    put_int(status, found)
    fail_if(not address and not status, ResultCode.NOT_FOUND)


def _address(driver: Driver, name: str, version: int, flags: int) -> tuple[int, int]:
    """Return where the variant of a function for a CUDA version is, and how the search ended. Raises INVALID_VALUE."""
    fail_if(flags & ~(_OF_PROCESS | _OF_THREAD) or version > DRIVER_VERSION, ResultCode.INVALID_VALUE)
    found = find(name, version)
    if found is None and find(name, DRIVER_VERSION) is not None:
        return 0, _TOO_OLD
    of_thread = flags & _OF_THREAD or (driver.thread.has_own_default and not flags & _OF_PROCESS)
    names = [found.symbol if found else name, f"{name}_v2"]
    tried = [f"{each}_pt{of}" for each in names for of in ("sz", "ds") if of_thread] + names
    address = next(filter(None, map(driver.address_of, tried)), 0)
    return address, _FOUND if address else _NOT_FOUND


# --- devices ----------------------------------------------------------------------------------------------------------


@entry("cuDeviceGetAttribute", "*i i D", anytime=True)
def attribute(driver: Driver, number: int, gpu: DriverGpu) -> int:
    fail_if(not 1 <= number <= A.LAST_ATTRIBUTE, ResultCode.INVALID_VALUE)
    return A.device_attributes(driver.config, gpu.number, driver.is_shared).get(number, 0)


@entry("cuDeviceGetByPCIBusId", "*i T", anytime=True)
def by_pci_bus_id(driver: Driver, text: str) -> int:
    driver.gpu_of(0)
    places = {A.pci_bus_id(gpu.number): gpu.ordinal for gpu in driver.visible}
    return known(places.get(f"0000:{text.lower()}"[-len(A.pci_bus_id(0)) :]), ResultCode.INVALID_DEVICE)


# --- other devices ----------------------------------------------------------------------------------------------------


@entry("cuDeviceGetP2PAttribute", "*i i D D", anytime=True)
def peer_attribute(driver: Driver, number: int, gpu: DriverGpu, peer: DriverGpu) -> int:
    """A device is no peer of itself."""
    fail_if(gpu is peer, ResultCode.INVALID_DEVICE)
    return known(P2P_ATTRIBUTES.get(number), ResultCode.INVALID_VALUE) and int(driver.reaches(gpu, peer))


P2P_ATTRIBUTES = {1: 0, 2: 1, 3: 1, 4: 0}
"""By `CUdevice_P2PAttribute`, of those that reach each other: rank, access, atomics, arrays."""


@entry("cuCtxEnablePeerAccess", "p u")
def enable_peer(driver: Driver, handle: int, flags: int) -> None:
    fail_if(flags, ResultCode.INVALID_VALUE)
    peer = driver.context_of(handle)
    fail_if(not driver.reaches(driver.gpu, peer.gpu), ResultCode.PEER_ACCESS_UNSUPPORTED)
    fail_if(peer.gpu in driver.gpu.reached, ResultCode.PEER_ACCESS_ALREADY_ENABLED)
    driver.reach(peer.gpu)


@entry("cuCtxDisablePeerAccess", "p")
def disable_peer(driver: Driver, handle: int) -> None:
    peer = driver.context_of(handle)
    fail_if(peer.gpu not in driver.gpu.reached, ResultCode.PEER_ACCESS_NOT_ENABLED)
    driver.reach(peer.gpu, False)


entries(("cuProfilerStart cuProfilerStop", "", nothing))
