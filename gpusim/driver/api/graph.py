"""Driver API: graphs and what is launched of them. `capture` lets streams make their nodes,
`node` programs."""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.driver.caller import get_pointer, put_int, put_pointer
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import CHILD, DriverStream, Executable, Graph, Step, StreamWork

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
