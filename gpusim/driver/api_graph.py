"""Driver API: graphs, as streams capture them. Nodes that a program makes one by one are not provided."""

from __future__ import annotations

import struct
from collections import Counter
from functools import partial

from gpusim.driver.caller import caller, get_pointer, get_uint, put_int, put_pointer
from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.objects import NO_ORIGIN, Capture, DriverStream, Graph, UserObject, new_handle
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver

_MODES = (0, 1, 2)  # CUstreamCaptureMode: global, of this thread, relaxed
_CAPTURING = 1  # CUstreamCaptureStatus
_MOVE = 1  # CUuserObjectRetain_flags
_UPDATED, _CHANGED = 0, 2  # CUgraphExecUpdateResult: success, other nodes or dependencies

entries(
    ("cuGraphExecGetFlags", "G *p", lambda driver, executable: 0),
    ("cuUserObjectRetain", "p u", lambda driver, handle, count: _keep(driver, Counter({handle: count}))),
    ("cuUserObjectRelease", "p u", lambda driver, handle, count: _release(driver, Counter({handle: count}))),
    anytime=True,
)
entries(
    ("cuStreamIsCapturing", "S *i", lambda driver, stream: _CAPTURING if stream.capture else 0),
    ("cuGraphUpload", "G S", nothing),
)


def _keep(driver: Driver, objects: Counter[int]) -> None:
    """Take references to user objects. Raises INVALID_VALUE for an unknown one."""
    fail_if(any(handle not in driver.user_objects for handle in objects), ResultCode.INVALID_VALUE)
    for handle, count in objects.items():
        driver.user_objects[handle].references += count


def _release(driver: Driver, objects: Counter[int]) -> None:
    """Give references to user objects back; those without any are destroyed, on the driver's thread."""
    for handle, count in objects.items():
        kept = known(driver.user_objects.get(handle), ResultCode.INVALID_VALUE)
        fail_if(count > kept.references, ResultCode.INVALID_VALUE)
        kept.references -= count
        if not kept.references:
            del driver.user_objects[handle]
            driver.call_on_host_thread(kept.destroy)


# --- capture ----------------------------------------------------------------------------------------------------------


@entry("cuStreamBeginCapture_v2", "S u", since=10010)
def begin(driver: Driver, stream: DriverStream, mode: int) -> None:
    fail_if(mode not in _MODES, ResultCode.INVALID_VALUE)
    fail_if(stream.handle in NO_ORIGIN, ResultCode.STREAM_CAPTURE_UNSUPPORTED)
    fail_if(stream.capture is not None, ResultCode.ILLEGAL_STATE)
    Capture(stream).join(stream, frozenset())


@entry("cuStreamEndCapture", "S p")
def end(driver: Driver, stream: DriverStream, graph: int) -> None:
    put_pointer(graph, 0)
    capture = known(stream.capture, ResultCode.ILLEGAL_STATE)
    fail_if(capture.origin is not stream, ResultCode.STREAM_CAPTURE_UNMATCHED)
    fail_if(not capture.close(), ResultCode.STREAM_CAPTURE_UNJOINED)
    driver.graphs[capture.graph.handle] = capture.graph
    put_pointer(graph, capture.graph.handle)


@entry("cuStreamGetCaptureInfo_v2", "S *i *p *p *p *p", since=11030)
def capture_info(driver: Driver, stream: DriverStream) -> tuple[int | None, ...]:
    """Status, number, graph, and nodes that the next work comes after: an array and how many. The array stays
    valid."""
    capture = stream.capture
    if capture is None:
        return 0, None, None, None, None
    last = [node.handle for node in capture.ends[stream.handle]]
    driver.graphs[capture.graph.handle] = capture.graph
    nodes = caller().keep(struct.pack(f"<{len(last)}Q", *last))
    return _CAPTURING, capture.handle, capture.graph.handle, nodes, len(last)


@entry("cuStreamGetCaptureInfo_v3", "S *i *p *p *p *p *p", since=12030)
def capture_info_with_edges(driver: Driver, stream: DriverStream) -> tuple[int | None, ...]:
    """The same; before the count the edges' data, of which no edge has any."""
    *found, count = capture_info(driver, stream)
    return *found, 0, count


@entry("cuThreadExchangeStreamCaptureMode", "p", anytime=True)
def exchange_mode(driver: Driver, mode: int) -> None:
    """What other threads may do during a capture: kept for who asks, and nothing is refused for it."""
    given = get_uint(mode)
    fail_if(given not in _MODES, ResultCode.INVALID_VALUE)
    put_int(mode, driver.exchange_capture_mode(given))


# --- graphs and what is launched --------------------------------------------------------------------------------------


@entry("cuGraphCreate", "*p (u)", anytime=True)
@entry("cuGraphClone", "*p G", anytime=True)
@entry("cuGraphInstantiateWithFlags", "*p G (q)", since=11040)
def copy_of(driver: Driver, graph: Graph | None = None) -> int:
    """Handle of a graph with the same work, which refers to the same objects."""
    made = Graph(list(graph.nodes), graph.objects.copy()) if graph else Graph()
    _keep(driver, made.objects)
    driver.graphs[made.handle] = made
    return made.handle


@entry("cuGraphInstantiateWithParams", "*p G p", since=12000)
def instantiate_with_parameters(driver: Driver, graph: Graph, parameters: int) -> int:
    """CUDA_GRAPH_INSTANTIATE_PARAMS: flags, stream, and for the answer the node at fault and the result."""
    executable = copy_of(driver, graph)
    put_pointer(parameters + 16, 0)
    put_int(parameters + 24, 0)
    return executable


@entry("cuGraphDestroy", "G", anytime=True)
@entry("cuGraphExecDestroy", "G", anytime=True)
def destroy(driver: Driver, graph: Graph) -> None:
    _release(driver, graph.objects)
    del driver.graphs[graph.handle]


@entry("cuGraphGetNodes", "G p p", anytime=True)
def get_nodes(driver: Driver, graph: Graph, nodes: int, count: int) -> None:
    """count: the room in `nodes`, and then how many there are."""
    found = graph.nodes
    room = get_pointer(count)
    for k in range(room if nodes else 0):
        put_pointer(nodes + 8 * k, found[k].handle if k < len(found) else 0)
    put_pointer(count, min(room, len(found)) if nodes else len(found))


@entry("cuGraphNodeGetType", "p *i", anytime=True)
def node_type(driver: Driver, handle: int) -> int:
    nodes = (node for graph in driver.graphs.values() for node in graph.nodes)
    return known(next((node for node in nodes if node.handle == handle), None), ResultCode.INVALID_VALUE).kind


@entry("cuGraphExecUpdate_v2", "G G p", since=12000)
def update(driver: Driver, old: Graph, new: Graph, answer: int) -> None:
    """CUgraphExecUpdateResultInfo: the result, and two nodes at fault."""
    same = _shape(old) == _shape(new)
    put_int(answer, _UPDATED if same else _CHANGED)
    put_pointer(answer + 8, 0)
    put_pointer(answer + 16, 0)
    fail_if(not same, ResultCode.GRAPH_EXEC_UPDATE_FAILURE)
    _keep(driver, new.objects)
    _release(driver, old.objects)
    old.nodes, old.objects = list(new.nodes), new.objects.copy()


def _shape(graph: Graph) -> list[tuple[int, frozenset[int]]]:
    """The nodes' kinds and dependencies, by number."""
    numbers = {node: k for k, node in enumerate(graph.nodes)}
    return [(node.kind, frozenset(numbers[before] for before in node.after)) for node in graph.nodes]


@entry("cuGraphLaunch", "G S")
def launch(driver: Driver, graph: Graph, stream: DriverStream) -> None:
    """Do, or capture, what a graph holds. It ends with the first kernel that fails."""
    for node in graph.nodes:
        driver.enqueue(stream, node.kind, node.work)
        if driver.context().failed is not None:
            return


# --- objects that graphs keep alive -----------------------------------------------------------------------------------


@entry("cuUserObjectCreate", "*p p p u (u)", anytime=True)
def create_object(driver: Driver, data: int, destructor: int, references: int) -> int:
    handle = new_handle()
    driver.user_objects[handle] = UserObject(references, partial(caller().function(destructor, "p"), data))
    return handle


@entry("cuGraphRetainUserObject", "G p u u", anytime=True)
def graph_keeps(driver: Driver, graph: Graph, handle: int, count: int, flags: int) -> None:
    given = Counter({handle: count})
    if not flags & _MOVE:
        _keep(driver, given)
    graph.objects.update(given)


@entry("cuGraphReleaseUserObject", "G p u", anytime=True)
def graph_releases(driver: Driver, graph: Graph, handle: int, count: int) -> None:
    fail_if(count > graph.objects[handle], ResultCode.INVALID_VALUE)
    graph.objects.subtract({handle: count})
    _release(driver, Counter({handle: count}))
