"""A first-order model of a GPU's cost, the area of its die and its power, from its configuration.

    cost(load_config("h200", {"sm.count": 264})).area_mm2

The area of a die is that of its units (transistors by kind and number), arrays (cells by bytes), interfaces (by stack,
device and link) and a fixed part; `technology.py` holds the numbers and where they come from. Four factors were
fitted to known dies (`tests/gpusim/known_dies.py`). Power is leakage by area and energy by what happens.
docs/exploring.md explains both and says what they are good for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gpusim.config import GPUConfig
from gpusim.config.derived import peak_operations_per_s
from gpusim.errors import ConfigError
from gpusim.explore import technology as T


@dataclass(frozen=True)
class Structure:
    """A machine as the model counts it, in units, bytes and interfaces.

    node: name of a process node. sms: SMs. lanes: threads that an SM issues for in a cycle, all sub-partitions.
    fp32, integer, fp64, half, mufu: units of an SM by kind, one for a lane's operation per cycle; tensor: products of
    half precision per SM and cycle. register_bytes, l1_bytes, other_bytes, tensor_bytes: arrays of an SM.
    crossbar_bytes: bytes per cycle into and out of all SMs; slice_bytes: of all slices. l2_bytes: cache. memory: its
    kind; interfaces: its stacks, or devices of 32 bits; memory_gb_s: its bandwidth. links, nvlink: links to other GPUs
    and their generation. dies: that are one GPU; die_link_gb_s: between them, both directions.
    pcie: generation of 16 lanes. ray_tracing: whether SMs have units for it. clock_mhz: clock of the SMs.
    """

    node: str
    sms: int
    lanes: int
    fp32: float
    integer: float
    fp64: float
    half: float
    mufu: float
    tensor: float
    register_bytes: int
    l1_bytes: int
    other_bytes: int
    crossbar_bytes: float
    slice_bytes: float
    l2_bytes: int
    memory: str
    interfaces: float
    memory_gb_s: float
    links: int
    nvlink: int
    pcie: int
    ray_tracing: bool
    clock_mhz: float
    tensor_bytes: int = 0
    dies: int = 1
    die_link_gb_s: float = 0.0


@dataclass(frozen=True)
class Part:
    """One part of a machine: its area, and its power at `ACTIVITY`."""

    area_mm2: float
    power_w: float = 0.0


@dataclass(frozen=True)
class SiliconCost:
    """The cost of a machine. area_mm2: of all dies, with what the configuration enables, and no spare SMs. power_w: at
    `ACTIVITY`, memory included. parts: by name, the sums of which they are. structure: what was counted."""

    area_mm2: float
    power_w: float
    parts: Mapping[str, Part]
    structure: Structure

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        parts = {name: asdict(part) for name, part in self.parts.items()}
        return {"area_mm2": self.area_mm2, "power_w": self.power_w, "node": self.structure.node, "parts": parts}


ACTIVITY = {"issue": 0.5, "units": 0.25, "tensor": 0.7, "l1": 0.5, "l2": 0.3, "memory": 0.5, "links": 0.2}
"""Use of a machine's parts, as shares of their peaks: a load that brings a product near its limit, large products of
half precision out of caches."""


def structure(config: GPUConfig, *, node: str | None = None, links: int | None = None) -> Structure:
    """Return the structure of a configuration. node, links: in place of what its `gpu.arch` implies.

    Raises ConfigError for a node that is not in `technology.NODES`.
    """
    if node is not None and node not in T.NODES:
        raise ConfigError(f"no process node {node!r}: there are {', '.join(T.NODES)}")
    kind = memory_of(config.dram.kind)
    family = family_of(config.gpu.arch, T.MEMORIES[kind].stacked)
    sm, pipes, crossbar = config.sm, config.pipes, config.crossbar
    lanes = sm.sub_partitions * config.gpu.warp_size
    tensor = peak_operations_per_s(config)["tensor"] / 2 / (sm.count * config.gpu.clock_mhz * 1e6)
    # Products of four warps (wgmma) have 64 rows, and 16 multiply-adds for each of a column.
    if _number(config.gpu.arch) >= 90:
        tensor = max(tensor, 64 * 16 * pipes.group_columns_per_cycle, family.products)
    icache, constant = config.icache, config.constant
    other = sm.sub_partitions * (icache.l0_bytes + constant.l0_bytes) + icache.l1_bytes + icache.l15_bytes
    ports = math.ceil(sm.count / crossbar.sms_per_port)
    return Structure(
        node=node or family.node,
        sms=sm.count,
        lanes=lanes,
        fp32=lanes / pipes.fma.initiation_cycles,
        integer=lanes / pipes.alu.initiation_cycles,
        fp64=lanes / pipes.fp64.initiation_cycles,
        half=lanes / pipes.half.initiation_cycles,
        mufu=lanes / pipes.xu.initiation_cycles,
        tensor=tensor,
        register_bytes=4 * sm.registers,
        l1_bytes=sm.unified_l1_bytes,
        other_bytes=other + constant.l15_bytes,
        tensor_bytes=family.tensor_bytes,
        dies=config.gpu.dies,
        die_link_gb_s=2e-3 * config.l2.fabric_bytes_per_cycle * config.gpu.clock_mhz * (config.gpu.dies - 1),
        crossbar_bytes=ports * (crossbar.port_request_bytes_per_cycle + crossbar.port_reply_bytes_per_cycle),
        slice_bytes=2 * config.l2.slices * config.l2.slice_bytes_per_cycle,
        l2_bytes=config.l2.bytes,
        memory=kind,
        # Faster pins than the kind has are more interfaces.
        interfaces=max(
            config.dram.channels / T.MEMORIES[kind].channels,
            config.dram.bandwidth_gb_s / T.MEMORIES[kind].interface_gb_s,
        ),
        memory_gb_s=config.dram.bandwidth_gb_s,
        links=family.links if links is None else links,
        nvlink=family.nvlink,
        pcie=family.pcie,
        ray_tracing=family.ray_tracing,
        clock_mhz=config.gpu.clock_mhz,
    )


def family_of(arch: str, stacked: bool = True) -> T.Family:
    """The traits of an architecture, or of the newest known one that is not newer. stacked: its memory is HBM. sm_75
    with HBM stands for Volta, for which today's compilers have no target."""
    number = 70 if _number(arch) == 75 and stacked else _number(arch)
    known = [name for name in T.FAMILIES if _number(name) <= number]
    return T.FAMILIES[known[-1] if known else next(iter(T.FAMILIES))]


def memory_of(kind: str) -> str:
    """The key of `technology.MEMORIES` that a `dram.kind` counts as."""
    other = "GDDR6" if "DDR" in kind.upper() else "HBM4"
    return kind.upper() if kind.upper() in T.MEMORIES else other


def _number(arch: str) -> int:
    return int(arch.removeprefix("sm_").rstrip("af"))


def areas(of: Structure, factors: T.Factors = T.FITTED) -> dict[str, float]:
    """mm^2 of every part of a die."""
    node, memory = T.NODES[of.node], T.MEMORIES[of.memory]

    def logic(transistors: float) -> float:
        return factors.logic * transistors / node.logic_density

    def array(size: float) -> float:
        return factors.sram * 8 * size * node.sram_cell_um2 * 1e-6

    if memory.stacked:
        interface = of.interfaces * (T.HBM_PHY + T.HBM_CONTROLLER / node.logic_density)
    else:
        interface = of.interfaces * factors.gddr_mm2
    return {
        "FP32 units": logic(of.sms * of.fp32 * T.FP32_UNIT),
        "FP16 units": logic(of.sms * of.half * 2 * T.FP16_UNIT),
        "FP64 units": logic(of.sms * of.fp64 * T.FP64_UNIT),
        "integer units": logic(of.sms * of.integer * T.INTEGER_UNIT),
        "MUFU units": logic(of.sms * of.mufu * T.MUFU_UNIT),
        "tensor units": logic(of.sms * of.tensor * T.FP16_UNIT),
        "ray tracing units": of.sms * T.RAY_TRACING_UNIT / node.logic_density if of.ray_tracing else 0.0,
        "lane control": logic(of.sms * of.lanes * T.LANE_CONTROL),
        "registers": array(of.sms * of.register_bytes),
        "L1 and shared memory": array(of.sms * of.l1_bytes),
        "instruction and constant caches": array(of.sms * of.other_bytes),
        "tensor memory": array(of.sms * of.tensor_bytes),
        "crossbar": logic((of.crossbar_bytes + of.slice_bytes) / 2 * T.CROSSBAR_BYTE),
        "L2": array(of.l2_bytes),
        "memory interfaces": interface,
        "NVLink": of.links * (T.NVLINK_PHY[of.nvlink] + T.NVLINK_CONTROLLER / node.logic_density),
        "PCIe": 16 * (T.PCIE_PHY[of.pcie] + T.PCIE_CONTROLLER / node.logic_density),
        "links between dies": 2 * of.die_link_gb_s / T.DIE_LINK_GB_S_MM2,
        "fixed": of.dies * factors.fixed * 1000 / node.logic_density,
    }


def powers(of: Structure, area: Mapping[str, float]) -> dict[str, float]:
    """Watts of every part: leakage by area, and energy by what happens; 'memory' is device memory with the GPU's side
    of it."""
    busy = ACTIVITY
    scale = T.NODES[of.node].energy
    watts = {name: T.LEAKAGE_W_MM2 * size for name, size in area.items()}
    sms_per_us = of.sms * of.clock_mhz

    def add(name: str, events_per_us: float, picojoules: float) -> None:
        watts[name] = watts.get(name, 0.0) + events_per_us * picojoules * 1e-6

    for name, units, picojoules in (
        ("FP32 units", of.fp32, T.FP32_FMA),
        ("FP16 units", of.half, 2 * T.FP16_FMA),
        ("FP64 units", of.fp64, T.FP64_FMA),
        ("integer units", of.integer, T.INTEGER_OPERATION),
    ):
        # Units of several kinds work by turns: one lane issues one instruction.
        add(name, sms_per_us * units * busy["units"] * busy["issue"], picojoules * scale)
    add("tensor units", sms_per_us * of.tensor * busy["tensor"], T.FP16_FMA * T.TENSOR_OVERHEAD * scale)
    add("lane control", sms_per_us * of.lanes * busy["issue"], T.LANE_OVERHEAD * scale)
    add("L1 and shared memory", sms_per_us * of.lanes * busy["l1"], T.L1_BYTE * scale)
    moved = min(of.crossbar_bytes, of.slice_bytes) / 2 * of.clock_mhz * busy["l2"]
    add("crossbar", moved, 8 * T.WIRE_BIT_MM * math.sqrt(sum(area.values())) / 2)
    add("L2", moved, T.L2_BYTE * scale)
    add("memory", of.memory_gb_s * 1e3 * busy["memory"], 8 * T.MEMORIES[of.memory].bit_pj)
    add("links between dies", of.die_link_gb_s * 1e3 * busy["l2"], 8 * T.DIE_LINK_BIT)
    add("NVLink", of.links * T.NVLINK_GB_S[of.nvlink] * 1e3 * busy["links"], 8 * T.NVLINK_BIT)
    return watts


def cost(config: GPUConfig, *, node: str | None = None, links: int | None = None) -> SiliconCost:
    """Area and power of a configuration.

    node: process node, a name of `technology.NODES`; links: NVLink links; by default those of its architecture.
    Raises ConfigError for an unknown node.

    >>> from gpusim.config import load_config
    >>> h200, twice = (cost(load_config("h200", {"sm.count": n})) for n in (132, 264))
    >>> 1.5 < twice.area_mm2 / h200.area_mm2 < 2
    True
    """
    counted = structure(config, node=node, links=links)
    area = areas(counted)
    watts = powers(counted, area)
    parts = {name: Part(area.get(name, 0.0), watts[name]) for name in watts if area.get(name) or watts[name]}
    return SiliconCost(sum(area.values()), sum(watts.values()), parts, counted)
