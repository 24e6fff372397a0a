"""Driver API: nodes of graphs that do what is inside them if, or as long as, a kernel says so."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import ClassVar

from gpusim.driver.caller import caller, put_pointer, read
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.registry import entry
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import CONDITIONAL, DeviceQueues, DriverStream, Graph, StreamWork

_IF, _WHILE, _SWITCH = range(3)  # CUgraphConditionalNodeType
_ASSIGN_DEFAULT = 1
_NODE = struct.Struct("<QIIQQ")


@dataclass(frozen=True, eq=False)
class Conditional(StreamWork):
    """Graphs of which one is done, by a condition's value. condition: its handle; how: CUgraphConditionalNodeType."""

    driver: Driver
    condition: int
    how: int
    bodies: tuple[Graph, ...]
    kind: ClassVar[int] = CONDITIONAL
    single: ClassVar[bool] = True

    @property
    def graphs(self) -> tuple[Graph, ...]:
        return self.bodies

    def copied(self) -> StreamWork:
        return replace(self, bodies=tuple(body.copied(inside=True) for body in self.bodies))

    def put(self, stream: DriverStream, queues: DeviceQueues) -> None:
        queues.clear()
        value = self._value()
        if self.how == _WHILE:
            while value and self.driver.context().failed is None:
                self.driver.do_graph(stream, self.bodies[0])
                value = self._value()
            return
        number = value if self.how == _SWITCH else int(not value)
        if number < len(self.bodies):
            self.driver.do_graph(stream, self.bodies[number])

    def _value(self) -> int:
        self.driver.wait_for_all()  # for the kernel that sets it
        return self.driver.device.conditions.get(self.condition, 0)


@entry("cuGraphConditionalHandleCreate", "*p G (C) u u", since=12030)
def create_handle(driver: Driver, graph: Graph, value: int, flags: int) -> int:
    """A number for a condition; its value is set by kernels and, if asked for, when a launch begins."""
    fail_if(flags & ~_ASSIGN_DEFAULT, ResultCode.INVALID_VALUE)
    handle = len(driver.conditions) + 1
    driver.conditions[handle] = value if flags & _ASSIGN_DEFAULT else None
    return handle


def begin(driver: Driver, graph: Graph) -> None:
    """Give conditions their values for a launch."""
    for each in graph.family():
        for node in each.nodes:
            if isinstance(node.work, Conditional):
                default = driver.conditions[node.work.condition]
                if default is not None:
                    driver.device.conditions[node.work.condition] = default


def read_condition(driver: Driver, graph: Graph, address: int, with_context: bool = True) -> Conditional:
    """Of CUDA_CONDITIONAL_NODE_PARAMS, where the bodies' handles are written: an array that stays. with_context: the
    program names it."""
    condition, how, count, _, context = _NODE.unpack(read(address, _NODE.size))
    allowed = {_IF: range(1, 3), _WHILE: range(1, 2), _SWITCH: range(1, 1 << 16)}
    wrong = condition not in driver.conditions or how not in allowed or count not in allowed[how]
    fail_if(wrong, ResultCode.INVALID_VALUE)
    if with_context:
        driver.context_of(context)
    bodies = tuple(Graph(inside=True) for _ in range(count))
    driver.graphs.update((body.handle, body) for body in bodies)
    put_pointer(address + 16, caller().keep(_handles(bodies)))
    return Conditional(driver, condition, how, bodies)


def condition_bytes(work: Conditional) -> bytes:
    """The same."""
    return _NODE.pack(work.condition, work.how, len(work.bodies), caller().keep(_handles(work.bodies)), 0)


def _handles(graphs: tuple[Graph, ...]) -> bytes:
    return struct.pack(f"<{len(graphs)}Q", *(each.handle for each in graphs))
