"""Driver API: nodes of graphs and the edges between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gpusim.driver.api.capture import nodes_at
from gpusim.driver.api.node import NODES
from gpusim.driver.caller import get_pointer, get_pointers, put_pointer
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import KERNEL, Edge, Graph, GraphNode

_PROGRAMMATIC = (0x1_00_01, 0x1_00_02)
"""Data of edges (from the first byte on: ports of the two nodes, kind) between kernels that may overlap."""

entries(
    ("cuGraphNodeGetType", "N *i", lambda driver, node: node.work.kind),
    ("cuGraphChildGraphNodeGetGraph", "N *p", lambda driver, node: _inside(node).handle),
    ("cuGraphNodeGetContainingGraph", "N *p", lambda driver, node: node.graph.handle),
    ("cuGraphNodeGetLocalId", "N *i", lambda driver, node: list(node.graph.nodes).index(node)),
    ("cuGraphNodeGetToolsId", "N *p", lambda driver, node: node.handle),
    anytime=True,
)


def _inside(node: GraphNode) -> Graph:
    """The graph that a node is. Raises INVALID_VALUE."""
    fail_if(not node.work.graphs, ResultCode.INVALID_VALUE)
    return node.work.graphs[0]


def put_handles(count: int, *columns: tuple[int, Sequence[int]]) -> None:
    """Write arrays of 64-bit words for the caller. count: the place of the room, and of how many there are. A column:
    an address, 0 where the caller does not want it, and the words. Wanted is what the first column's address says."""
    room, found = get_pointer(count), len(columns[0][1])
    if columns[0][0]:
        found = min(room, found)
        for address, words in columns:
            for k in range(room if address else 0):
                put_pointer(address + 8 * k, words[k] if k < found else 0)
    put_pointer(count, found)


@entry("cuGraphGetNodes", "G p p", anytime=True)
def get_nodes(driver: Driver, graph: Graph, nodes: int, count: int) -> None:
    put_handles(count, (nodes, [node.handle for node in graph.nodes]))


@entry("cuGraphGetRootNodes", "G p p", anytime=True)
def get_roots(driver: Driver, graph: Graph, nodes: int, count: int) -> None:
    put_handles(count, (nodes, [node.handle for node in graph.nodes if not node.after]))


def _put_edges(count: int, data: int, edges: list[Edge], *columns: tuple[int, list[GraphNode]]) -> None:
    """Write edges: nodes, each column to an address, and the edges' data. Raises LOSSY_QUERY if there are some and the
    caller, who wants edges, has no place for them."""
    words = [each for *_, each in edges]
    fail_if(columns[0][0] and not get_pointer(count), ResultCode.INVALID_VALUE)
    fail_if(columns[0][0] and not data and any(words), ResultCode.LOSSY_QUERY)
    handles = [(place, [node.handle for node in nodes]) for place, nodes in columns]
    put_handles(count, *handles, (data, words))


@entry("cuGraphGetEdges_v2", "G p p p p", since=12030, anytime=True)
def get_edges(driver: Driver, graph: Graph, first: int, last: int, data: int, count: int) -> None:
    edges = graph.edges()
    _put_edges(count, data, edges, (first, [a for a, _, _ in edges]), (last, [b for _, b, _ in edges]))


@entry("cuGraphNodeGetDependencies_v2", "N p p p", since=12030, anytime=True)
def get_dependencies(driver: Driver, node: GraphNode, nodes: int, data: int, count: int) -> None:
    edges = [(before, node, each) for before, each in node.after.items()]
    _put_edges(count, data, edges, (nodes, list(node.after)))


@entry("cuGraphNodeGetDependentNodes_v2", "N p p p", since=12030, anytime=True)
def get_dependents(driver: Driver, node: GraphNode, nodes: int, data: int, count: int) -> None:
    edges = [edge for edge in node.graph.edges() if edge[0] is node]
    _put_edges(count, data, edges, (nodes, [after for _, after, _ in edges]))


@entry("cuGraphAddDependencies_v2", "G p p p q", since=12030, anytime=True)
def add_dependencies(driver: Driver, graph: Graph, first: int, last: int, data: int, count: int) -> None:
    edges = get_pointers(data, count) if data else (0,) * count
    for before, node, each in zip(nodes_at(first, count), nodes_at(last, count), edges, strict=True):
        kernels = before.work.kind == node.work.kind == KERNEL
        fail_if(each and not (kernels and each in _PROGRAMMATIC), ResultCode.INVALID_VALUE)
        graph.connect(before, node, each)


def _without_data(run: Callable[..., None], driver: Driver, *given: Any) -> None:
    """The variants of CUDA 12.2 and before."""
    run(driver, *given[:-1], 0, given[-1])


for _name, _signature, _run in (
    ("cuGraphGetEdges", "G p p p", get_edges),
    ("cuGraphNodeGetDependencies", "N p p", get_dependencies),
    ("cuGraphNodeGetDependentNodes", "N p p", get_dependents),
    ("cuGraphAddDependencies", "G p p q", add_dependencies),
):
    entry(_name, _signature, since=10000, anytime=True)(partial(_without_data, _run))


@entry("cuGraphNodeFindInClone", "*p p G", anytime=True)
def find_in_clone(driver: Driver, original: int, graph: Graph) -> int:
    found = (node.handle for each in graph.family() for node in each.nodes if node.origin == original)
    return known(next(found, None), ResultCode.INVALID_VALUE)


@entry("cuGraphDebugDotPrint", "G T (u)", anytime=True)
def print_dot(driver: Driver, graph: Graph, path: str) -> None:
    """The graph in the language of Graphviz, nodes by kind and number."""
    lines = ["digraph dot {"]
    for k, each in enumerate(graph.family()):
        number = {node: f"graph_{k}_node_{i}" for i, node in enumerate(each.nodes)}
        lines.append(f"subgraph cluster_{k} {{")
        for node, name in number.items():
            lines.append(f'"{name}" [shape="rectangle" label="{NODES[node.work.kind].name}"];')
        lines += [f'"{number[before]}" -> "{number[node]}";' for before, node, _ in each.edges()]
        lines.append("}")
    try:
        Path(path).write_text("\n".join([*lines, "}", ""]))
    except OSError:
        raise DriverError(ResultCode.INVALID_VALUE) from None
