"""Graphs as they run: branches side by side in streams of the device, those of graphs inside among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from gpusim.driver.work.streams import CHILD, NON_BLOCKING, DriverStream, Graph, GraphNode, StreamWork
from gpusim.node.graphs import DeviceGraph, DeviceGraphNode
from gpusim.node.streams import Stream, StreamSet


class Branches(DeviceGraph):
    """The streams of a graph that is launched, which it has until it is destroyed.

    put: puts a node's work into one of them. by_queue: what `put` gets. The first one shows as the stream in which the
    graph is launched, the others as streams of their own.
    """

    def __init__(self, streams: StreamSet, graph: Graph, put: Callable[[DriverStream, StreamWork], None]):
        super().__init__(streams)
        self._put = put
        self._add(graph, ())
        self.by_queue = {line.queue: DriverStream(NON_BLOCKING, branch=True) for line in self.lines}

    def show_as(self, handle: int) -> None:
        """Let observers know the first one by the handle of the stream in which the graph is launched."""
        for line in list(self.by_queue.values())[:1]:
            line.shown_handle = handle

    def _add(self, graph: Graph, behind: tuple[DeviceGraphNode, ...]) -> tuple[DeviceGraphNode, ...]:
        """Add a graph's nodes behind others. Returns those that have to end for it to have ended."""
        ends: dict[GraphNode, tuple[DeviceGraphNode, ...]] = {}
        for node in graph.ordered():
            after = _together(ends[each] for each in node.after) if node.after else behind
            if node.work.kind == CHILD:
                ends[node] = self._add(node.work.graphs[0], after)
            else:
                ends[node] = (self.add(partial(self._do, node), after),)
        waited_for = {each for node in graph.nodes for each in node.after}
        return _together(end for node, end in ends.items() if node not in waited_for) or behind

    def _do(self, node: GraphNode, line: Stream) -> None:
        self._put(self.by_queue[line.queue], node.work)


def _together(groups: Iterable[tuple[DeviceGraphNode, ...]]) -> tuple[DeviceGraphNode, ...]:
    return tuple(dict.fromkeys(node for group in groups for node in group))
