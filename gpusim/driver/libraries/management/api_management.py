"""Management API (NVML): initialization, devices, and what they say of themselves."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gpusim.driver import attributes as A
from gpusim.driver.caller import caller, constant_text, get_uint
from gpusim.driver.codes import ManagementCode, fail_if
from gpusim.driver.objects import DriverGpu
from gpusim.driver.registry import MANAGED_DEVICE, entries, entry
from gpusim.driver.state import Driver

DRIVER_NAME = "580.0"
"""The branch of drivers whose answers are those of this one."""
_MEMORY_V2 = 0x2000028
_GRAPHICS, _SM, _MEMORY, _VIDEO = range(4)  # nvmlClockType_t
_GENERATIONS = {(7, 0): 5, (7, 5): 6, (8, 0): 7, (8, 6): 7, (8, 9): 8, (9, 0): 9}  # nvmlDeviceArchitecture_t
_LINK_NOT_THERE = 5  # nvmlGpuP2PStatus_t


def _put_text(place: int, room: int, text: str) -> None:
    """Write a C string. Raises INSUFFICIENT_SIZE."""
    fail_if(room <= len(text), ManagementCode.INSUFFICIENT_SIZE)
    caller().write(place, text.encode() + b"\0")


def _numbers(driver: Driver) -> dict[int, int]:
    return A.device_attributes(driver.config, 0)


def _clock_mhz(driver: Driver, gpu: DriverGpu, kind: int) -> int:
    fail_if(not 0 <= kind <= _VIDEO, ManagementCode.INVALID_ARGUMENT)
    fail_if(kind == _VIDEO, ManagementCode.NOT_SUPPORTED)
    return _numbers(driver)[36] // 1000 if kind == _MEMORY else driver.config.gpu.clock_mhz


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
    ("nvmlDeviceGetCount nvmlDeviceGetCount_v2", "*i", lambda driver: len(driver.gpus)),
    ("nvmlDeviceGetName", "V p u", lambda driver, gpu, text, room: _put_text(text, room, driver.config.gpu.name)),
    ("nvmlDeviceGetUUID", "V p u", lambda driver, gpu, text, room: _put_text(text, room, A.uuid_text(gpu.number))),
    ("nvmlDeviceGetCudaComputeCapability", "V *i *i", lambda driver, gpu: A.compute_capability(driver.config)),
    ("nvmlDeviceGetNumGpuCores", "V *i", lambda of, _: 32 * of.config.sm.count * of.config.sm.sub_partitions),
    ("nvmlDeviceGetMemoryBusWidth", "V *i", lambda driver, gpu: _numbers(driver)[37]),
    ("nvmlDeviceGetClockInfo nvmlDeviceGetMaxClockInfo nvmlDeviceGetApplicationsClock", "V i *i", _clock_mhz),
    ("nvmlDeviceGetEccMode", "V *i *i", lambda driver, gpu: (1, 1)),
    ("nvmlDeviceGetMigMode", "V *i *i", lambda driver, gpu: (0, 0)),
    ("nvmlDeviceGetArchitecture", "V *i", lambda driver, _: _GENERATIONS.get(A.compute_capability(driver.config), 10)),
    ("nvmlDeviceGetP2PStatus", "V V i *i", lambda driver, *of: 0 if driver.reaches(*of[:2]) else _LINK_NOT_THERE),
)
entry("nvmlDeviceGetIndex nvmlDeviceGetMinorNumber", "V *i")(lambda driver, gpu: gpu.number)
_ZERO = ["ComputeMode", "PersistenceMode", "PerformanceState", "MultiGpuBoard", "DisplayActive"]
_NONE = [f"{kind}RunningProcesses{n}" for kind in ("Compute", "Graphics", "MPSCompute") for n in ("", "_v2", "_v3")]
entry(" ".join(f"nvmlDeviceGet{name}" for name in _ZERO + _NONE), "V *i")(lambda driver, gpu: 0)


_TEXTS = Path(__file__).with_name("codes.txt").read_text().splitlines()
"""By nvmlReturn_t, as far as this library returns them."""


# --- devices ----------------------------------------------------------------------------------------------------------


def _handle(driver: Driver, code: ManagementCode, is_asked: Callable[[DriverGpu], bool]) -> int:
    """The handle of the GPU that is asked for. Raises the code."""
    found = [gpu.number for gpu in driver.gpus if is_asked(gpu)]
    fail_if(not found, code)
    return MANAGED_DEVICE + found[0]


@entry("nvmlDeviceGetHandleByIndex nvmlDeviceGetHandleByIndex_v2", "u *p")
def by_index(driver: Driver, index: int) -> int:
    return _handle(driver, ManagementCode.INVALID_ARGUMENT, lambda gpu: gpu.number == index)


@entry("nvmlDeviceGetHandleByUUID", "T *p")
def by_uuid(driver: Driver, text: str) -> int:
    return _handle(driver, ManagementCode.NOT_FOUND, lambda gpu: A.uuid_text(gpu.number) == text)


@entry("nvmlDeviceGetHandleByPciBusId nvmlDeviceGetHandleByPciBusId_v2", "T *p")
def by_bus(driver: Driver, text: str) -> int:
    """With a domain of any length, or without."""
    place = re.fullmatch(r"(?:0{4}|0{8}):(.+)", text)
    asked = f"0000:{place[1] if place else text}".lower()
    return _handle(driver, ManagementCode.NOT_FOUND, lambda gpu: A.pci_bus_id(gpu.number) == asked)


def _pci(nbytes: int, driver: Driver, gpu: DriverGpu, place: int) -> None:
    """nvmlPciInfo_t: a short text, domain, bus, device, two numbers of the board, and from version 3 on a long text."""
    text = A.pci_bus_id(gpu.number)
    long = f"0000{text}".encode()
    caller().write(place, struct.pack("<16s5I32s", text.encode(), 0, gpu.number, 0, 0, 0, long)[:nbytes])


entries(
    ("nvmlDeviceGetPciInfo_v3", "V p", partial(_pci, 68)),
    ("nvmlDeviceGetPciInfo nvmlDeviceGetPciInfo_v2", "V p", partial(_pci, 36)),
)


def _memory_bytes(driver: Driver, gpu: DriverGpu) -> tuple[int, int]:
    """Total and used."""
    used = driver.devices[gpu.number].memory.used_bytes if gpu.number < len(driver.devices) else 0
    return driver.config.dram.capacity_bytes, used


@entry("nvmlDeviceGetMemoryInfo", "V p")
def memory(driver: Driver, gpu: DriverGpu, place: int) -> None:
    total, used = _memory_bytes(driver, gpu)
    caller().write(place, struct.pack("<3Q", total, total - used, used))


@entry("nvmlDeviceGetMemoryInfo_v2", "V p")
def memory_v2(driver: Driver, gpu: DriverGpu, place: int) -> None:
    """Total, reserved, free and used bytes, behind the version that the caller has put there."""
    fail_if(get_uint(place) != _MEMORY_V2, ManagementCode.FUNCTION_NOT_FOUND)
    total, used = _memory_bytes(driver, gpu)
    caller().write(place + 8, struct.pack("<4Q", total, 0, total - used, used))
