"""Graphs of work: what waits for what is said once, and all of it is started by one call of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusim.engine.streams import StreamQueue
from gpusim.node.streams import Stream, StreamSet
from gpusim.node.work import RecordWork, TimedWork, WaitWork


@dataclass(eq=False)
class DeviceGraphNode:
    """A piece of work. put: puts it into the stream it is called with. after: nodes whose end it waits for."""

    put: Callable[[Stream], Any]
    after: tuple[DeviceGraphNode, ...]
    before: list[DeviceGraphNode] = field(default_factory=list)  # those that wait for it
    known: int = 0  # a bit for each node that has ended when it begins
    number: int = 0
    line: int = 0  # number of the stream in which it comes behind a node that has ended


class DeviceGraph:
    """Work that a GPU does as what waits for what allows; `Device.graph` makes it.

    Inside it runs in streams of its own (`lines`), as many as branches are side by side. Kernels follow each other
    sooner there than in a stream, and those that wait for one begin one after the other; more of them than
    `launch.fork_most` are handled otherwise, last first (H200, `forks`). A graph that is started again waits for its
    last run.
    """

    def __init__(self, streams: StreamSet):
        self._streams = streams
        self._nodes: list[DeviceGraphNode] = []
        self.lines: list[Stream] = []
        self._ends: list[DeviceGraphNode] = []  # the last node of each line
        self._last: tuple[StreamQueue, TimedWork] | None = None  # where it was started last, and its end there

    def add(self, put: Callable[[Stream], Any], after: Sequence[DeviceGraphNode] = ()) -> DeviceGraphNode:
        """Add work. put: is called with a stream at each start, to put there one launch, copy or call of the host, such
        as `lambda stream: x.copy_to_device(host, stream)`. Raises ValueError for nodes of another graph."""
        if any(self._nodes[each.number : each.number + 1] != [each] for each in after):
            raise ValueError("a node waits for nodes of its own graph alone")
        node = DeviceGraphNode(put, tuple(after), number=len(self._nodes))
        for each in after:
            node.known |= each.known | 1 << each.number
            each.before.append(node)
        behind = [each.line for each in after if self._ends[each.line] is each]
        behind += [k for k, end in enumerate(self._ends) if not behind and node.known >> end.number & 1]
        node.line = behind[0] if behind else len(self.lines)
        if node.line == len(self.lines):
            self.lines.append(Stream(self._streams, self._streams.engine.stream()))
            self._ends.append(node)
        self._ends[node.line] = node
        self._nodes.append(node)
        return node

    def _overhead(self, node: DeviceGraphNode) -> int | None:
        """Cycles from when a node may begin until a kernel's first blocks are handed out; None: as in a stream."""
        if not node.after:
            return None
        known = self._streams.engine.config.launch
        beside = max((one.before for one in node.after), key=len)
        turn = beside.index(node)
        if len(beside) <= known.fork_most:
            return known.node_cycles + turn * known.fork_interval_cycles
        return known.node_cycles + known.wide_fork_cycles + (len(beside) - 1 - turn) * known.wide_interval_cycles

    def start(self, stream: Stream) -> list[Any]:
        """Put all of it behind the work of a stream. Returns what the nodes' `put` have returned, in their order."""
        streams, env = self._streams, self._streams.env
        ended: dict[DeviceGraphNode, RecordWork] = {}
        found = []
        before = self._last
        with streams.one_call(streams.calls.launch_call_us):
            if before is not None and before[0] is not stream.queue and before[1] in before[0].pending:
                streams.put(stream.queue, WaitWork(env, [before[1].done]), 0)
            begun = RecordWork(env, ())
            streams.put(stream.queue, begun, 0)
            for node in self._nodes:
                queue = self.lines[node.line].queue
                queue.priority = stream.priority
                queue.overhead = self._overhead(node)
                others = [ended[each].done for each in node.after if each.line != node.line]
                if others or not node.after:
                    streams.put(queue, WaitWork(env, others or [begun.done]), 0)
                found.append(node.put(self.lines[node.line]))
                ended[node] = RecordWork(env, ())
                streams.put(queue, ended[node], 0)
            end = streams.put(stream.queue, WaitWork(env, [each.done for each in ended.values()]), 0)
        self._last = stream.queue, end
        return found
