"""Driver API: devices."""

from __future__ import annotations

import ctypes

from gpusim.driver import attributes as A
from gpusim.driver.codes import Code, DriverError
from gpusim.driver.registry import function, get_text, put_int, put_size, put_text
from gpusim.driver.state import DEVICE_COUNT, Driver


def check_device(device: int) -> None:
    """Raises INVALID_DEVICE for a device that is not there."""
    if not 0 <= device < DEVICE_COUNT:
        raise DriverError(Code.INVALID_DEVICE)


def _ready(driver: Driver, device: int = 0) -> None:
    if not driver.initialized:
        raise DriverError(Code.NOT_INITIALIZED)
    check_device(device)


@function("cuDeviceGet", "pi", anytime=True)
def get(driver: Driver, device: int, ordinal: int) -> None:
    _ready(driver, ordinal)
    put_int(device, ordinal)


@function("cuDeviceGetCount", "p", anytime=True)
def count(driver: Driver, number: int) -> None:
    _ready(driver)
    put_int(number, DEVICE_COUNT)


@function("cuDeviceGetName", "pii", anytime=True)
def name(driver: Driver, text: int, room: int, device: int) -> None:
    _ready(driver, device)
    put_text(text, room, driver.config.gpu.name)


@function("cuDeviceGetUuid_v2", "pi", anytime=True)
def uuid(driver: Driver, content: int, device: int) -> None:
    _ready(driver, device)
    ctypes.memmove(content, A.UUID, len(A.UUID))


@function("cuDeviceTotalMem_v2", "pi", anytime=True)
def total_memory(driver: Driver, nbytes: int, device: int) -> None:
    _ready(driver, device)
    put_size(nbytes, A.total_memory_bytes(driver.config))


@function("cuDeviceGetAttribute", "pii", anytime=True)
def attribute(driver: Driver, value: int, number: int, device: int) -> None:
    _ready(driver, device)
    if number < 1:
        raise DriverError(Code.INVALID_VALUE)
    put_int(value, A.device_attributes(driver.config).get(number, 0))


@function("cuDeviceComputeCapability", "ppi", anytime=True)
def capability(driver: Driver, major: int, minor: int, device: int) -> None:
    _ready(driver, device)
    put_int(major, A.compute_capability(driver.config)[0])
    put_int(minor, A.compute_capability(driver.config)[1])


@function("cuDeviceGetPCIBusId", "pii", anytime=True)
def pci_bus_id(driver: Driver, text: int, room: int, device: int) -> None:
    _ready(driver, device)
    put_text(text, room, A.PCI_BUS_ID)


@function("cuDeviceGetByPCIBusId", "pp", anytime=True)
def by_pci_bus_id(driver: Driver, device: int, text: int) -> None:
    _ready(driver)
    if get_text(text).lower() not in (A.PCI_BUS_ID, A.PCI_BUS_ID.removeprefix("0000:")):
        raise DriverError(Code.INVALID_DEVICE)
    put_int(device, 0)


@function("cuDeviceCanAccessPeer", "pii", anytime=True)
def can_access_peer(driver: Driver, answer: int, device: int, peer: int) -> None:
    _ready(driver, device)
    check_device(peer)
    put_int(answer, 0)
