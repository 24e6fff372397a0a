"""Functions that are exported, so that programs which link them can start, and always refused: which, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpusim.driver.api.copy import NO_ARRAYS
from gpusim.driver.codes import DriverError, ManagementCode, ProfilerCode, ResultCode, fail_if, say
from gpusim.driver.registry import EntryPoint
from gpusim.driver.state import Driver

REASONS = (
    ("what is measured on a device, or lies around it, is not simulated", r"^nvml"),
    ("of CUPTI, the interface for activities is there", r"^cupti"),
    ("of cuBLAS, what machine learning and scientific programs use most is there", r"^cublas"),
    ("graphics is not simulated", r"Graphics|cu(da)?GL|EGL|VDPAU"),
    (NO_ARRAYS, r"Array|Tex|Surf|Mipmap|ChannelDesc|cuMemcpy(.toA|Ato)"),
    (
        "nothing of the device can be shared with other processes or other hardware",
        r"Ipc|External|Export(To|Pointer)|Import|HandleForAddressRange|NvSci|FabricC|FabricClusterUuid",
    ),
    (
        "graphs do not change: capture or make another one, and instantiate that",
        r"Graph(.*SetParams|.*SetEvent|.*NodeSet|ExecUpdate|.*CopyAttr|NodeGetEnabled|RemoveDep|DestroyNode)|Recapture",
    ),
    ("parameters of a graph's nodes are not told", r"Graph.*Node(GetParams|GetEvent|GetAttribute)"),
    ("edges of graphs are not told", r"Graph(NodeGetDepend|GetEdges|GetRoot)"),
    ("graphs with conditions are not simulated", r"Conditional"),
    (
        "numbers of graphs and their nodes are not told",
        r"Graph(Exec)?GetId|(Local|Tools)Id|Containing|FindInClone",
    ),
    ("the largest cluster that fits is not told", r"PotentialCluster"),
    ("each kind of node has a function that adds it", r"GraphAddNode"),
    ("there is one GPU, which has no peers", r"Multicast|LogicalEndpoint|Clique|P2PAtomic|MultiDevice|Memcpy3DPeer"),
    ("the GPU cannot be divided", r"Green|DevResource|DevSm|ExecAffinity|ExecutionCtx|Subgrid|Cig"),
    ("device code with addresses of the host's functions is not simulated", r"UnifiedFunction|UnifiedTable|HostVar"),
    ("the driver writes no logs or dumps, and tells of nothing by itself", r"Logs|Coredump|Checkpoint|AsyncNoti"),
    ("the way to launch before CUDA 4 is gone", r"cuLaunch(Grid|GridAsync)?$|cuParamSet|cuFuncSet(Block|SharedSize)"),
    ("it is deprecated, and does nothing on today's GPUs", r"ProfilerInitialize|SetDouble|CtxAttach|CtxDetach"),
    ("the vendor does not say what it does", r"ExportTable|AllocationClass|__cudaGetProcAddress"),
    ("there is no engine that decompresses", r"Decompress"),
    ("Windows alone has such numbers", r"GetLuid"),
    ("tensor maps for im2col::w, of compute capability 10, are not simulated", r"Im2colWide"),
    ("which atomics the host's processor has is not told", r"AtomicCapabilities"),
    ("where memory lies, and for whom, is not told", r"LocationInfo|MemRange|MemGetAccess|AllocationProp|RetainAlloc"),
    ("ranges of addresses are not managed apart from memory", r"cuMem(Address|Create|Map|Unmap|Rele|SetAcc|.*Granul)"),
    ("memory pools are the device's alone", r"MemPool[GS]etAccess|Mem(Get|Set|GetDefault)MemPool$"),
    ("graphs allocate no memory", r"Graph(AddMem(Alloc|Free)|Mem(Attr|Trim))"),
    ("copies and prefetches are asked for one by one, without attributes", r"Mem\w+(BatchAsync|WithAttributes)"),
    ("streams wait for events, not for words of memory", r"StreamWaitValue|StreamWriteValue|BatchMemOp"),
    ("graphs keep no objects of the program alive", r"UserObject"),
    ("it was replaced before CUDA 4", r"cuDeviceGetProperties"),
)
"""Reasons for refusals, each with a pattern of the functions' names; the first that matches counts."""


ASKED_BY_LIBRARIES = ("cudaGetExportTable", "cuDeviceGetLuid")
"""Functions that libraries try and do without: their refusal is not printed."""


def reason(symbol: str) -> str:
    """Return why a function is refused. Raises KeyError if no reason matches."""
    for why, names in REASONS:
        if re.search(names, symbol):
            return why
    raise KeyError(symbol)


@dataclass(frozen=True)
class _Refusal:
    symbol: str

    def __call__(self, driver: Driver) -> None:
        """The user is told each reason once; programs ask the management library for all that they can."""
        fail_if(self.symbol.startswith("nvml"), ManagementCode.NOT_SUPPORTED)
        why = reason(self.symbol)
        if why not in driver.told and self.symbol not in ASKED_BY_LIBRARIES:
            driver.told.add(why)
            say(f"{self.symbol} is not supported: {why}")
        raise DriverError((ProfilerCode if self.symbol[:5] == "cupti" else ResultCode).NOT_SUPPORTED)


def refusal(symbol: str) -> EntryPoint:
    """Make the answer of a function that is refused."""
    return EntryPoint(symbol, (), (), _Refusal(symbol), since=0, anytime=not symbol.startswith("nvml"))
