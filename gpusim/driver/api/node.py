"""Driver API: nodes of graphs that a program makes one by one, and edges that it adds between them.

A row of `NODES` is a kind of node: how work is made of its parameters. `declare` makes a function of it, for this API
and for the runtime's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from gpusim.driver.api.capture import nodes_at
from gpusim.driver.api.copy import Fill, MemoryCopy, copy_3d
from gpusim.driver.api.graph import ChildGraph, register
from gpusim.driver.api.launch import describe
from gpusim.driver.api.stream import host_call, recorded, waited_for
from gpusim.driver.caller import get_pointer, get_pointers, put_pointer, read
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import Driver
from gpusim.driver.work import streams
from gpusim.driver.work.streams import Graph, GraphNode, StreamWork

_KERNEL = struct.Struct("<Q7I4xQQ")
_FILL = struct.Struct("<QQIIQQ")  # CUDA_MEMSET_NODE_PARAMS

Make = Callable[..., StreamWork]
"""Makes work of a driver, the graph, and the arguments of a function."""


def read_kernel(version: int, driver: Driver, graph: Graph, address: int) -> StreamWork:
    """CUDA_KERNEL_NODE_PARAMS, which name a function or, from version 2 on, a kernel."""
    function, *sizes, parameters, extra = _KERNEL.unpack(read(address, _KERNEL.size))
    function = function or (get_pointer(address + _KERNEL.size) if version > 1 else 0)
    return describe(driver, driver.kernel_of(function), sizes[:3], sizes[3:6], sizes[6], parameters, extra)


def not_empty(work: MemoryCopy) -> MemoryCopy:
    """A copy. Raises INVALID_VALUE for one of nothing, which no node is."""
    box = work.box
    fail_if(not (box.width and box.height and box.depth), ResultCode.INVALID_VALUE)
    return work


def _child(driver: Driver, graph: Graph, inner: Graph) -> StreamWork:
    inside = inner.copied(inside=True)
    register(driver, inside)
    return ChildGraph(inside)


NODES: dict[int, tuple[str, str, Make]] = {
    streams.KERNEL: ("Kernel", "p", partial(read_kernel, 1)),
    streams.COPY: ("Memcpy", "p", lambda driver, graph, at: not_empty(copy_3d(driver, at))),
    streams.FILL: ("Memset", "p", lambda driver, _, at: Fill(driver, *_FILL.unpack(read(at, _FILL.size))).checked()),
    streams.HOST_CALL: ("Host", "p", lambda driver, graph, at: host_call(*get_pointers(at, 2))),
    streams.CHILD: ("ChildGraph", "G", _child),
    streams.EMPTY: ("Empty", "", lambda driver, graph: StreamWork()),
    streams.WAIT_EVENT: ("EventWait", "E", lambda driver, graph, event: waited_for(event)),
    streams.RECORD_EVENT: ("EventRecord", "E", lambda driver, graph, event: recorded(event)),
}
"""By number of `CUgraphNodeType`: name in that of the function, its arguments, and what makes the work."""


def declare(symbols: str, arguments: str, make: Make) -> None:
    """Declare a function that adds a node."""

    def add(driver: Driver, graph: Graph, dependencies: int, count: int, *what: Any) -> int:
        return graph.add(make(driver, graph, *what), nodes_at(dependencies, count)).handle

    entry(symbols, f"*p G p q {arguments}")(add)


for _number, (_name, _arguments, _make) in NODES.items():
    declare(f"cuGraphAdd{_name}Node" + " 10000" * (_number == streams.KERNEL), _arguments, _make)
declare("cuGraphAddKernelNode_v2 12000", "p", partial(read_kernel, 2))


def _inside(node: GraphNode) -> Graph:
    """The graph that a node is. Raises INVALID_VALUE."""
    fail_if(not node.work.graphs, ResultCode.INVALID_VALUE)
    return node.work.graphs[0]


def _put_nodes(driver: Driver, graph: Graph, place: int, count: int) -> None:
    """Write handles to a place, unless it is 0. count: the place of the room, and of the number of nodes."""
    found = list(graph.nodes)
    if place:
        room = get_pointer(count)
        found = found[:room]
        for k in range(room):
            put_pointer(place + 8 * k, found[k].handle if k < len(found) else 0)
    put_pointer(count, len(found))


def _connect(driver: Driver, graph: Graph, first: int, last: int, *rest: int) -> None:
    *data, count = rest
    for before, node in zip(nodes_at(first, count, *data), nodes_at(last, count), strict=True):
        graph.connect(before, node)


entries(
    ("cuGraphNodeGetType", "N *i", lambda driver, node: node.work.kind),
    ("cuGraphChildGraphNodeGetGraph", "N *p", lambda driver, node: _inside(node).handle),
    ("cuGraphGetNodes", "G p p", _put_nodes),
    ("cuGraphAddDependencies 10000", "G p p q", _connect),
    ("cuGraphAddDependencies_v2 12030", "G p p p q", _connect),
    anytime=True,
)
