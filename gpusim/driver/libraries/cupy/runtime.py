"""In the place of `cupy_backends.cuda.api.runtime`: CuPy's wrapper of the runtime API, over the process's shared
runtime library, and the C interface through which CuPy's compiled modules call it.

A function is called as in C without the places for results; these it returns. An error raises CUDARuntimeError.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from cupy_backends.cuda.api import _runtime_enum

from gpusim.driver.libraries.cupy import calling, capi
from gpusim.driver.libraries.cupy.structures import MemPoolProps, PointerAttributes
from gpusim.driver.libraries.runtime.properties import layout

_VERSION = 13
_library = ctypes.CDLL(f"libcudart.so.{_VERSION}")
_library.cudaGetErrorName.restype = _library.cudaGetErrorString.restype = ctypes.c_char_p

is_hip = False
# Names that CuPy has kept beside those of the header file, which are in a module of their own.
globals().update(calling.constants("runtime"))
globals().update({name: value for name, value in vars(_runtime_enum).items() if not name.startswith("_")})


class CUDARuntimeError(RuntimeError):
    """An error code of the runtime API. status: cudaError_t."""

    def __init__(self, status: int):
        self.status = status
        name, text = _library.cudaGetErrorName(status), _library.cudaGetErrorString(status)
        super().__init__(f"{name.decode()}: {text.decode()}")

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return type(self), (self.status,)


def check_status(status: int) -> None:
    """Raise CUDARuntimeError for an error code, and forget it in the runtime."""
    if status != 0:
        _library.cudaGetLastError()
        raise CUDARuntimeError(status)


# --- functions that are the runtime's, with defaults ------------------------------------------------------------------


_c_function = partial(calling.c_function, _library)


def _wrapped(symbol: str, *defaults: int) -> Callable[..., Any]:
    return calling.wrapped(_library, symbol, check_status, *defaults)


mallocManaged = _wrapped("cudaMallocManaged", 1)
streamWaitEvent = _wrapped("cudaStreamWaitEvent", 0)
streamBeginCapture = _wrapped("cudaStreamBeginCapture", 2)
graphInstantiate = _wrapped("cudaGraphInstantiate", 0)
deviceEnablePeerAccess = _wrapped("cudaDeviceEnablePeerAccess", 0)
streamQuery, eventQuery = _c_function("cudaStreamQuery"), _c_function("cudaEventQuery")
_getLocalRuntimeVersion = _wrapped("cudaRuntimeGetVersion")


# --- functions with a form of their own -------------------------------------------------------------------------------


def _told(symbol: str, *arguments: Any, kind: Any = ctypes.c_size_t, place_first: bool = True) -> int:
    """Return the value that a function writes to its first or last argument's place."""
    place = kind()
    at = (ctypes.addressof(place),)
    check_status(_c_function(symbol)(*at, *arguments) if place_first else _c_function(symbol)(*arguments, *at))
    return int(place.value)


def malloc(size: int) -> int:
    return _told("cudaMalloc", size)


def _getCUDAMajorVersion() -> int:
    return int(globals()["runtimeGetVersion"]()) // 1000


def getDeviceProperties(device: int) -> dict[str, Any]:
    """Fields of cudaDeviceProp, and what CUDA 13 has taken out of it, which is asked for as attributes."""
    place: Any = layout(_VERSION)()
    check_status(_library.cudaGetDeviceProperties(ctypes.byref(place), device))
    found: dict[str, Any] = {}
    for name, kind in place._fields_:
        value = getattr(place, name)
        if name in ("uuid", "luid"):
            value = bytes(getattr(type(place), name).__get__(place)).ljust(kind._length_, b"\0")
        found[name] = tuple(value) if isinstance(value, ctypes.Array) else value
    del found["reserved"]
    attributes = {name: globals()["deviceGetAttribute"](number, device) for name, number in _AS_ATTRIBUTES.items()}
    return found | attributes | {"cooperativeMultiDeviceLaunch": 0}


_AS_ATTRIBUTES = {
    "clockRate": _runtime_enum.cudaDevAttrClockRate,
    "kernelExecTimeoutEnabled": _runtime_enum.cudaDevAttrKernelExecTimeout,
    "memoryClockRate": _runtime_enum.cudaDevAttrMemoryClockRate,
    "computeMode": _runtime_enum.cudaDevAttrComputeMode,
    "deviceOverlap": _runtime_enum.cudaDevAttrGpuOverlap,
    "maxTexture1DLinear": _runtime_enum.cudaDevAttrMaxTexture1DLinearWidth,
    "singleToDoublePrecisionPerfRatio": _runtime_enum.cudaDevAttrSingleToDoublePrecisionPerfRatio,
}


def deviceGetByPCIBusId(pci_bus_id: str) -> int:
    text = ctypes.create_string_buffer(pci_bus_id.encode("ascii"))
    return _told("cudaDeviceGetByPCIBusId", ctypes.addressof(text), kind=ctypes.c_int)


def deviceGetPCIBusId(device: int) -> str:
    text = ctypes.create_string_buffer(13)
    check_status(_library.cudaDeviceGetPCIBusId(text, len(text), device))
    return text.value.decode("ascii")


_PEER_ALREADY_ENABLED = 704


def _deviceEnsurePeerAccess(peerDevice: int) -> None:
    status = _library.cudaDeviceEnablePeerAccess(peerDevice, 0)
    if status != _PEER_ALREADY_ENABLED:
        check_status(status)


def _location(device: int) -> int:
    """cudaMemLocation of a device, a structure of two ints that is passed by value."""
    return _runtime_enum.cudaMemLocationTypeDevice | device << 32


def memPrefetchAsync(devPtr: int, count: int, dstDevice: int, stream: int) -> None:
    check_status(_c_function("cudaMemPrefetchAsync")(devPtr, count, _location(dstDevice), 0, stream))


def memAdvise(devPtr: int, count: int, advice: int, device: int) -> None:
    check_status(_c_function("cudaMemAdvise")(devPtr, count, advice, _location(device)))


class _Attributes(ctypes.Structure):
    """cudaPointerAttributes."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("device", ctypes.c_int),
        ("devicePointer", ctypes.c_ssize_t),
        ("hostPointer", ctypes.c_ssize_t),
        ("reserved", ctypes.c_long * 8),
    )


def _attributes(ptr: int) -> _Attributes:
    found = _Attributes()
    check_status(_c_function("cudaPointerGetAttributes")(ctypes.addressof(found), ptr))
    return found


def pointerGetAttributes(ptr: int) -> PointerAttributes:
    found = _attributes(ptr)
    return PointerAttributes(found.device, found.devicePointer, found.hostPointer, found.type)


def pointerGetMemoryType(ptr: int) -> int:
    return int(_attributes(ptr).type)


_SWITCHES = 3
"""The last of the attributes of pools that are ints; the others have 64 bits."""


def memPoolCreate(props: MemPoolProps) -> int:
    handle = ctypes.c_size_t()
    given = struct.pack("<4i72x", props.allocType, props.handleType, props.locationType, props.devId)
    check_status(_library.cudaMemPoolCreate(ctypes.byref(handle), given))
    return handle.value


def memPoolGetAttribute(pool: int, attr: int) -> int:
    kind = ctypes.c_int if attr <= _SWITCHES else ctypes.c_uint64
    return _told("cudaMemPoolGetAttribute", pool, attr, kind=kind, place_first=False)


def memPoolSetAttribute(pool: int, attr: int, value: float) -> None:
    given = ctypes.c_int(int(value)) if attr <= _SWITCHES else ctypes.c_uint64(int(value))
    check_status(_c_function("cudaMemPoolSetAttribute")(pool, attr, ctypes.addressof(given)))


def streamEndCapture(stream: int) -> int:
    return _told("cudaStreamEndCapture", stream, place_first=False)


def streamIsCapturing(stream: int) -> bool:
    status = _told("cudaStreamIsCapturing", stream, kind=ctypes.c_int, place_first=False)
    if status == globals()["streamCaptureStatusInvalidated"]:
        raise RuntimeError("the stream was capturing, but an error has invalidated the capture")
    return bool(status)


def make_Extent(w: int, h: int, d: int) -> None:
    """For copies of CUDA arrays, which are not simulated."""
    check_status(_library.cudaMalloc3DArray())


make_Pos = make_PitchedPtr = make_Extent

# --- functions of the host in streams ---------------------------------------------------------------------------------

_calls: dict[int, tuple[Callable[..., object], object]] = {}
_call_numbers = itertools.count(1)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
def _stream_callback(stream: int | None, status: int, number: int) -> None:
    function, argument = _calls.pop(number)
    function(stream or 0, status, argument)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _host_function(number: int) -> None:
    function, argument = _calls.pop(number)
    function(argument)


@ctypes.CFUNCTYPE(None, ctypes.py_object)
def _unmanaged_host_function(pair: tuple[Callable[[object], object], object]) -> None:
    function, argument = pair
    function(argument)


def _address(callback: Any) -> int:
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


def streamAddCallback(stream: int, callback: Callable[[int, int, object], object], arg: int, flags: int = 0) -> None:
    _calls[number := next(_call_numbers)] = callback, arg
    check_status(_c_function("cudaStreamAddCallback")(stream, _address(_stream_callback), number, flags))


def launchHostFunc(stream: int, callback: Callable[[object], object], arg: int) -> None:
    _calls[number := next(_call_numbers)] = callback, arg
    check_status(_c_function("cudaLaunchHostFunc")(stream, _address(_host_function), number))


def _launchHostFuncUnmanaged(stream: int, func_arg: tuple[Callable[[object], object], object]) -> None:
    """The caller keeps the pair of function and argument as long as it may be called."""
    check_status(_c_function("cudaLaunchHostFunc")(stream, _address(_unmanaged_host_function), id(func_arg)))


_thread = threading.local()


def _ensure_context() -> None:
    """Let the runtime make its context current in the calling thread."""
    if not getattr(_thread, "has_context", False):
        globals()["memGetInfo"]()
        _thread.has_context = True


# --- what CuPy's compiled modules find --------------------------------------------------------------------------------

_DECLARED = Path(capi.__file__).with_name("runtime.txt").read_text()
"""The functions as CuPy 13.6 to 14.2 declare them; those that are not defined above are the runtime's as they are."""
_VARIABLES = {
    "_is_hip_environment": 0,
    "errorInvalidValue": 1,
    "errorMemoryAllocation": 2,
    "errorPeerAccessAlreadyEnabled": _PEER_ALREADY_ENABLED,
    "errorContextIsDestroyed": 709,
    "errorInvalidResourceHandle": 400,
    "deviceAttributeComputeCapabilityMajor": 75,
    "deviceAttributeComputeCapabilityMinor": 76,
}
_FOR_PYTHON_ALONE = (
    *("deviceDisablePeerAccess", "ipcCloseMemHandle", "ipcGetEventHandle", "ipcGetMemHandle", "ipcOpenEventHandle"),
    "ipcOpenMemHandle",
)
_declared = list(capi.declarations(__name__, _DECLARED))
for _name in {*_FOR_PYTHON_ALONE, *(each.name for each in _declared)} - globals().keys():
    globals()[_name] = _wrapped(f"cuda{_name[0].upper()}{_name[1:]}")
__pyx_capi__ = capi.interface(_declared, globals()) | capi.constants(_VARIABLES)

# CuPy asks for the vendor's libraries before it imports their wrappers, unless these have been imported already.
import_module("cupy_backends.cuda.libs.cublas")
import_module("cupy_backends.cuda.libs.curand")
