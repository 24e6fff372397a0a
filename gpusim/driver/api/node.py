"""Driver API: nodes of graphs that a program makes one by one.

A row of `NODES` is a kind of node: how work is made of its parameters. The functions for each kind follow from it
(`declare`), for this API and for the runtime's, and those that take any kind, with a number and the parameters behind.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from gpusim.driver.api.capture import nodes_at
from gpusim.driver.api.copy import Fill, MemoryCopy, copy_3d
from gpusim.driver.api.graph import ChildGraph, copied, register
from gpusim.driver.api.graph_memory import read_allocation, release
from gpusim.driver.api.launch import describe
from gpusim.driver.api.memory_operation import read_operations
from gpusim.driver.api.stream import host_call, recorded, waited_for
from gpusim.driver.caller import get_pointer, get_pointers, read
from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.registry import entry
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import (
    ALLOCATE,
    CHILD,
    COPY,
    EMPTY,
    FILL,
    FREE,
    HOST_CALL,
    KERNEL,
    MEMORY_OPERATIONS,
    RECORD_EVENT,
    WAIT_EVENT,
    DriverEvent,
    Graph,
    StreamWork,
    node_of,
)

_UNION = 16
"""Where the parameters begin behind the kind (CUgraphNodeParams)."""
_KERNEL = struct.Struct("<Q7I4xQQ")
_FILL = struct.Struct("<QQIIQQ")


@dataclass(frozen=True)
class NodeKind:
    """A kind of node. name: in names of functions. read: makes work of a driver, the graph, and the address of the
    parameters, or their value where they are one word. extra: arguments more of this API's functions. skip: bytes
    before the parameters where any kind may stand."""

    name: str
    read: Callable[[Driver, Graph, int], StreamWork]
    word: bool = False
    extra: str = ""
    skip: int = 0


def read_kernel(driver: Driver, graph: Graph, address: int, version: int = 2) -> StreamWork:
    """CUDA_KERNEL_NODE_PARAMS, which name a function or, from version 2 on, a kernel."""
    function, *sizes, parameters, extra = _KERNEL.unpack(read(address, _KERNEL.size))
    function = function or (get_pointer(address + _KERNEL.size) if version > 1 else 0)
    return describe(driver, driver.kernel_of(function), sizes[:3], sizes[3:6], sizes[6], parameters, extra)


def not_empty(work: MemoryCopy) -> MemoryCopy:
    """A copy. Raises INVALID_VALUE for one of nothing, which no node is."""
    box = work.box
    fail_if(not (box.width and box.height and box.depth), ResultCode.INVALID_VALUE)
    return work


def _read_fill(driver: Driver, graph: Graph, address: int) -> StreamWork:
    """CUDA_MEMSET_NODE_PARAMS."""
    return Fill(driver, *_FILL.unpack(read(address, _FILL.size))).checked()


def _read_host(driver: Driver, graph: Graph, address: int) -> StreamWork:
    """CUDA_HOST_NODE_PARAMS."""
    return host_call(*get_pointers(address, 2))


def _child(driver: Driver, graph: Graph, handle: int) -> StreamWork:
    inner = known(driver.graphs.get(handle), ResultCode.INVALID_VALUE)
    inside = copied(inner, inside=True)
    register(driver, inside)
    return ChildGraph(inside)


def _event(driver: Driver, handle: int) -> DriverEvent:
    return known(driver.context().events.get(handle))


NODES = {
    KERNEL: NodeKind("Kernel", read_kernel),
    COPY: NodeKind("Memcpy", lambda driver, graph, at: not_empty(copy_3d(driver, at)), extra=" (p)", skip=16),
    FILL: NodeKind("Memset", _read_fill, extra=" (p)"),
    HOST_CALL: NodeKind("Host", _read_host),
    CHILD: NodeKind("ChildGraph", _child, word=True),
    EMPTY: NodeKind("Empty", lambda driver, graph, at: StreamWork()),
    WAIT_EVENT: NodeKind("EventWait", lambda driver, graph, handle: waited_for(_event(driver, handle)), word=True),
    RECORD_EVENT: NodeKind("EventRecord", lambda driver, graph, handle: recorded(_event(driver, handle)), word=True),
    ALLOCATE: NodeKind("MemAlloc", lambda driver, graph, at: read_allocation(driver, at)),
    FREE: NodeKind("MemFree", release, word=True),
    MEMORY_OPERATIONS: NodeKind("BatchMemOp", lambda driver, graph, at: read_operations(driver, at)),
}
"""By number of `CUgraphNodeType`."""


def add(driver: Driver, graph: Graph, dependencies: int, count: int, work: StreamWork) -> int:
    """Handle of a new node behind others."""
    return graph.add(work, nodes_at(dependencies, count)).handle


def declare(api: str, nodes: Mapping[int, NodeKind]) -> None:
    """Declare the functions of an API, 'cu' or 'cuda', for each kind of node and for any."""
    for number, kind in nodes.items():
        _declare_kind(f"{api}Graph", number, kind, "_v2" if (api, number) == ("cu", KERNEL) else "")

    def any_kind(address: int) -> tuple[NodeKind, int]:
        """The kind, and its parameters or their address. Raises INVALID_VALUE."""
        number, *reserved = struct.unpack("<4i", read(address, 4 * 4))
        fail_if(number not in nodes or any(reserved), ResultCode.INVALID_VALUE)
        kind = nodes[number]
        place = address + _UNION + kind.skip
        return kind, get_pointer(place) if kind.word else place

    def add_any(driver: Driver, graph: Graph, dependencies: int, count: int, address: int, data: int = 0) -> int:
        kind, parameters = any_kind(address)
        handle = add(driver, graph, dependencies, count, kind.read(driver, graph, parameters))
        node = node_of(handle)
        node.after = dict(zip(node.after, get_pointers(data, count) if data else (0,) * count, strict=True))
        return handle

    def add_any_with_edges(driver: Driver, graph: Graph, first: int, data: int, count: int, address: int) -> int:
        return add_any(driver, graph, first, count, address, data)

    # of the runtime's, the name without a version is the newest variant's, but in the library for CUDA 12
    newest, oldest = ("", "@12") if api == "cuda" else ("_v3", "")
    entry(f"{api}GraphAddNode{oldest}", "*p G p q p", since=12020)(add_any)
    for variant in {"_v2", newest}:
        entry(f"{api}GraphAddNode{variant}", "*p G p p q p", since=12030)(add_any_with_edges)


def _declare_kind(prefix: str, number: int, kind: NodeKind, variant: str) -> None:
    def add_one(driver: Driver, graph: Graph, dependencies: int, count: int, parameters: int = 0) -> int:
        return add(driver, graph, dependencies, count, kind.read(driver, graph, parameters))

    parameters = " p" if number != EMPTY else ""
    signature, since = f"*p G p q{parameters}{kind.extra}", 12000 if variant else 10000
    entry(f"{prefix}Add{kind.name}Node{variant}", signature, since=since)(add_one)


declare("cu", NODES)
_declare_kind("cuGraph", KERNEL, replace(NODES[KERNEL], read=partial(read_kernel, version=1)), "")
