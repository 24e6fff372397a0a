"""Graphs: work that streams capture instead of doing it, done when the graph is launched, each time anew.

A launch does the captured work in the order in which it was captured, one of the orders that its dependencies allow.
The dependencies are kept to tell whether the streams that took part have come together again at the end.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpusim.driver.codes import Code, DriverError

if TYPE_CHECKING:
    from gpusim.driver.state import Driver, Stream

KERNEL, COPY, FILL, HOST_CALL = range(4)  # CUgraphNodeType
_OWN_ORIGIN = (0, 1)
"""The default streams that wait for others: nothing can be captured in them."""


@dataclass(frozen=True, eq=False)
class Node:
    """One piece of captured work. work: does it, as part of a launch in the stream that it is given."""

    handle: int
    kind: int
    work: Callable[[Stream], None]
    after: frozenset[Node]


@dataclass
class Graph:
    """A graph, or what was made of one to be launched. objects: references to user objects, by handle."""

    handle: int
    nodes: list[Node] = field(default_factory=list)
    objects: Counter[int] = field(default_factory=Counter)


@dataclass
class UserObject:
    """Something of the program's that graphs keep alive; `destroy` is called when nobody refers to it any more."""

    references: int
    destroy: Callable[[], None]


@dataclass
class Capture:
    """A capture in progress. ends: what the next work of each stream that takes part comes after."""

    handle: int
    origin: Stream
    graph: Graph
    ends: dict[int, frozenset[Node]] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    open: bool = True
    reported: ctypes.Array | None = None

    def join(self, stream: Stream, after: frozenset[Node]) -> None:
        """Let a stream take part, or wait for more. Raises STREAM_CAPTURE_MERGE, STREAM_CAPTURE_IMPLICIT."""
        if stream.handle in _OWN_ORIGIN:
            raise DriverError(Code.STREAM_CAPTURE_IMPLICIT)
        if stream.capture not in (None, self):
            raise DriverError(Code.STREAM_CAPTURE_MERGE)
        if stream.capture is None:
            stream.capture = self
            self.streams.append(stream)
        self.ends[stream.handle] = self.ends.get(stream.handle, frozenset()) | after

    def add(self, stream: Stream, node: Node) -> None:
        """Note work of a stream."""
        self.graph.nodes.append(node)
        self.ends[stream.handle] = frozenset((node,))

    def close(self) -> bool:
        """End the capture; whether all of its work comes before what the first stream would do next."""
        self.open = False
        waited_for = {before for node in self.graph.nodes for before in node.after}
        for stream in self.streams:
            stream.capture = None
        return set(self.graph.nodes) - waited_for <= self.ends[self.origin.handle]


def begin_capture(driver: Driver, stream: Stream) -> None:
    """Capture a stream's work from now on. Raises STREAM_CAPTURE_UNSUPPORTED, ILLEGAL_STATE."""
    if stream.handle in _OWN_ORIGIN:
        raise DriverError(Code.STREAM_CAPTURE_UNSUPPORTED)
    if stream.capture is not None:
        raise DriverError(Code.ILLEGAL_STATE)
    Capture(driver.new_handle(), stream, Graph(driver.new_handle())).join(stream, frozenset())


def enqueue(driver: Driver, stream: Stream, kind: int, work: Callable[[Stream], None]) -> None:
    """Do work of a stream, after the functions of the host that the stream has to call first; or note it, if the stream
    is being captured."""
    capture = stream.capture
    if capture is not None:
        capture.add(stream, Node(driver.new_handle(), kind, work, capture.ends[stream.handle]))
        return
    if kind != HOST_CALL:
        driver.wait_for_host_calls([stream])
    work(stream)


def launch_graph(driver: Driver, graph: Graph, stream: Stream) -> None:
    """Do, or capture, what a graph holds. It ends with the first kernel that fails."""
    for node in graph.nodes:
        enqueue(driver, stream, node.kind, node.work)
        if driver.context().failed is not None:
            return


def keep(driver: Driver, objects: Counter[int]) -> None:
    """Take references to user objects. Raises INVALID_VALUE for an unknown one."""
    if any(handle not in driver.user_objects for handle in objects):
        raise DriverError(Code.INVALID_VALUE)
    for handle, count in objects.items():
        driver.user_objects[handle].references += count


def release(driver: Driver, objects: Counter[int]) -> None:
    """Give references to user objects back; those without any are destroyed, on the driver's thread."""
    for handle, count in objects.items():
        kept = driver.user_objects.get(handle)
        if kept is None or count > kept.references:
            raise DriverError(Code.INVALID_VALUE)
        kept.references -= count
        if not kept.references:
            del driver.user_objects[handle]
            driver.call_on_host_thread(kept.destroy)
