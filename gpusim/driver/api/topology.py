"""Driver API: nodes of graphs and the edges between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gpusim.driver.api.capture import nodes_at
from gpusim.driver.api.node import NODES
from gpusim.driver.caller import get_pointer, put_pointer
from gpusim.driver.codes import DriverError, ResultCode, fail_if
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import Graph, GraphNode


def _inside(node: GraphNode) -> Graph:
    """The graph that a node is. Raises INVALID_VALUE."""
    fail_if(not node.work.graphs, ResultCode.INVALID_VALUE)
    return node.work.graphs[0]


def _put(count: int, *columns: tuple[int, Iterable[GraphNode]], data: Sequence[int] = ()) -> None:
    """Write nodes, each column to an address, 0 where the caller does not want it. count: the place of the room, and of
    how many there are. data: a place for the edges' data, which are 0. Wanted is what the first column's address
    says."""
    handles = [(place, [node.handle for node in nodes]) for place, nodes in columns]
    room, found = get_pointer(count), len(handles[0][1])
    if columns[0][0]:
        found = min(room, found)
        for address, words in (*handles, *((place, [0] * found) for place in data)):
            for k in range(room if address else 0):
                put_pointer(address + 8 * k, words[k] if k < found else 0)
    put_pointer(count, found)


def _put_edges(rest: Sequence[int], *columns: tuple[int, Iterable[GraphNode]]) -> None:
    """rest: of newer variants a place for the edges' data, and that of the count."""
    *data, count = rest
    fail_if(columns[0][0] and not get_pointer(count), ResultCode.INVALID_VALUE)
    _put(count, *columns, data=data)


def _edges(driver: Driver, graph: Graph, first: int, last: int, *rest: int) -> None:
    edges = graph.edges()
    _put_edges(rest, (first, [a for a, _ in edges]), (last, [b for _, b in edges]))


def _dependencies(driver: Driver, node: GraphNode, nodes: int, *rest: int) -> None:
    _put_edges(rest, (nodes, node.after))


def _dependents(driver: Driver, node: GraphNode, nodes: int, *rest: int) -> None:
    _put_edges(rest, (nodes, [after for before, after in node.graph.edges() if before is node]))


def _connect(driver: Driver, graph: Graph, first: int, last: int, *rest: int) -> None:
    *data, count = rest
    for before, node in zip(nodes_at(first, count, *data), nodes_at(last, count), strict=True):
        graph.connect(before, node)


def _roots(graph: Graph) -> list[GraphNode]:
    return [node for node in graph.nodes if not node.after]


entries(
    ("cuGraphNodeGetType", "N *i", lambda driver, node: node.work.kind),
    ("cuGraphChildGraphNodeGetGraph", "N *p", lambda driver, node: _inside(node).handle),
    ("cuGraphGetNodes", "G p p", lambda driver, graph, place, count: _put(count, (place, graph.nodes))),
    ("cuGraphGetRootNodes", "G p p", lambda driver, graph, place, count: _put(count, (place, _roots(graph)))),
    ("cuGraphGetEdges 10000", "G p p p", _edges),
    ("cuGraphGetEdges_v2 12030", "G p p p p", _edges),
    ("cuGraphNodeGetDependencies 10000", "N p p", _dependencies),
    ("cuGraphNodeGetDependencies_v2 12030", "N p p p", _dependencies),
    ("cuGraphNodeGetDependentNodes 10000", "N p p", _dependents),
    ("cuGraphNodeGetDependentNodes_v2 12030", "N p p p", _dependents),
    ("cuGraphAddDependencies 10000", "G p p q", _connect),
    ("cuGraphAddDependencies_v2 12030", "G p p p q", _connect),
    anytime=True,
)


@entry("cuGraphDebugDotPrint", "G T (u)", anytime=True)
def print_dot(driver: Driver, graph: Graph, path: str) -> None:
    """The graph in the language of Graphviz, nodes by kind and number."""
    lines = ["digraph dot {"]
    for k, each in enumerate(graph.family()):
        number = {node: f"graph_{k}_node_{i}" for i, node in enumerate(each.nodes)}
        lines.append(f"subgraph cluster_{k} {{")
        for node, name in number.items():
            lines.append(f'"{name}" [shape="rectangle" label="{NODES[node.work.kind][0]}"];')
        lines += [f'"{number[before]}" -> "{number[node]}";' for before, node in each.edges()]
        lines.append("}")
    try:
        Path(path).write_text("\n".join([*lines, "}", ""]))
    except OSError:
        raise DriverError(ResultCode.INVALID_VALUE) from None
