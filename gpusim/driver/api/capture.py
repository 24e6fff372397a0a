"""Driver API: what streams do becomes a graph."""

from __future__ import annotations

import struct
from typing import Any

from gpusim.driver.caller import caller, get_pointers, get_uint, put_int, put_pointer
from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import Driver
from gpusim.driver.work import streams
from gpusim.driver.work.streams import GLOBAL, NO_ORIGIN, OF_THREAD, RELAXED, Capture, DriverStream, Graph, GraphNode

_MODES = (GLOBAL, OF_THREAD, RELAXED)
_NONE, _ACTIVE, _INVALIDATED = range(3)  # CUstreamCaptureStatus
_ADD, _SET = 0, 1  # CUstreamUpdateCaptureDependencies_flags


def _seen_status(driver: Driver, stream: DriverStream) -> int:
    """Nobody can tell of the null stream while one that waits for it is captured."""
    fail_if(driver.captures_waiting_for(stream), ResultCode.STREAM_CAPTURE_IMPLICIT)
    return _NONE if stream.capture is None else _ACTIVE if stream.capture.valid else _INVALIDATED


def nodes_at(address: int, count: int, data: int = 0) -> list[GraphNode]:
    """The nodes whose handles lie there. data: place of the data of edges from them. Raises INVALID_VALUE, and
    NOT_SUPPORTED for an edge that lets kernels overlap."""
    fail_if(data and any(get_pointers(data, count)), ResultCode.NOT_SUPPORTED, "edges of graphs have no data")
    return [streams.node_of(handle) for handle in get_pointers(address, count)]


@entry("cuStreamBeginCapture_v2 10010", "S u")
@entry("cuStreamBeginCaptureToGraph 12030", "S G p p q u")
def begin(driver: Driver, stream: DriverStream, *to: Any) -> None:
    """to: a graph and the nodes behind which it goes on, unless it is a new one, and CUstreamCaptureMode."""
    graph, nodes, data, count, mode = to if to[1:] else (Graph(), 0, 0, 0, *to)
    fail_if(mode not in _MODES, ResultCode.INVALID_VALUE)
    driver.not_in_implicit(stream)
    fail_if(stream.handle in NO_ORIGIN, ResultCode.STREAM_CAPTURE_UNSUPPORTED)
    fail_if(stream.capture is not None, ResultCode.ILLEGAL_STATE)
    capture = Capture(stream, graph, mode=mode)
    capture.join(stream, nodes_at(nodes, count, data))
    driver.captures.append(capture)


@entry("cuStreamEndCapture", "S p")
def end(driver: Driver, stream: DriverStream, graph: int) -> None:
    put_pointer(graph, 0)
    capture = known(stream.capture, ResultCode.ILLEGAL_STATE)
    capture.valid &= capture.origin is stream
    fail_if(capture.origin is not stream, ResultCode.STREAM_CAPTURE_UNMATCHED)
    joined = capture.close()
    driver.captures.remove(capture)
    fail_if(not capture.valid, ResultCode.STREAM_CAPTURE_INVALIDATED)
    fail_if(not joined, ResultCode.STREAM_CAPTURE_UNJOINED)
    driver.graphs[capture.graph.handle] = capture.graph
    put_pointer(graph, capture.graph.handle)


@entry("cuStreamGetCaptureInfo_v2 11030", "S *i *p *p *p *p")
def capture_info(driver: Driver, stream: DriverStream) -> tuple[int | None, ...]:
    """Status, number, graph, and nodes that the next work comes after: an array and how many. The array stays valid."""
    status, capture = _seen_status(driver, stream), stream.capture
    if capture is None or not capture.valid:
        return status, None, None, None, None
    last = [node.handle for node in capture.ends[stream.handle]]
    driver.graphs[capture.graph.handle] = capture.graph
    nodes = caller().keep(struct.pack(f"<{len(last)}Q", *last))
    return _ACTIVE, capture.handle, capture.graph.handle, nodes, len(last)


@entry("cuStreamGetCaptureInfo_v3 12030", "S *i *p *p *p *p *p")
def capture_info_with_edges(driver: Driver, stream: DriverStream) -> tuple[int | None, ...]:
    """Return `capture_info` with the edges' data before the count: zeros, since no edge of a capture has any."""
    *found, count = capture_info(driver, stream)
    return *found, caller().keep(bytes(8 * count)) if count else 0, count


@entry("cuStreamUpdateCaptureDependencies_v2 12030", "S p p q u")
@entry("cuStreamUpdateCaptureDependencies 11030", "S p q u")
def update_dependencies(driver: Driver, stream: DriverStream, nodes: int, *rest: int) -> None:
    """Say what the next work of a stream comes after. rest: of the newer variant the edges' data, count, and flags."""
    *data, count, flags = rest
    capture = known(stream.capture, ResultCode.ILLEGAL_STATE)
    fail_if(flags not in (_ADD, _SET), ResultCode.INVALID_VALUE)
    given = dict.fromkeys(nodes_at(nodes, count, *data))
    fail_if(any(node.graph is not capture.graph for node in given), ResultCode.INVALID_VALUE)
    capture.ends[stream.handle] = given if flags == _SET else capture.ends[stream.handle] | given


@entry("cuThreadExchangeStreamCaptureMode", "p", anytime=True)
def exchange_mode(driver: Driver, mode: int) -> None:
    """Exchange the mode that limits the calling thread during captures."""
    given = get_uint(mode)
    fail_if(given not in _MODES, ResultCode.INVALID_VALUE)
    put_int(mode, driver.thread.capture_mode)
    driver.thread.capture_mode = given


entries(
    ("cuStreamIsCapturing", "S *i", lambda driver, stream: _seen_status(driver, stream)),
    ("cuStreamGetCaptureInfo 10010", "S *i *p", lambda driver, stream: capture_info(driver, stream)[:2]),
)
