"""Driver API: other devices and other processes. There is one device, and nothing of it can be shared."""

from __future__ import annotations

from gpusim.driver.codes import DriverError, ResultCode, fail_if
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import Driver

entries(
    ("cuDeviceCanAccessPeer", "*i D D", lambda driver, device, peer: 0),
    anytime=True,
)


@entry("cuDeviceGetP2PAttribute", "*i (i) D D", anytime=True)
def attribute(driver: Driver, device: int, peer: int) -> int:
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
