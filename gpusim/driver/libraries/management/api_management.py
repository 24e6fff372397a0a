"""Management API (NVML): initialization, devices, and what they say of themselves."""

from __future__ import annotations

import re
import struct
from functools import partial
from pathlib import Path

from gpusim.driver import attributes as A
from gpusim.driver.caller import caller, constant_text
from gpusim.driver.codes import ManagementCode, fail_if
from gpusim.driver.registry import MANAGED_DEVICE, entries, entry
from gpusim.driver.state import DEVICE_COUNT, Driver

DRIVER_NAME = "580.0"
"""The branch of drivers whose answers are those of this one."""
_MEMORY_V2 = 0x2000028
_GRAPHICS, _SM, _MEMORY, _VIDEO = range(4)  # nvmlClockType_t
_ARCHITECTURES = {(7, 0): 5, (7, 5): 6, (8, 0): 7, (8, 6): 7, (8, 9): 8, (9, 0): 9}  # nvmlDeviceArchitecture_t
_LINK_NOT_THERE = 5  # nvmlGpuP2PStatus_t


def uuid_text() -> str:
    """The device's number as text."""
    text = A.UUID.hex()
    return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _put_text(place: int, room: int, text: str) -> None:
    """Write a C string. Raises INSUFFICIENT_SIZE."""
    fail_if(room <= len(text), ManagementCode.INSUFFICIENT_SIZE)
    caller().write(place, text.encode() + b"\0")


def _numbers(driver: Driver) -> dict[int, int]:
    return A.device_attributes(driver.config)


entries(
    ("nvmlInit nvmlInit_v2 nvmlInitWithFlags", "", lambda driver: setattr(driver, "managed", driver.managed + 1)),
    ("nvmlErrorString", "&i", lambda driver, code: constant_text(dict(enumerate(_TEXTS)).get(code, "Unknown Error"))),
    anytime=True,
)
entries(
    ("nvmlShutdown", "", lambda driver: setattr(driver, "managed", driver.managed - 1)),
    ("nvmlSystemGetDriverVersion", "p u", lambda driver, text, room: _put_text(text, room, DRIVER_NAME)),
    ("nvmlSystemGetNVMLVersion", "p u", lambda driver, text, room: _put_text(text, room, f"13.{DRIVER_NAME}")),
    ("nvmlSystemGetCudaDriverVersion nvmlSystemGetCudaDriverVersion_v2", "*i", lambda driver: A.DRIVER_VERSION),
    ("nvmlDeviceGetCount nvmlDeviceGetCount_v2", "*i", lambda driver: DEVICE_COUNT),
    ("nvmlDeviceGetName", "V p u", lambda driver, text, room: _put_text(text, room, driver.config.gpu.name)),
    ("nvmlDeviceGetUUID", "V p u", lambda driver, text, room: _put_text(text, room, uuid_text())),
    ("nvmlDeviceGetCudaComputeCapability", "V *i *i", lambda driver: A.compute_capability(driver.config)),
    ("nvmlDeviceGetNumGpuCores", "V *i", lambda driver: driver.config.sm.count * 32 * driver.config.sm.sub_partitions),
    ("nvmlDeviceGetMemoryBusWidth", "V *i", lambda driver: _numbers(driver)[37]),
    (
        "nvmlDeviceGetClockInfo nvmlDeviceGetMaxClockInfo nvmlDeviceGetApplicationsClock",
        *("V i *i", lambda driver, kind: _clock_mhz(driver, kind)),
    ),
    ("nvmlDeviceGetEccMode", "V *i *i", lambda driver: (1, 1)),
    ("nvmlDeviceGetMigMode", "V *i *i", lambda driver: (0, 0)),
    ("nvmlDeviceGetArchitecture", "V *i", lambda driver: _ARCHITECTURES.get(A.compute_capability(driver.config), 10)),
    ("nvmlDeviceGetP2PStatus", "V V i *i", lambda driver, kind: _LINK_NOT_THERE),
)  # fmt: skip
_ZERO = ["Index", "MinorNumber", "ComputeMode", "PersistenceMode", "PerformanceState", "MultiGpuBoard", "DisplayActive"]
_NONE = [f"{kind}RunningProcesses{n}" for kind in ("Compute", "Graphics", "MPSCompute") for n in ("", "_v2", "_v3")]
entry(" ".join(f"nvmlDeviceGet{name}" for name in _ZERO + _NONE), "V *i")(lambda driver: 0)


_TEXTS = Path(__file__).with_name("codes.txt").read_text().splitlines()
"""By nvmlReturn_t, as far as this library returns them."""


# --- devices ----------------------------------------------------------------------------------------------------------


@entry("nvmlDeviceGetHandleByIndex nvmlDeviceGetHandleByIndex_v2", "u *p")
def by_index(driver: Driver, index: int) -> int:
    fail_if(index >= DEVICE_COUNT, ManagementCode.INVALID_ARGUMENT)
    return MANAGED_DEVICE


@entry("nvmlDeviceGetHandleByUUID", "T *p")
def by_uuid(driver: Driver, text: str) -> int:
    fail_if(text != uuid_text(), ManagementCode.NOT_FOUND)
    return MANAGED_DEVICE


@entry("nvmlDeviceGetHandleByPciBusId nvmlDeviceGetHandleByPciBusId_v2", "T *p")
def by_bus(driver: Driver, text: str) -> int:
    """With a domain of any length, or without."""
    place = re.fullmatch(r"(?:0{4}|0{8}):(.+)", text)
    fail_if((place[1] if place else text) != A.PCI_BUS_ID[5:], ManagementCode.NOT_FOUND)
    return MANAGED_DEVICE


def _pci(nbytes: int, driver: Driver, place: int) -> None:
    """nvmlPciInfo_t: a short text, domain, bus, device, two numbers of the board, and from version 3 on a long text."""
    short, long = A.PCI_BUS_ID.encode(), f"0000{A.PCI_BUS_ID}".encode()
    caller().write(place, struct.pack("<16s5I32s", short, 0, 0, 0, 0, 0, long)[:nbytes])


entries(
    ("nvmlDeviceGetPciInfo_v3", "V p", partial(_pci, 68)),
    ("nvmlDeviceGetPciInfo nvmlDeviceGetPciInfo_v2", "V p", partial(_pci, 36)),
)


def _memory_bytes(driver: Driver) -> tuple[int, int]:
    """Total and used."""
    return driver.config.dram.capacity_bytes, driver.used_bytes


@entry("nvmlDeviceGetMemoryInfo", "V p")
def memory(driver: Driver, place: int) -> None:
    total, used = _memory_bytes(driver)
    caller().write(place, struct.pack("<3Q", total, total - used, used))


@entry("nvmlDeviceGetMemoryInfo_v2", "V p")
def memory_v2(driver: Driver, place: int) -> None:
    """Total, reserved, free and used bytes, behind the version that the caller has put there."""
    (version,) = struct.unpack("<I", caller().read([(place, 4)])[0])
    fail_if(version != _MEMORY_V2, ManagementCode.FUNCTION_NOT_FOUND)
    total, used = _memory_bytes(driver)
    caller().write(place + 8, struct.pack("<4Q", total, 0, total - used, used))


def _clock_mhz(driver: Driver, kind: int) -> int:
    fail_if(not 0 <= kind <= _VIDEO, ManagementCode.INVALID_ARGUMENT)
    fail_if(kind == _VIDEO, ManagementCode.NOT_SUPPORTED)
    return _numbers(driver)[36] // 1000 if kind == _MEMORY else driver.config.gpu.clock_mhz
