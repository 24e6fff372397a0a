"""Driver API: graphs and what is launched of them. `api_capture` lets streams make their nodes, `api_node` programs;
`api_topology` says how they hang together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

from gpusim.driver.api.graph_memory import check_launch
from gpusim.driver.caller import caller, get_pointer, put_int, put_pointer
from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import (
    CHILD,
    DriverStream,
    Executable,
    Graph,
    Step,
    StreamWork,
    UserObject,
    new_handle,
)

_MOVE = 1  # CUuserObjectRetain_flags
_AUTO_FREE, _UPLOAD, _BY_NODE_PRIORITY = 1, 2, 8  # CUgraphInstantiate_flags
_CIRCLE = 2  # CUgraphInstantiateResult

entries(
    ("cuGraphExecGetFlags", "L *p", lambda driver, executable: executable.flags),
    ("cuGraphGetId", "G *i", lambda driver, graph: graph.handle & 0xFFFFFFFF),
    ("cuGraphExecGetId", "L *i", lambda driver, executable: executable.handle & 0xFFFFFFFF),
    ("cuUserObjectRetain", "p u", lambda driver, handle, count: _keep(driver, Counter({handle: count}))),
    ("cuUserObjectRelease", "p u", lambda driver, handle, count: _release(driver, Counter({handle: count}))),
    anytime=True,
)
entries(("cuGraphUpload", "L S", nothing))


def register(driver: Driver, graph: Graph) -> int:
    """Make a graph known, and those inside it; its handle. Takes references to their objects."""
    for each in graph.family():
        _keep(driver, each.objects)
        driver.graphs[each.handle] = each
    return graph.handle


def _forget(driver: Driver, graph: Graph) -> None:
    for each in graph.family():
        driver.graphs.pop(each.handle, None)
        _release(driver, each.objects)


def copied(graph: Graph, inside: bool = False) -> Graph:
    """A copy. Raises NOT_SUPPORTED for a graph that cannot be copied."""
    fail_if(graph.single, ResultCode.NOT_SUPPORTED)
    return graph.copied(inside)


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


@entry("cuGraphClone", "*p G", anytime=True)
def clone(driver: Driver, graph: Graph) -> int:
    return register(driver, copied(graph))


@entry("cuGraphDestroy", "G", anytime=True)
def destroy(driver: Driver, graph: Graph) -> None:
    fail_if(graph.inside, ResultCode.INVALID_VALUE)
    _forget(driver, graph)


# --- what is launched -------------------------------------------------------------------------------------------------


@entry("cuGraphInstantiateWithFlags", "*p G q", since=11040)
def instantiate(driver: Driver, graph: Graph, flags: int) -> int:
    fail_if(flags & ~(_AUTO_FREE | _BY_NODE_PRIORITY), ResultCode.INVALID_VALUE)
    fail_if(graph.inside, ResultCode.NOT_SUPPORTED)
    again = graph.single and any(each.source == graph.handle for each in driver.executables.values())
    fail_if(again, ResultCode.NOT_SUPPORTED)
    steps: list[Step] = []
    graph.steps_into(steps)
    objects = sum((each.objects for each in graph.family()), Counter[int]())
    made = Executable(flags, graph.handle, objects, steps)
    _keep(driver, objects)
    driver.executables[made.handle] = made
    return made.handle


@entry("cuGraphInstantiate", "*p G p (pq)", since=10000)
@entry("cuGraphInstantiate_v2", "*p G p (pq)", since=11000)
def instantiate_with_log(driver: Driver, graph: Graph, fault: int) -> int:
    put_pointer(fault, 0)
    return instantiate(driver, graph, 0)


@entry("cuGraphInstantiateWithParams", "*p G p", since=12000)
def instantiate_with_parameters(driver: Driver, graph: Graph, parameters: int) -> int:
    """CUDA_GRAPH_INSTANTIATE_PARAMS: flags, stream, and for the answer the node at fault and the result."""
    fault = next((node for each in graph.family() for node in each.circle()), None)
    put_pointer(parameters + 16, fault.handle if fault else 0)
    put_int(parameters + 24, _CIRCLE if fault else 0)
    return instantiate(driver, graph, get_pointer(parameters) & ~_UPLOAD)


@entry("cuGraphExecDestroy", "L", anytime=True)
def destroy_executable(driver: Driver, executable: Executable) -> None:
    del driver.executables[executable.handle]
    _release(driver, executable.objects)
    if driver.queues is not None:
        driver.queues.forget_graph(executable)


@entry("cuGraphLaunch", "L S")
def launch(driver: Driver, executable: Executable, stream: DriverStream) -> None:
    """Do what a graph holds. Captures do not take launches of graphs."""
    stream.not_capturing()
    if any(work.single for work, _ in executable.steps):
        driver.wait_for_all()
    check_launch(driver, executable)
    driver.do(stream, executable)


# --- objects that graphs keep alive -----------------------------------------------------------------------------------


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
    graph.objects -= Counter({handle: count})
    _release(driver, Counter({handle: count}))
