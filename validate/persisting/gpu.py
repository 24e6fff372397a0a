"""One GPU through libcuda and ctypes: memory, kernels of a cubin, windows of L2 policies, events."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

import numpy as np

NORMAL, STREAMING, PERSISTING = range(3)
PERSISTING_LIMIT, WINDOW = 6, 1
ATTRIBUTES = {"l2_bytes": 38, "persisting_max_bytes": 108, "window_max_bytes": 109, "sms": 16, "clock_khz": 13,
              "memory_clock_khz": 36, "ecc": 32}  # fmt: skip


class AccessPolicyWindow(ctypes.Structure):
    """CUaccessPolicyWindow, as large as any attribute."""

    _fields_ = [
        ("base", c_void_p), ("nbytes", c_size_t), ("hit_ratio", c_float), ("hit", c_int), ("miss", c_int),
        ("rest", ctypes.c_ubyte * 32),
    ]  # fmt: skip


class RealGpu:
    """The first GPU, its primary context current, with a stream of its own."""

    def __init__(self, cubin: str) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, self.context, self.module, self.stream = c_int(), c_void_p(), c_void_p(), c_void_p()
        self.call("cuDeviceGet", byref(device), 0)
        self.device = device
        self.call("cuDevicePrimaryCtxRetain", byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)
        with open(cubin, "rb") as file:
            self.call("cuModuleLoadData", byref(self.module), file.read())
        self.call("cuStreamCreate", byref(self.stream), 1)
        self.functions: dict[str, c_void_p] = {}
        self.events = [c_void_p(), c_void_p()]
        for event in self.events:
            self.call("cuEventCreate", byref(event), 0)
        self.launched: list[str] = []
        """Every kernel launched so far, as a label."""

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; raises RuntimeError if it does not return 0."""
        status = getattr(self.cuda, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: CUDA error {status}")

    def properties(self) -> dict[str, Any]:
        """Name, driver and attributes."""
        name, value = ctypes.create_string_buffer(100), c_int()
        self.call("cuDeviceGetName", name, 100, self.device)
        found: dict[str, Any] = {"name": name.value.decode()}
        self.call("cuDriverGetVersion", byref(value))
        found["cuda_driver"] = value.value
        for key, number in ATTRIBUTES.items():
            self.call("cuDeviceGetAttribute", byref(value), number, self.device)
            found[key] = value.value
        return found

    def memory(self, nbytes: int) -> int:
        """Address of new memory, all zero."""
        address = c_uint64()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(nbytes))
        self.call("cuMemsetD8_v2", address, 0, c_size_t(nbytes))
        return address.value

    def put(self, address: int, data: np.ndarray) -> None:
        """Copy to the GPU."""
        self.call("cuMemcpyHtoD_v2", c_uint64(address), data.ctypes.data_as(c_void_p), c_size_t(data.nbytes))

    def get(self, address: int, count: int, dtype: Any) -> np.ndarray:
        """Copy `count` items from the GPU."""
        data = np.empty(count, dtype)
        self.call("cuMemcpyDtoH_v2", data.ctypes.data_as(c_void_p), c_uint64(address), c_size_t(data.nbytes))
        return data

    def launch(self, name: str, grid: int, block: int, *arguments: Any, label: str = "") -> float:
        """Run a kernel; returns its time between events, us."""
        if name not in self.functions:
            self.functions[name] = c_void_p()
            self.call("cuModuleGetFunction", byref(self.functions[name]), self.module, name.encode())
        pointers = (c_void_p * len(arguments))(*(ctypes.addressof(each) for each in arguments))
        self.call("cuEventRecord", self.events[0], self.stream)
        self.call("cuLaunchKernel", self.functions[name], grid, 1, 1, block, 1, 1, 0, self.stream, pointers, None)
        self.call("cuEventRecord", self.events[1], self.stream)
        self.call("cuStreamSynchronize", self.stream)
        self.launched.append(f"{name} {label}".strip())
        took = c_float()
        self.call("cuEventElapsedTime", byref(took), *self.events)
        return round(1e3 * took.value, 2)

    def set_aside(self, nbytes: int) -> int:
        """Set how much of L2 is for persisting accesses; returns what the driver made of it."""
        self.call("cuCtxSetLimit", PERSISTING_LIMIT, c_size_t(nbytes))
        found = c_size_t()
        self.call("cuCtxGetLimit", byref(found), PERSISTING_LIMIT)
        return found.value

    def window(
        self, base: int, nbytes: int, hit_ratio: float = 1.0, hit: int = PERSISTING, miss: int = STREAMING
    ) -> None:
        """Give the stream a window; none if `nbytes` is 0."""
        value = AccessPolicyWindow(base, nbytes, hit_ratio, hit, miss)
        if nbytes == 0:
            value = AccessPolicyWindow(0, 0, 0.0, NORMAL, NORMAL)
        self.call("cuStreamSetAttribute", self.stream, WINDOW, byref(value))

    def reset(self) -> None:
        """Make all persisting lines normal."""
        self.call("cuCtxResetPersistingL2Cache")


def uint(value: int) -> c_uint:
    """A parameter of 32 bits."""
    return c_uint(value)


def word(value: int) -> c_uint64:
    """A parameter of 64 bits."""
    return c_uint64(value)
