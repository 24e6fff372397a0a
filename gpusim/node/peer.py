"""Arrays of a kernel that live on another GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim.config import GPUConfig
from gpusim.engine.memory.system import PeerRow
from gpusim.errors import NodeError
from gpusim.launch.memory import DeviceMemory
from gpusim.node.topology import Node


@dataclass(frozen=True)
class Peer:
    """An array, and the GPU that it lives on."""

    gpu: str
    array: np.ndarray


def on(gpu: str, array: np.ndarray) -> Peer:
    """An argument of `gpusim.simulate` that lies in the memory of another GPU of the node.

    The kernel runs on "gpu0"; its loads, stores and atomics on the array go over the links between the two:

        gpusim.simulate(kernel, grid, block, (gpusim.node.on("gpu1", x), y), node="hgx_h200")

    Raises NodeError for what is no array.
    """
    if not isinstance(array, np.ndarray):
        raise NodeError(f"only arrays live on a GPU, not {type(array).__name__}")
    return Peer(gpu, array)


def without_peers(args: Sequence[Any]) -> tuple[tuple[Any, ...], dict[int, str]]:
    """Arguments as they are on one GPU, and for those that live elsewhere the GPU, by position."""
    where = {position: each.gpu for position, each in enumerate(args) if isinstance(each, Peer)}
    return tuple(each.array if isinstance(each, Peer) else each for each in args), where


def peer_rows(
    node: Node, where: Mapping[int, str], addresses: Mapping[int, int], memory: DeviceMemory, config: GPUConfig
) -> list[PeerRow]:
    """Return the rows that `MemorySystem.set_peers` takes, for the arrays at `addresses` by position.

    Raises NodeError for a GPU that is not there, that the kernel runs on itself, or that cannot be reached.
    """
    here, held = node.gpus[0], []
    for position, gpu in where.items():
        if gpu not in node.gpus or gpu == here:
            others = ", ".join(node.gpus[1:])
            raise NodeError(f"argument {position} lives on {gpu!r}; the kernel runs on {here}, its peers are {others}")
        allocation = memory.holding(addresses[position])
        assert allocation is not None
        held.append((gpu, allocation.address, allocation.nbytes))
    return rows_from(node, here, held, config)


def rows_from(node: Node, here: str, held: Sequence[tuple[str, int, int]], config: GPUConfig) -> list[PeerRow]:
    """The rows of memory on other GPUs, as (GPU, address, bytes), for kernels that run on `here`. Links are numbered as
    NVLinks are in the node. The way there and back adds the latency of its links to that of a hit in L2.

    Raises NodeError for a GPU that cannot be reached over NVLink.
    """
    numbers = {k: n for n, k in enumerate(k for k, link in enumerate(node.links) if link.kind == "nvlink")}
    rows = []
    for gpu, address, nbytes in held:
        out, back = node.path(here, gpu), node.path(gpu, here)
        if any(k not in numbers for k in (*out, *back)):
            raise NodeError(f"{here} reaches {gpu} over {node.links[out[0]].name}: kernels read peers over NVLink only")
        cycles = (node.latency_us(out) + node.latency_us(back)) * config.gpu.clock_mhz
        gb_s = min(node.bandwidth_gb_s(out), node.bandwidth_gb_s(back)) * node.config.nvlink.sm_share
        there, home = [(numbers[way[0]], numbers[way[-1]]) for way in (out, back)]
        rows.append(PeerRow(address, nbytes, cycles, gb_s * 1e3 / config.gpu.clock_mhz, there, home))
    return rows
