"""Runtime API: nodes of graphs, where their parameters differ from the driver's: kernels by the host's functions,
copies as cudaMemcpy3DParms, and copies of bytes and of variables."""

from __future__ import annotations

from functools import partial
from typing import Any

from gpusim.driver.api.node import NODES, declare, not_empty
from gpusim.driver.libraries.runtime.api_memory import Make, copy_1d, copy_3d, copy_from_symbol, copy_to_symbol
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import COPY, Graph, StreamWork


def _copy(make: Make, driver: Driver, graph: Graph, *what: Any) -> StreamWork:
    return not_empty(make(driver, *what).checked())


for _number, (_name, _arguments, _make) in NODES.items():
    declare(f"cudaGraphAdd{_name}Node", _arguments, partial(_copy, copy_3d) if _number == COPY else _make)
declare("cudaGraphAddMemcpyNode1D", "p p q i", partial(_copy, copy_1d))
declare("cudaGraphAddMemcpyNodeToSymbol", "p p q q i", partial(_copy, copy_to_symbol))
declare("cudaGraphAddMemcpyNodeFromSymbol", "p p q q i", partial(_copy, copy_from_symbol))
