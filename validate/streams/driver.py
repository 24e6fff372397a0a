"""CUDA's driver API through ctypes: what the experiments need of it, with every return code checked."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import Any

MAX_DYNAMIC_SHARED, CARVEOUT = 8, 9
READ_MOSTLY, PREFERRED, ACCESSED_BY = 1, 3, 5
ATTRIBUTES = {
    "sms": 16, "concurrent_kernels": 31, "copy_engines": 40, "stream_priorities": 78, "managed_memory": 83,
    "pageable_memory_access": 88, "concurrent_managed_access": 89, "host_page_tables": 100,
    "direct_managed_access_from_host": 101, "l2_bytes": 38, "clock_khz": 13,
}  # fmt: skip
HOST = -1
"""As the place of memory; GPUs count from 0."""

HostFunction = ctypes.CFUNCTYPE(None, c_void_p)


class CallFailed(RuntimeError):
    """A call of the driver that failed."""


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", c_uint), ("pad", c_uint), ("value", c_int), ("rest", c_ubyte * 60)]


class LaunchExConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        *((name, c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", c_void_p), ("attributes", POINTER(Attribute)), ("count", c_uint),
    ]  # fmt: skip


class Location(ctypes.Structure):
    """CUmemLocation: type 1 is a GPU, 2 the host."""

    _fields_ = [("type", c_int), ("id", c_int)]

    @classmethod
    def of(cls, place: int) -> Location:
        """That of a GPU's number, or HOST."""
        return cls(2, 0) if place == HOST else cls(1, place)


class CudaDriver:
    """The first GPU, with its primary context current and the kernels of a cubin by name."""

    def __init__(self, cubin: str) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", c_uint(0))
        self.device = self.get(c_int, "cuDeviceGet", c_int(0))
        context = self.get(c_void_p, "cuDevicePrimaryCtxRetain", self.device)
        self.call("cuCtxSetCurrent", context)
        self.module = self.get(c_void_p, "cuModuleLoad", c_char_p(cubin.encode()))
        self.functions: dict[str, c_void_p] = {}

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; the arguments are ctypes values."""
        code = getattr(self.cuda, name)(*arguments)
        if code:
            text = c_char_p()
            self.cuda.cuGetErrorName(c_int(code), byref(text))
            raise CallFailed(f"{name}: {code} {(text.value or b'').decode()}")

    def get(self, kind: Any, name: str, *arguments: Any) -> Any:
        """The same for one that returns a value through its first argument."""
        value = kind()
        self.call(name, byref(value), *arguments)
        return value

    def about(self) -> dict[str, Any]:
        """What this GPU and its driver say of themselves."""
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, c_int(100), self.device)
        least, greatest = c_int(), c_int()
        self.call("cuCtxGetStreamPriorityRange", byref(least), byref(greatest))
        version = self.get(c_int, "cuDriverGetVersion").value
        found = {key: self.get(c_int, "cuDeviceGetAttribute", c_int(number), self.device).value
                 for key, number in ATTRIBUTES.items()}  # fmt: skip
        return {
            "gpu": name.value.decode(),
            "cuda": f"{version // 1000}.{version % 1000 // 10}",
            "priorities": [least.value, greatest.value],
            "attributes": found,
        }

    def function(self, name: str) -> c_void_p:
        """A kernel, which may have as much shared memory as there is."""
        if name not in self.functions:
            self.functions[name] = self.get(
                c_void_p, "cuModuleGetFunction", self.module, c_char_p(name.encode())
            )
            self.set_function(name, MAX_DYNAMIC_SHARED, 227 << 10)
        return self.functions[name]

    def set_function(self, name: str, attribute: int, value: int) -> None:
        """Set an attribute of a kernel."""
        self.call("cuFuncSetAttribute", self.function(name), c_int(attribute), c_int(value))

    def launch(self, name: str, grid: int, threads: int, shared: int, stream: c_void_p, arguments: Sequence[Any],
               programmatic: bool = False) -> None:  # fmt: skip
        """Launch a kernel. arguments: ctypes values. programmatic: it may start before the one before it has ended."""
        pointers = (c_void_p * len(arguments))(*(ctypes.addressof(each) for each in arguments))
        attributes = (Attribute * 1)(Attribute(6, 0, 1))
        config = LaunchExConfig(
            grid, 1, 1, threads, 1, 1, shared, stream, attributes, 1 if programmatic else 0
        )
        self.call("cuLaunchKernelEx", byref(config), self.function(name), pointers, c_void_p(None))

    def stream(self, priority: int = 0) -> c_void_p:
        """A new stream that does not wait for the default one."""
        return self.get(c_void_p, "cuStreamCreateWithPriority", c_uint(1), c_int(priority))

    def event(self, timing: bool = True) -> c_void_p:
        """A new event."""
        return self.get(c_void_p, "cuEventCreate", c_uint(0 if timing else 2))

    def record(self, event: c_void_p, stream: c_void_p) -> c_void_p:
        """Record an event; returns it."""
        self.call("cuEventRecord", event, stream)
        return event

    def wait(self, stream: c_void_p, event: c_void_p) -> None:
        """Let a stream wait for an event."""
        self.call("cuStreamWaitEvent", stream, event, c_uint(0))

    def elapsed_us(self, first: c_void_p, last: c_void_p) -> float:
        """Between two events that have happened."""
        return round(self.get(c_float, "cuEventElapsedTime", first, last).value * 1e3, 2)

    def synchronize(self) -> None:
        """Wait for everything."""
        self.call("cuCtxSynchronize")

    def device_memory(self, nbytes: int) -> int:
        """Memory of the GPU, as an address."""
        return self.get(c_uint64, "cuMemAlloc_v2", c_size_t(nbytes)).value

    def pinned(self, nbytes: int) -> int:
        """Page-locked host memory, which the GPU reaches under the same address."""
        return self.get(c_uint64, "cuMemHostAlloc", c_size_t(nbytes), c_uint(3)).value

    def managed(self, nbytes: int) -> int:
        """Managed memory."""
        return self.get(c_uint64, "cuMemAllocManaged", c_size_t(nbytes), c_uint(1)).value

    def free(self, address: int) -> None:
        """Free the GPU's or managed memory."""
        self.call("cuMemFree_v2", c_uint64(address))

    def copy(self, kind: str, to: int, of: int, nbytes: int, stream: c_void_p) -> None:
        """An asynchronous copy. kind: HtoD, DtoH, DtoD, or memset (of is then the byte)."""
        if kind == "memset":
            self.call("cuMemsetD8Async", c_uint64(to), c_ubyte(of & 255), c_size_t(nbytes), stream)
        else:
            self.call(f"cuMemcpy{kind}Async_v2", c_uint64(to), c_uint64(of), c_size_t(nbytes), stream)

    def prefetch(self, address: int, nbytes: int, place: int, stream: c_void_p) -> None:
        """Bring managed memory to a GPU or the HOST."""
        self.call(
            "cuMemPrefetchAsync_v2",
            c_uint64(address),
            c_size_t(nbytes),
            Location.of(place),
            c_uint(0),
            stream,
        )

    def advise(self, address: int, nbytes: int, advice: int, place: int) -> None:
        """Advise on managed memory."""
        self.call("cuMemAdvise_v2", c_uint64(address), c_size_t(nbytes), c_int(advice), Location.of(place))
