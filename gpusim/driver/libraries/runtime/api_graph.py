"""Runtime API: nodes of graphs, where their parameters differ from the driver's: kernels by the host's functions,
copies as cudaMemcpy3DParms, and copies of bytes and of variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from gpusim.driver.api.copy import MemoryCopy
from gpusim.driver.api.node import NODES, add, declare, not_empty, read_kernel
from gpusim.driver.libraries.runtime.api_memory import (
    copy_1d,
    copy_3d,
    copy_from_symbol,
    copy_to_symbol,
)
from gpusim.driver.registry import entry
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import COPY, KERNEL, MEMORY_OPERATIONS, Graph

_OWN = {
    KERNEL: replace(NODES[KERNEL], read=partial(read_kernel, version=1)),
    COPY: replace(NODES[COPY], read=lambda driver, graph, at: not_empty(copy_3d(driver, at))),
}
declare("cuda", {n: replace((NODES | _OWN)[n], extra="") for n in NODES if n != MEMORY_OPERATIONS})


Make = Callable[..., MemoryCopy]
"""A copy, of a driver and what the program says of it."""


def _add_copy(make: Make, driver: Driver, graph: Graph, nodes: int, count: int, *what: int) -> int:
    return add(driver, graph, nodes, count, not_empty(make(driver, *what).checked()))


for _name, _make, _arguments in (
    ("1D", copy_1d, "p p q i"),
    ("ToSymbol", copy_to_symbol, "p p q q i"),
    ("FromSymbol", copy_from_symbol, "p p q q i"),
):
    entry(f"cudaGraphAddMemcpyNode{_name}", f"*p G p q {_arguments}")(partial(_add_copy, _make))
