"""Driver API: graphs, as streams capture them. Nodes that a program makes one by one are not provided."""

from __future__ import annotations

import ctypes
from collections import Counter
from functools import partial

from gpusim.driver.api_stream import stream_of
from gpusim.driver.codes import Code, DriverError
from gpusim.driver.graphs import Graph, UserObject, begin_capture, keep, launch_graph, release
from gpusim.driver.registry import function, get_uint, put_int, put_pointer, put_size
from gpusim.driver.state import Driver

_MODES = (0, 1, 2)  # CUstreamCaptureMode: global, of this thread, relaxed
_CAPTURING = 1  # CUstreamCaptureStatus
_MOVE = 1  # CUuserObjectRetain_flags
_UPDATED, _CHANGED = 0, 2  # CUgraphExecUpdateResult: success, other nodes or dependencies
_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _graph_of(driver: Driver, handle: int) -> Graph:
    if handle not in driver.graphs:
        raise DriverError(Code.INVALID_VALUE)
    return driver.graphs[handle]


def _copy_of(driver: Driver, graph: Graph) -> int:
    """Handle of a graph with the same work, which refers to the same objects."""
    keep(driver, graph.objects)
    made = Graph(driver.new_handle(), list(graph.nodes), graph.objects.copy())
    driver.graphs[made.handle] = made
    return made.handle


# --- capture ----------------------------------------------------------------------------------------------------------


@function("cuStreamBeginCapture_v2", "pu", since=10010)
def begin(driver: Driver, stream: int, mode: int) -> None:
    if mode not in _MODES:
        raise DriverError(Code.INVALID_VALUE)
    begin_capture(driver, stream_of(driver, stream))


@function("cuStreamEndCapture", "pp")
def end(driver: Driver, handle: int, graph: int) -> None:
    stream = stream_of(driver, handle)
    capture = stream.capture
    put_pointer(graph, 0)
    if capture is None:
        raise DriverError(Code.ILLEGAL_STATE)
    if capture.origin is not stream:
        raise DriverError(Code.STREAM_CAPTURE_UNMATCHED)
    if not capture.close():
        raise DriverError(Code.STREAM_CAPTURE_UNJOINED)
    driver.graphs[capture.graph.handle] = capture.graph
    put_pointer(graph, capture.graph.handle)


@function("cuStreamIsCapturing", "pp")
def is_capturing(driver: Driver, handle: int, status: int) -> None:
    put_int(status, _CAPTURING if stream_of(driver, handle).capture else 0)


@function("cuStreamGetCaptureInfo_v3", "ppppppp", since=12030)
def capture_info(
    driver: Driver, handle: int, status: int, number: int, graph: int, nodes: int, edges: int, count: int
) -> None:
    """The array of nodes stays valid until the next call for the same capture. No edge has data of its own."""
    capture = stream_of(driver, handle).capture
    put_int(status, _CAPTURING if capture else 0)
    if capture is None:
        return
    last = [node.handle for node in capture.ends[handle]]
    capture.reported = (ctypes.c_uint64 * len(last))(*last)
    driver.graphs[capture.graph.handle] = capture.graph
    put_size(number, capture.handle)
    put_pointer(graph, capture.graph.handle)
    put_pointer(nodes, ctypes.addressof(capture.reported))
    put_pointer(edges, 0)
    put_size(count, len(last))


@function("cuStreamGetCaptureInfo_v2", "pppppp", since=11030)
def capture_info_without_edges(
    driver: Driver, handle: int, status: int, number: int, graph: int, nodes: int, count: int
) -> None:
    capture_info(driver, handle, status, number, graph, nodes, 0, count)


@function("cuThreadExchangeStreamCaptureMode", "p", anytime=True)
def exchange_mode(driver: Driver, mode: int) -> None:
    """What other threads may do during a capture: kept for who asks, and nothing is refused for it."""
    given = get_uint(mode)
    if given not in _MODES:
        raise DriverError(Code.INVALID_VALUE)
    put_int(mode, driver.exchange_capture_mode(given))


# --- graphs and what is launched --------------------------------------------------------------------------------------


@function("cuGraphCreate", "pu", anytime=True)
def create(driver: Driver, graph: int, flags: int) -> None:
    put_pointer(graph, _copy_of(driver, Graph(0)))


@function("cuGraphClone", "pp", anytime=True)
def clone(driver: Driver, made: int, graph: int) -> None:
    put_pointer(made, _copy_of(driver, _graph_of(driver, graph)))


@function("cuGraphDestroy", "p", anytime=True)
def destroy(driver: Driver, graph: int) -> None:
    release(driver, _graph_of(driver, graph).objects)
    del driver.graphs[graph]


@function("cuGraphGetNodes", "ppp", anytime=True)
def get_nodes(driver: Driver, graph: int, nodes: int, count: int) -> None:
    """count: the room in `nodes`, and then how many there are."""
    found = _graph_of(driver, graph).nodes
    room = ctypes.c_uint64.from_address(count)
    for k in range(room.value if nodes else 0):
        put_pointer(nodes + 8 * k, found[k].handle if k < len(found) else 0)
    room.value = min(room.value, len(found)) if nodes else len(found)


@function("cuGraphNodeGetType", "pp", anytime=True)
def node_type(driver: Driver, handle: int, kind: int) -> None:
    nodes = (node for graph in driver.graphs.values() for node in graph.nodes)
    found = next((node for node in nodes if node.handle == handle), None)
    if found is None:
        raise DriverError(Code.INVALID_VALUE)
    put_int(kind, found.kind)


@function("cuGraphInstantiateWithFlags", "ppq", since=11040)
def instantiate(driver: Driver, executable: int, graph: int, flags: int) -> None:
    put_pointer(executable, _copy_of(driver, _graph_of(driver, graph)))


@function("cuGraphInstantiateWithParams", "ppp", since=12000)
def instantiate_with_parameters(driver: Driver, executable: int, graph: int, parameters: int) -> None:
    """CUDA_GRAPH_INSTANTIATE_PARAMS: flags, stream, and for the answer the node at fault and the result."""
    instantiate(driver, executable, graph, 0)
    put_pointer(parameters + 16, 0)
    put_int(parameters + 24, 0)


@function("cuGraphExecUpdate_v2", "ppp", since=12000)
def update(driver: Driver, executable: int, graph: int, answer: int) -> None:
    """CUgraphExecUpdateResultInfo: the result, and two nodes at fault."""
    old, new = _graph_of(driver, executable), _graph_of(driver, graph)
    same = _shape(old) == _shape(new)
    put_int(answer, _UPDATED if same else _CHANGED)
    put_pointer(answer + 8, 0)
    put_pointer(answer + 16, 0)
    if not same:
        raise DriverError(Code.GRAPH_EXEC_UPDATE_FAILURE)
    keep(driver, new.objects)
    release(driver, old.objects)
    old.nodes, old.objects = list(new.nodes), new.objects.copy()


def _shape(graph: Graph) -> list[tuple[int, frozenset[int]]]:
    """The nodes' kinds and dependencies, by number."""
    numbers = {node: k for k, node in enumerate(graph.nodes)}
    return [(node.kind, frozenset(numbers[before] for before in node.after)) for node in graph.nodes]


@function("cuGraphUpload", "pp")
def upload(driver: Driver, executable: int, stream: int) -> None:
    _graph_of(driver, executable)
    stream_of(driver, stream)


@function("cuGraphLaunch", "pp")
def launch(driver: Driver, executable: int, stream: int) -> None:
    launch_graph(driver, _graph_of(driver, executable), stream_of(driver, stream))


@function("cuGraphExecGetFlags", "pp", anytime=True)
def get_flags(driver: Driver, executable: int, flags: int) -> None:
    _graph_of(driver, executable)
    put_size(flags, 0)


@function("cuGraphExecDestroy", "p", anytime=True)
def destroy_executable(driver: Driver, executable: int) -> None:
    destroy(driver, executable)


# --- objects that graphs keep alive -----------------------------------------------------------------------------------


@function("cuUserObjectCreate", "pppuu", anytime=True)
def create_object(driver: Driver, made: int, data: int, destructor: int, references: int, flags: int) -> None:
    handle = driver.new_handle()
    driver.user_objects[handle] = UserObject(references, partial(_DESTRUCTOR(destructor), data))
    put_pointer(made, handle)


@function("cuUserObjectRetain", "pu", anytime=True)
def retain_object(driver: Driver, handle: int, count: int) -> None:
    keep(driver, Counter({handle: count}))


@function("cuUserObjectRelease", "pu", anytime=True)
def release_object(driver: Driver, handle: int, count: int) -> None:
    release(driver, Counter({handle: count}))


@function("cuGraphRetainUserObject", "ppuu", anytime=True)
def graph_keeps(driver: Driver, graph: int, handle: int, count: int, flags: int) -> None:
    given = Counter({handle: count})
    if not flags & _MOVE:
        keep(driver, given)
    _graph_of(driver, graph).objects.update(given)


@function("cuGraphReleaseUserObject", "ppu", anytime=True)
def graph_releases(driver: Driver, graph: int, handle: int, count: int) -> None:
    owner = _graph_of(driver, graph)
    if count > owner.objects[handle]:
        raise DriverError(Code.INVALID_VALUE)
    owner.objects.subtract({handle: count})
    release(driver, Counter({handle: count}))
