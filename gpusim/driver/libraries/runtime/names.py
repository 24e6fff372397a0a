"""Functions of the runtime that are the driver's under another name: same arguments, same answers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpusim.driver.registry import ENTRY_POINTS, same

_RENAMED = """
cudaDeviceSynchronize cudaThreadSynchronize cuCtxSynchronize
cudaDeviceGetCacheConfig cudaThreadGetCacheConfig cuCtxGetCacheConfig
cudaDeviceSetCacheConfig cudaThreadSetCacheConfig cuCtxSetCacheConfig
cudaDeviceGetLimit cudaThreadGetLimit cuCtxGetLimit
cudaDeviceSetLimit cudaThreadSetLimit cuCtxSetLimit
cudaDeviceGetStreamPriorityRange cuCtxGetStreamPriorityRange
cudaStreamCreateWithFlags cuStreamCreate
cudaEventCreateWithFlags cuEventCreate
cudaLaunchHostFunc cuLaunchHostFunc
cudaMallocHost cuMemAllocHost_v2
cudaMallocFromPoolAsync cuMemAllocFromPoolAsync
cudaMallocAsync cuMemAllocAsync
cudaFreeAsync cuMemFreeAsync
cudaFreeHost cuMemFreeHost
cudaHostAlloc cuMemHostAlloc
cudaHostRegister cuMemHostRegister_v2
cudaHostUnregister cuMemHostUnregister
cudaHostGetDevicePointer cuMemHostGetDevicePointer_v2
cudaHostGetFlags cuMemHostGetFlags
cudaMallocManaged cuMemAllocManaged
cudaGraphInstantiate cuGraphInstantiateWithFlags
"""
_OWN = ("cudaGetExportTable",)
"""Has the name of one of the driver's, and is refused."""


def declare_same(symbols: Sequence[str], version: int) -> None:
    """Declare the functions of a library that are the driver's: those of `_RENAMED`, and all that no other file
    declares and the driver has by the same name, in their newest variant. Where a library has a second variant by a
    name of its own, the plain name is that of the first. version: of the library."""
    names = {re.sub(r"_pt(ds|sz)$", "", symbol) for symbol in symbols}.difference(_OWN)
    for *symbols, other in map(str.split, _RENAMED.strip().splitlines()):
        for symbol in set(symbols).difference(ENTRY_POINTS):
            same(symbol, other)
    for name in sorted(names):
        other, first = name.replace("cuda", "cu", 1), f"{name}_v2" in names
        variants = (other,) if first or re.search(r"_v\d$", name) else (f"{other}_v3", f"{other}_v2", other)
        found = next((each for each in variants if each in ENTRY_POINTS), None)
        symbol = f"{name}@{version}" if first else name
        if found is not None and symbol not in ENTRY_POINTS:
            same(symbol, found)
