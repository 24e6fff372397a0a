"""Functions not listed here drain all streams first. Listed ones only enqueue, only query, or wait themselves."""

from __future__ import annotations

import re
from functools import cache

_ADD = """
Launch(CooperativeKernel|HostFunc|Kernel|KernelEx|KernelExC) GraphLaunch
EventRecord(WithFlags)? Stream(WaitEvent|AddCallback)
(Push|Pop)CallConfiguration Mem(Alloc|AllocFromPool|Free)Async Malloc(FromPool)?Async
FreeAsync blas(?!Destroy|LtDestroy)\\w+
"""
_WAIT_THEMSELVES = """
Stream(Synchronize|Query) Event(Synchronize|Query|ElapsedTime) Mem(cpy|set)\\w*
"""
_MAKE = """
Stream(Create|CreateWithFlags|CreateWithPriority) Event(Create|CreateWithFlags|Destroy)
StreamBeginCapture(ToGraph)? StreamEndCapture StreamIsCapturing StreamUpdateCaptureDependencies
ThreadExchangeStreamCaptureMode Graph(Add|Child|Clone|Create|Event|Get|Host|Instantiate|Kernel|Mem|Node|Remove)\\w*
GraphExec\\w*(Get|Set|Update)\\w*
Register\\w+ Init InitDevice SetDevice ChooseDevice Ctx(PushCurrent|PopCurrent|SetCurrent)
Module(Load|LoadData|LoadDataEx|LoadFatBinary|GetFunction) LibraryLoadData LibraryGetKernel FuncLoad
FuncSet(Attribute|CacheConfig)
"""
_ASK = """
(Driver|Runtime)GetVersion Get\\w+ PeekAtLastError CtxGet\\w+ DeviceGet\\w* DeviceCanAccessPeer
DeviceTotalMem DeviceComputeCapability DevicePrimaryCtx(GetState|Retain) StreamGet\\w+ Occupancy\\w+
(Func|Kernel)(Get|Is)\\w+ PointerGetAttributes? TensorMapEncode\\w+ HostGet\\w+ MemHostGet\\w+ MemGet(Info|AddressRange)
"""
_PREFIX = re.compile("^_*cuda|^cu")
_WITHIN = """
Init (Driver|Runtime)GetVersion GetDevice(Count|Properties) GetError(Name|String) GetLastError PeekAtLastError
GetProcAddress\\w* Event(Query|Synchronize|ElapsedTime)
"""
"""Functions that one called by a stream may call, as on an H100 (driver 580, CUDA 13.0)."""


@cache
def permitted_within(symbol: str) -> bool:
    """Return whether a function that a stream calls may call this one, by its exported name."""
    of_either_api = _PERMITTED.fullmatch(_bare(symbol)) is not None
    return of_either_api or symbol.startswith(("nvml", "__cuda")) or symbol == "cuStreamQuery"


@cache
def waits(symbol: str) -> bool:
    """Return whether a function, by its exported name, waits for the work of all streams."""
    if symbol.startswith("nvml"):
        return False
    return _NAMED.fullmatch(_bare(symbol)) is None


def _bare(symbol: str) -> str:
    return re.sub(r"(@\d+|_v\d+)$", "", _PREFIX.sub("", symbol, count=1))


_PERMITTED = re.compile("|".join(_WITHIN.split()))
_NAMED = re.compile("|".join(" ".join((_ADD, _WAIT_THEMSELVES, _MAKE, _ASK)).split()))
