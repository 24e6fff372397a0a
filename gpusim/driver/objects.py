"""Objects behind handles: contexts and what one owns, such as memory, modules and kernels (streams: `work.streams`)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.work.streams import DriverEvent, DriverStream, new_handle
from gpusim.launch.memory import round_up
from gpusim.launch.module import LinkedModule
from isa import Program

DEVICE, HOST, MANAGED, REGISTERED = "device", "host", "managed", "registered"
"""Kinds of memory: cuMemAlloc, pinned host memory, managed memory, and registered memory of the host's own."""
STACK_LIMIT, PRINTF_LIMIT, HEAP_LIMIT = range(3)
"""CUlimit: bytes of a thread's stack, of the buffer of printf, of the heap of malloc."""


@dataclass
class Context:
    """A context and what it owns, by handle or address. `failed` is the error of a kernel after which nothing works in
    it any more."""

    gpu: DriverGpu
    flags: int = 0
    handle: int = field(default_factory=new_handle)
    failed: ResultCode | None = None
    modules: dict[int, LoadedModule] = field(default_factory=dict)
    kernels: dict[int, LoadedKernel] = field(default_factory=dict)
    streams: dict[int | tuple[int, int], DriverStream] = field(default_factory=dict)
    events: dict[int, DriverEvent] = field(default_factory=dict)
    buffers: dict[int, Buffer] = field(default_factory=dict)
    limits: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False)
class DriverGpu:
    """A GPU that the program can have. number: in its node; ordinal: among those that the program sees. primary: its
    primary context, which so many `references` hold. reached: GPUs whose memory its kernels may access. pool:
    what is allocated from."""

    number: int
    ordinal: int
    references: int = 0
    reached: set[DriverGpu] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.primary = Context(self)
        self.pool = self.default_pool = MemoryPool(gpu=self.number)


@dataclass
class CallingThread:
    """State of a calling thread: its contexts, the current one last; CUstreamCaptureMode; the runtime's last error;
    launches that are configured and not yet made; whether it calls a function whose stream 0 is the thread's own; its
    open ranges; numbers of its process and of itself (pthread_self, 32 bits); number of its last call, and of what lies
    around it elsewhere, by kind (CUPTI); whether it has put work into streams."""

    contexts: list[Context] = field(default_factory=list)
    capture_mode: int = 0
    last_error: ResultCode = ResultCode.SUCCESS
    configured: list[tuple[Any, ...]] = field(default_factory=list)
    has_own_default: bool = False
    ranges: list[NamedRange] = field(default_factory=list)
    ident: tuple[int, int] = field(default_factory=lambda: (os.getpid(), threading.get_ident() & 0xFFFF_FFFF))
    correlation: int = 0
    external: dict[int, list[int]] = field(default_factory=dict)
    works: bool = False

    def pushed(self, domain: str) -> list[NamedRange]:
        """Its open ranges that can be popped."""
        return [each for each in self.ranges if not each.handle and each.domain == domain]


@dataclass(eq=False)
class NamedRange:
    """A range of the program (NVTX), or a mark. name: behind its domain's. domain: "" for the default one. began: the
    host's clock then, in SM clock cycles. handle: by which any thread can end it, 0 for one that is pushed.
    began_ns: on the system's clock, 0 for a mark."""

    name: str
    domain: str
    thread: CallingThread
    began: int
    handle: int = 0
    began_ns: int = field(default_factory=time.time_ns)


@dataclass(eq=False)
class MemoryPool:
    """A memory pool. What it holds comes from device memory directly; its reserve is kept in books alone, in pieces of
    `PIECE_BYTES` as an H200's driver takes them, and given back when a stream is waited for, but for the release
    threshold. most_bytes: in it at once, 0 for any; gpu: its number in the node; attributes: what the
    program set, by number of `CUmemPool_attribute`."""

    most_bytes: int = 0
    gpu: int = 0
    attributes: dict[int, int] = field(default_factory=dict)
    used: int = 0
    used_high: int = 0
    reserved: int = 0
    reserved_high: int = 0
    handle: int = field(default_factory=new_handle)

    def take(self, nbytes: int) -> None:
        """Note an allocation. Raises OUT_OF_MEMORY."""
        fail_if(self.most_bytes and self.used + nbytes > self.most_bytes, ResultCode.OUT_OF_MEMORY)
        self.used += nbytes
        self.reserved = max(self.reserved, round_up(self.used, PIECE_BYTES))
        self.used_high, self.reserved_high = max(self.used_high, self.used), max(self.reserved_high, self.reserved)

    def give_back(self, nbytes: int) -> None:
        """Note that one is freed."""
        self.used -= nbytes

    def trim(self, keep: int) -> None:
        """Give back what is reserved beyond `keep` bytes and not used."""
        self.reserved = max(round_up(self.used, PIECE_BYTES), min(self.reserved, round_up(keep, PIECE_BYTES)))


PIECE_BYTES = 32 << 20


@dataclass
class Buffer:
    """Memory that a call handed out. flags: as the caller gave them; number: the order of allocation; visible: whether
    the device can reach it. pool: that it came from. ending: a stream will free it. opened: how often this process has
    opened what is another's."""

    context: Context
    address: int
    nbytes: int
    kind: str
    flags: int
    number: int
    visible: bool = True
    pool: MemoryPool | None = None
    ending: bool = False
    opened: int = 0


class LoadedModule:
    """A linked cubin in a context. Its handle is that of a module and of a library. others: what it is
    for other GPUs (PTX, CUDA C++, cubins), kept where launches are saved."""

    def __init__(self, context: Context, linked: LinkedModule, others: Sequence[bytes] = ()):
        self.context, self.linked, self.handle, self.others = context, linked, new_handle(), others
        self._kernels: dict[str, LoadedKernel] = {}
        context.modules[self.handle] = self

    def kernel(self, name: str) -> LoadedKernel:
        """A kernel by its mangled name. Raises NOT_FOUND."""
        fail_if(name not in self.linked.kernels, ResultCode.NOT_FOUND)
        if name not in self._kernels:
            self._kernels[name] = kernel = LoadedKernel(name, self)
            self.context.kernels[kernel.handle] = kernel
        return self._kernels[name]

    def unload(self) -> None:
        """Give the module's memory back."""
        for kernel in self._kernels.values():
            self.context.kernels.pop(kernel.handle, None)
        self.context.modules.pop(self.handle, None)
        self.linked.unload()


@dataclass
class LoadedKernel:
    """A kernel of a module. `attributes`: what the program set, by number of `CUfunction_attribute`."""

    name: str
    module: LoadedModule
    handle: int = field(default_factory=new_handle)
    attributes: dict[int, int] = field(default_factory=dict)

    @cached_property
    def program(self) -> Program:
        """The kernel as decoded, for what its file says about it."""
        return self.module.linked.program(self.name)

    def linked(self) -> Program:
        """The kernel's code as it has to run now."""
        return self.module.linked.link(self.program)


# --- what a program's own start tells the runtime ---------------------------------------------------------------------
# Nothing is read or loaded until it is asked for: a library may register thousands of kernels and launch three.


@dataclass
class FatBinary:
    """A fat binary of the program. handle: the address of its wrapper; managed: its managed variables, as (place of the
    host's pointer, address of the name); modules: what was loaded of it, by context."""

    handle: int
    managed: list[tuple[int, int]] = field(default_factory=list)
    modules: dict[int, LoadedModule] = field(default_factory=dict)


@dataclass
class Registrations:
    """By the host's addresses: fat binaries; of functions and variables, (fat binary, address of the device's name)."""

    binaries: dict[int, FatBinary] = field(default_factory=dict)
    functions: dict[int, tuple[FatBinary, int]] = field(default_factory=dict)
    variables: dict[int, tuple[FatBinary, int]] = field(default_factory=dict)

    def forget(self, handle: int) -> None:
        """The program unloads a fat binary."""
        gone = self.binaries.pop(handle, None)
        for table in (self.functions, self.variables):
            for address in [each for each, (binary, _) in table.items() if binary is gone]:
                del table[address]
