"""Work and its order: pieces of work, streams and events, and graphs, captured or made by hand.

A piece of work is an object that knows its parameters. It is put into a stream of the device; while the stream is
captured, it becomes a node of a graph instead, the same as a program makes node by node. What is launched of a graph is
its work as it is then, which runs as the dependencies allow (`gpusim.node.graphs`).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any
from weakref import WeakValueDictionary

from gpusim.driver.codes import DriverError, ResultCode, fail_if, known

KERNEL, COPY, FILL, HOST_CALL, CHILD, EMPTY, WAIT_EVENT, RECORD_EVENT = range(8)  # CUgraphNodeType
GLOBAL, OF_THREAD, RELAXED = range(3)  # CUstreamCaptureMode
DISABLE_TIMING, INTERPROCESS = 2, 4  # CUevent_flags
NO_ORIGIN = (0, 1)
"""The default stream, which waits for others and they for it: nothing can be captured there."""
OF_EACH_THREAD = 2
"""Handle of the calling thread's own default stream."""
NON_BLOCKING = 1  # CUstream_flags: it and the default stream do not wait for each other
HOST_THREAD = "gpusim host calls"
"""The thread that calls functions of the host."""


def called_by_stream() -> bool:
    """Return whether this thread is in a function that a stream calls."""
    return threading.current_thread().name.startswith(HOST_THREAD)


_handles = itertools.count(0x5EED_0000_0010, 0x10)


def new_handle() -> int:
    """A new handle, unique in the process, so that a stale one is never taken for another."""
    return next(_handles)


class StreamWork:
    """Something that a stream does; of this class itself, nothing. kind: of a node with it."""

    kind: int = EMPTY

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """Graphs inside."""
        return ()

    def put(self, stream: DriverStream, queues: Any) -> None:
        """Put it into the device's queue of a stream; what cannot be there is done, with nothing beside. queues: a
        `WorkQueues`."""

    def copied(self) -> StreamWork:
        """Return this work for a copy of its graph."""
        return self


@dataclass(frozen=True, eq=False)
class SimpleWork(StreamWork):
    """Work that one function of the queues does. into: puts it there."""

    into: Callable[[DriverStream, Any], object]
    kind: int = EMPTY  # pyrefly: ignore[bad-override]

    def put(self, stream: DriverStream, queues: Any) -> None:
        self.into(stream, queues)


@dataclass(eq=False)
class GraphNode:
    """A piece of work in a graph. after: nodes that it waits for, as keys."""

    work: StreamWork
    graph: Graph
    after: dict[GraphNode, None]
    handle: int = field(default_factory=new_handle)

    def __post_init__(self) -> None:
        _nodes[self.handle] = self


_nodes: WeakValueDictionary[int, GraphNode] = WeakValueDictionary()


def node_of(handle: int) -> GraphNode:
    """The node of a handle. Raises INVALID_VALUE."""
    return known(_nodes.get(handle), ResultCode.INVALID_VALUE)


@dataclass(eq=False)
class Graph:
    """A graph. nodes: as keys, in the order in which they were made. inside: whether it is part of another."""

    nodes: dict[GraphNode, None] = field(default_factory=dict)
    inside: bool = False
    handle: int = field(default_factory=new_handle)

    def add(self, work: StreamWork, after: Iterable[GraphNode] = ()) -> GraphNode:
        """A new node. Raises INVALID_VALUE if it is to wait for nodes of other graphs, or for one twice."""
        node = GraphNode(work, self, {})
        for before in after:
            self.connect(before, node)
        self.nodes[node] = None
        return node

    def connect(self, before: GraphNode, node: GraphNode) -> None:
        """Add an edge. Raises INVALID_VALUE if there is one, or the nodes are not both of this graph."""
        fail_if(before.graph is not self or node.graph is not self, ResultCode.INVALID_VALUE)
        fail_if(before in node.after or before is node, ResultCode.INVALID_VALUE)
        node.after[before] = None

    def ordered(self) -> list[GraphNode]:
        """The nodes, each behind those that it waits for. Raises INVALID_VALUE for a circle."""
        done: set[GraphNode] = set()
        for node in self.nodes:
            if not done.issuperset(node.after):
                break
            done.add(node)
        else:
            return list(self.nodes)
        try:
            return list(TopologicalSorter({node: node.after for node in self.nodes}).static_order())
        except CycleError:
            raise DriverError(ResultCode.INVALID_VALUE) from None

    def family(self) -> Iterator[Graph]:
        """The graph and all inside it."""
        yield self
        for node in self.nodes:
            for inner in node.work.graphs:
                yield from inner.family()

    def copied(self, inside: bool = False) -> Graph:
        """A graph with copies of the nodes."""
        made = Graph(inside=inside)
        copies = {node: GraphNode(node.work.copied(), made, {}) for node in self.nodes}
        for node, copy in copies.items():
            copy.after = {copies[before]: None for before in node.after}
        made.nodes = dict.fromkeys(copies.values())
        return made

    def steps_into(self, steps: list[Step], behind: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Add all work to steps, that of graphs inside among it, behind some of them. Returns the numbers of those
        that have to end for the graph to have ended. Raises INVALID_VALUE for a circle."""
        ends: dict[GraphNode, tuple[int, ...]] = {}
        for node in self.ordered():
            after = _together(ends[each] for each in node.after) if node.after else behind
            if node.work.graphs:
                ends[node] = node.work.graphs[0].steps_into(steps, after)
            else:
                ends[node] = (len(steps),)
                steps.append((node.work, after))
        waited_for = {each for node in self.nodes for each in node.after}
        return _together(end for node, end in ends.items() if node not in waited_for) or behind


Step = tuple[StreamWork, tuple[int, ...]]
"""Work of a graph, and the numbers of the steps that come before it."""


def _together(groups: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for group in groups for number in group))


@dataclass(eq=False)
class Executable:
    """A graph made ready to launch. flags: CUgraphInstantiate_flags. graph: the device's; lines: streams as programs
    know them, by the device's; both from the first launch on. The first line shows as the stream in which it is
    launched, others as streams of their own."""

    flags: int
    steps: list[Step]
    graph: Any = None
    lines: dict[Any, DriverStream] = field(default_factory=dict)
    handle: int = field(default_factory=new_handle)


@dataclass(eq=False)
class Capture:
    """A capture in progress. graph: gets the work. ends: what the next work of each stream that takes part comes
    after. thread, mode: who captures, and what it lets others do meanwhile. valid: nothing has happened that a capture
    does not survive."""

    origin: DriverStream
    graph: Graph = field(default_factory=Graph)
    handle: int = field(default_factory=new_handle)
    ends: dict[int, dict[GraphNode, None]] = field(default_factory=dict)
    streams: list[DriverStream] = field(default_factory=list)
    thread: int = field(default_factory=threading.get_ident)
    mode: int = GLOBAL
    open: bool = True
    valid: bool = True

    def join(self, stream: DriverStream, after: Iterable[GraphNode]) -> None:
        """Let a stream take part, or wait for more. Raises STREAM_CAPTURE_MERGE, STREAM_CAPTURE_IMPLICIT."""
        fail_if(stream.handle in NO_ORIGIN, ResultCode.STREAM_CAPTURE_IMPLICIT)
        fail_if(stream.capture not in (None, self), ResultCode.STREAM_CAPTURE_MERGE)
        if stream.capture is None:
            stream.capture = self
            self.streams.append(stream)
        self.ends.setdefault(stream.handle, {}).update(dict.fromkeys(after))

    def add(self, stream: DriverStream, work: StreamWork) -> None:
        """Note work of a stream. Raises STREAM_CAPTURE_INVALIDATED."""
        fail_if(not self.valid, ResultCode.STREAM_CAPTURE_INVALIDATED)
        self.ends[stream.handle] = {self.graph.add(work, self.ends[stream.handle]): None}

    def close(self) -> bool:
        """End the capture; whether the work of all streams comes before what the first one would do next."""
        self.open = False
        for stream in self.streams:
            stream.capture = None
        waited_for = {before for node in self.graph.nodes for before in node.after}
        last = {node for ends in self.ends.values() for node in ends}
        return last - waited_for <= self.ends[self.origin.handle].keys()


@dataclass(eq=False)
class DriverStream:
    """An order of work of a GPU. capture: what its work goes into instead of being done. attributes: what the program
    set, by number of `CUlaunchAttributeID`. shown_handle: what reports print; differs from `handle` for default streams
    of threads and branches of graphs. branch: it is one of a graph that is launched. nvtx_range: around the last call;
    correlation: its number."""

    gpu: Any
    flags: int = 0
    handle: int = field(default_factory=new_handle)
    shown_handle: int = -1
    branch: bool = False
    nvtx_range: str = ""
    correlation: int = 0
    capture: Capture | None = None
    attributes: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shown_handle = self.handle if self.shown_handle < 0 else self.shown_handle

    def not_capturing(self) -> DriverStream:
        """The stream. Raises STREAM_CAPTURE_UNSUPPORTED if its work is being captured."""
        fail_if(self.capture is not None, ResultCode.STREAM_CAPTURE_UNSUPPORTED)
        return self


@dataclass
class DriverEvent:
    """A point in simulated time; or, recorded in a capture, what comes before it there. work: where it was recorded
    last, a `RecordWork`, and which of the times it is that streams have work."""

    flags: int
    handle: int = field(default_factory=new_handle)
    work: tuple[Any, int] | None = None
    captured: tuple[Capture, tuple[GraphNode, ...]] | None = None

    @property
    def cycle(self) -> int | None:
        """SM clock cycle at which it was reached, None before that."""
        time = None if self.work is None else self.work[0].time
        return None if time is None else round(time)
