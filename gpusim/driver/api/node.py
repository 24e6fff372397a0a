"""Driver API: graphs, nodes and edges that a program makes of them one by one, and what is launched. `capture` lets
streams make nodes.

A row of `NODES` is a kind of node: how work is made of its parameters. `declare` makes a function of it, for this API
and for the runtime's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpusim.driver.api.capture import nodes_at
from gpusim.driver.api.copy import Fill, MemoryCopy, copy_3d
from gpusim.driver.api.launch import describe
from gpusim.driver.api.stream import host_call, recorded, waited_for
from gpusim.driver.caller import get_pointer, get_pointers, put_int, put_pointer, read
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver
from gpusim.driver.work import streams
from gpusim.driver.work.streams import CHILD, DriverStream, Executable, Graph, GraphNode, Step, StreamWork

_KERNEL = struct.Struct("<Q7I4xQQ")
_FILL = struct.Struct("<QQIIQQ")  # CUDA_MEMSET_NODE_PARAMS
_AUTO_FREE, _UPLOAD, _BY_NODE_PRIORITY = 1, 2, 8  # CUgraphInstantiate_flags

entries(
    ("cuGraphExecGetFlags", "L *p", lambda driver, executable: executable.flags),
    ("cuGraphClone", "*p G", lambda driver, graph: register(driver, graph.copied())),
    anytime=True,
)
entries(("cuGraphUpload", "L S", nothing))


def register(driver: Driver, graph: Graph) -> int:
    """Make a graph known, and those inside it; its handle."""
    driver.graphs.update({each.handle: each for each in graph.family()})
    return graph.handle


@dataclass(frozen=True, eq=False)
class ChildGraph(StreamWork):
    """All work of a graph inside another."""

    graph: Graph
    kind = CHILD

    @property
    def graphs(self) -> tuple[Graph, ...]:
        return (self.graph,)

    def copied(self) -> StreamWork:
        return ChildGraph(self.graph.copied(inside=True))


# --- nodes ------------------------------------------------------------------------------------------------------------

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
    CHILD: ("ChildGraph", "G", _child),
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


# --- graphs -----------------------------------------------------------------------------------------------------------


@entry("cuGraphCreate", "*p u", anytime=True)
def create(driver: Driver, flags: int) -> int:
    fail_if(flags, ResultCode.INVALID_VALUE)
    return register(driver, Graph())


@entry("cuGraphDestroy", "G", anytime=True)
def destroy(driver: Driver, graph: Graph) -> None:
    fail_if(graph.inside, ResultCode.INVALID_VALUE)
    for each in graph.family():
        driver.graphs.pop(each.handle, None)


# --- what is launched -------------------------------------------------------------------------------------------------


@entry("cuGraphInstantiateWithFlags 11040", "*p G q")
def instantiate(driver: Driver, graph: Graph, flags: int) -> int:
    driver.not_in_captures()
    fail_if(flags & ~(_AUTO_FREE | _BY_NODE_PRIORITY), ResultCode.INVALID_VALUE)
    fail_if(graph.inside, ResultCode.NOT_SUPPORTED)
    steps: list[Step] = []
    graph.steps_into(steps)
    made = Executable(flags, steps)
    driver.executables[made.handle] = made
    return made.handle


@entry("cuGraphInstantiate 10000 cuGraphInstantiate_v2 11000", "*p G p (pq)")
def instantiate_with_log(driver: Driver, graph: Graph, fault: int) -> int:
    put_pointer(fault, 0)
    return instantiate(driver, graph, 0)


@entry("cuGraphInstantiateWithParams 12000", "*p G p")
def instantiate_with_parameters(driver: Driver, graph: Graph, parameters: int) -> int:
    """CUDA_GRAPH_INSTANTIATE_PARAMS: flags, stream; for the answer the node at fault, which is not told, and a code."""
    put_pointer(parameters + 16, 0)
    put_int(parameters + 24, 0)
    return instantiate(driver, graph, get_pointer(parameters) & ~_UPLOAD)


@entry("cuGraphExecDestroy", "L", anytime=True)
def destroy_executable(driver: Driver, executable: Executable) -> None:
    del driver.executables[executable.handle]
    if driver.queues is not None:
        driver.queues.forget(*executable.lines.values())


@entry("cuGraphLaunch", "L S")
def launch(driver: Driver, executable: Executable, stream: DriverStream) -> None:
    """Do what a graph holds. Captures do not take launches of graphs."""
    stream.not_capturing()
    driver.do(stream, executable)
