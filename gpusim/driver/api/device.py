"""Driver API: devices, of which there is one."""

from __future__ import annotations

from gpusim.driver import attributes as A
from gpusim.driver.caller import caller, put_text
from gpusim.driver.codes import DriverError, ResultCode, fail_if
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import DEVICE_COUNT, Driver

entries(
    ("cuDeviceGet", "*i D", lambda driver, ordinal: ordinal),
    ("cuDeviceGetName", "p i D", lambda driver, text, room, _: put_text(text, room, driver.config.gpu.name)),
    ("cuDeviceGetUuid_v2", "p D", lambda driver, content, _: caller().write(content, A.UUID)),
    ("cuDeviceTotalMem_v2", "*p D", lambda driver, _: driver.config.dram.capacity_bytes),
    ("cuDeviceComputeCapability", "*i *i D", lambda driver, _: A.compute_capability(driver.config)),
    ("cuDeviceGetPCIBusId", "p i D", lambda driver, text, room, _: put_text(text, room, A.PCI_BUS_ID)),
    ("cuDeviceCanAccessPeer", "*i D D", lambda driver, device, peer: 0),
    ("cuDeviceGetExecAffinitySupport", "*i (i) D", lambda driver, _: 0),
    ("cuDeviceGetTexture1DLinearMaxWidth", "*p (i) (u) D", lambda driver, _: 1 << 30),
    anytime=True,
)


@entry("cuDeviceGetCount", "*i", anytime=True)
def count(driver: Driver) -> int:
    driver.check_device(0)
    return DEVICE_COUNT


@entry("cuDeviceGetAttribute", "*i i D", anytime=True)
def attribute(driver: Driver, number: int, device: int) -> int:
    fail_if(not 1 <= number <= A.LAST_ATTRIBUTE, ResultCode.INVALID_VALUE)
    return A.device_attributes(driver.config).get(number, 0)


@entry("cuDeviceGetByPCIBusId", "*i T", anytime=True)
def by_pci_bus_id(driver: Driver, text: str) -> int:
    driver.check_device(0)
    fail_if(text.lower() not in (A.PCI_BUS_ID, A.PCI_BUS_ID.removeprefix("0000:")), ResultCode.INVALID_DEVICE)
    return 0


# --- other devices ----------------------------------------------------------------------------------------------------


@entry("cuDeviceGetP2PAttribute", "*i (i) D D", anytime=True)
def peer_attribute(driver: Driver, device: int, peer: int) -> int:
    """A device is no peer of itself."""
    raise DriverError(ResultCode.INVALID_DEVICE)


@entry("cuCtxEnablePeerAccess", "p u")
def enable(driver: Driver, handle: int, flags: int) -> None:
    fail_if(flags, ResultCode.INVALID_VALUE)
    driver.context_of(handle)
    raise DriverError(ResultCode.PEER_ACCESS_UNSUPPORTED)


@entry("cuCtxDisablePeerAccess", "p")
def disable(driver: Driver, handle: int) -> None:
    driver.context_of(handle)
    raise DriverError(ResultCode.PEER_ACCESS_NOT_ENABLED)
