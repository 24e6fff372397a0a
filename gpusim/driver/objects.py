"""What handles stand for: contexts, and what belongs to one: memory, modules, kernels, streams, events; and graphs.

Graphs are work that streams capture instead of doing it, done when the graph is launched, each time anew, in the order
in which it was captured, one of the orders that its dependencies allow. The dependencies are kept to tell whether the
streams that took part have come together again at the end.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property

from gpusim.driver.codes import ResultCode, fail_if
from gpusim.launch.module import LinkedModule
from isa import Program

DEVICE, HOST, MANAGED, REGISTERED = "device", "host", "managed", "registered"
"""Kinds of memory: cuMemAlloc, pinned host memory, managed memory, and registered memory of the host's own."""
KERNEL, COPY, FILL, HOST_CALL = range(4)  # CUgraphNodeType
NO_ORIGIN = (0, 1)
"""The default streams that wait for others: nothing can be captured in them."""

_handles = itertools.count(0x5EED_0000_0010, 0x10)


def new_handle() -> int:
    """A new handle, unique in the process, so that a stale one is never taken for another."""
    return next(_handles)


@dataclass
class Context:
    """A context and what it owns, by handle or address. `failed` is the error of a kernel after which nothing works in
    it any more."""

    flags: int = 0
    handle: int = field(default_factory=new_handle)
    failed: ResultCode | None = None
    modules: dict[int, LoadedModule] = field(default_factory=dict)
    kernels: dict[int, LoadedKernel] = field(default_factory=dict)
    streams: dict[int, DriverStream] = field(default_factory=dict)
    events: dict[int, DriverEvent] = field(default_factory=dict)
    buffers: dict[int, Buffer] = field(default_factory=dict)
    limits: dict[int, int] = field(default_factory=dict)


@dataclass
class Buffer:
    """Memory that a call handed out. flags: as the caller gave them; number: the order of allocation; visible: whether
    the device can reach it."""

    context: Context
    address: int
    nbytes: int
    kind: str
    flags: int
    number: int
    visible: bool = True


class LoadedModule:
    """A linked cubin in a context. Its handle is that of a module and of a library. ptx: texts that its image holds
    for other GPUs, kept where launches are saved."""

    def __init__(self, context: Context, linked: LinkedModule, ptx: Sequence[bytes] = ()):
        self.context, self.linked, self.handle, self.ptx = context, linked, new_handle(), ptx
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


@dataclass
class DriverStream:
    """An order of work; `host_calls` are functions of the host that it has still to call. capture: what its work goes
    into instead of being done."""

    flags: int = 0
    priority: int = 0
    handle: int = field(default_factory=new_handle)
    host_calls: list[Future[object]] = field(default_factory=list)
    capture: Capture | None = None

    def not_capturing(self) -> DriverStream:
        """The stream. Raises STREAM_CAPTURE_UNSUPPORTED if its work is being captured."""
        fail_if(self.capture is not None, ResultCode.STREAM_CAPTURE_UNSUPPORTED)
        return self


@dataclass
class DriverEvent:
    """A point in simulated time, None before it is recorded; or, recorded in a capture, what comes before it there."""

    flags: int
    handle: int = field(default_factory=new_handle)
    cycle: int | None = None
    captured: tuple[Capture, frozenset[CapturedWork]] | None = None


@dataclass(frozen=True, eq=False)
class CapturedWork:
    """One piece of captured work, a node of a graph. work: does it, as part of a launch in the stream that it is given.
    after: what it waits for."""

    kind: int
    work: Callable[[DriverStream], None]
    after: frozenset[CapturedWork]
    handle: int = field(default_factory=new_handle)


@dataclass
class Graph:
    """A graph, or what was made of one to be launched. objects: references to user objects, by handle."""

    nodes: list[CapturedWork] = field(default_factory=list)
    objects: Counter[int] = field(default_factory=Counter)
    handle: int = field(default_factory=new_handle)


@dataclass
class UserObject:
    """Something of the program's that graphs keep alive; `destroy` is called when nobody refers to it any more."""

    references: int
    destroy: Callable[[], object]


@dataclass
class Capture:
    """A capture in progress. ends: what the next work of each stream that takes part comes after."""

    origin: DriverStream
    graph: Graph = field(default_factory=Graph)
    handle: int = field(default_factory=new_handle)
    ends: dict[int, frozenset[CapturedWork]] = field(default_factory=dict)
    streams: list[DriverStream] = field(default_factory=list)
    open: bool = True

    def join(self, stream: DriverStream, after: frozenset[CapturedWork]) -> None:
        """Let a stream take part, or wait for more. Raises STREAM_CAPTURE_MERGE, STREAM_CAPTURE_IMPLICIT."""
        fail_if(stream.handle in NO_ORIGIN, ResultCode.STREAM_CAPTURE_IMPLICIT)
        fail_if(stream.capture not in (None, self), ResultCode.STREAM_CAPTURE_MERGE)
        if stream.capture is None:
            stream.capture = self
            self.streams.append(stream)
        self.ends[stream.handle] = self.ends.get(stream.handle, frozenset()) | after

    def add(self, stream: DriverStream, kind: int, work: Callable[[DriverStream], None]) -> None:
        """Note work of a stream."""
        node = CapturedWork(kind, work, self.ends[stream.handle])
        self.graph.nodes.append(node)
        self.ends[stream.handle] = frozenset((node,))

    def close(self) -> bool:
        """End the capture; whether all of its work comes before what the first stream would do next."""
        self.open = False
        waited_for = {before for node in self.graph.nodes for before in node.after}
        for stream in self.streams:
            stream.capture = None
        return set(self.graph.nodes) - waited_for <= self.ends[self.origin.handle]
