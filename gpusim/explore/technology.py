"""Numbers of process nodes, circuits and memories that the cost model is made of, each with its source.

Areas are mm^2, transistor counts millions, energies pJ. Sources in short:

- LLMCompass: H. Zhang, A. Ning, R. Prabhakar, D. Wentzlaff, "LLMCompass: Enabling Efficient Hardware Design for Large
  Language Model Inference", ISCA 2024 (arXiv 2312.03134) and its published cost model: transistors of units from open
  designs (Ariane, OpenPiton), areas of interfaces and of what an SM has besides units from annotated photographs of
  an A100 die. Its counts are for 91.2 million transistors per mm^2; here they stand for `NODES["N7"]` instead, so that
  the areas that were measured stay.
- Jouppi 2021: N. Jouppi et al., "Ten Lessons From Three Generations Shaped Google's TPUv4i", ISCA 2021, table 2, which
  continues M. Horowitz, "Computing's Energy Problem", ISSCC 2014, from 45 to 7 nm.
- O'Connor 2017: M. O'Connor et al., "Fine-Grained DRAM: Energy-Efficient DRAM for Extreme Bandwidth Systems",
  MICRO 2017.
- Dally 2023: W. Dally, "Hardware for Deep Learning", Hot Chips 2023.
- Arunkumar 2019: A. Arunkumar et al., "Understanding the Future of Energy Efficiency in Multi-Module GPUs", HPCA 2019.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@dataclass(frozen=True)
class ProcessNode:
    """A process node.

    logic_density: million transistors per mm^2 of its high-performance library. sram_cell_um2: high-density
    six-transistor cell. energy: of one operation, in those of N7, fitted to products (`tests/gpusim/known_dies.py`):
    foundries promise 60 % less power from 16FF to N7 and 30 % less from there to the 5 nm family at equal speed, and
    products take part of it as speed.
    """

    logic_density: float
    sram_cell_um2: float
    energy: float


_OFF = {of: "{:.1f} % in the mean, {:.1f} % at most".format(*row) for of, row in _TABLES["errors"].items()}
ERRORS = "areas of known dies are off by {dies} (not fitted: {left_out}),\npower limits by {products};\n".format(**_OFF)
ERRORS += _TABLES["untested"]
"""How far the model is off, in words."""
NODES = {name: ProcessNode(**row) for name, row in _TABLES["nodes"].items()}
"""Process nodes by name."""


@dataclass(frozen=True)
class Family:
    """Traits of an architecture that a configuration does not have: its node, generation and number of links to other
    GPUs, PCIe generation, whether it has ray tracing units; of an SM, products of half precision a cycle in matrix
    instructions of several warps, and bytes of tensor memory."""

    node: str
    nvlink: int
    links: int
    pcie: int
    ray_tracing: bool = False
    products: int = 0
    tensor_bytes: int = 0


FAMILIES = {arch: Family(**row) for arch, row in _TABLES["families"].items()}
"""By `gpu.arch`; an unknown one counts as the newest that is not newer (white papers of the products)."""

# Transistors, millions (LLMCompass; see the top of this file).
FP64_UNIT = 0.6853
FP32_UNIT = FP64_UNIT * (23 / 52) ** 2
FP16_UNIT = FP64_UNIT * (10 / 52) ** 2
INTEGER_UNIT = 0.1777
MUFU_UNIT = INTEGER_UNIT  # assumed: tables and a multiplier
LANE_CONTROL = 0.72565 * 65.0 / 91.2
"""Of one lane of a sub-partition: scheduling, operands, the way to memory."""
CROSSBAR_BYTE = 55.0 * 65.0 / 91.2 / 64 / 2
"""Of one byte per cycle and direction: 55 for an SM of an A100, which has 64 bytes; one half at the SMs, the other at
the slices."""
RAY_TRACING_UNIT = 0.35 * 28.9
"""0.7 mm^2 of 12 nm for the two SMs of a TPC, from photographs of TU106 and TU116 dies (TechPowerUp, 2019)."""

# Interfaces: analogue parts, which do not shrink, in mm^2, and controllers in millions of transistors (LLMCompass).
HBM_PHY = 10.45
HBM_CONTROLLER = 552.7 * 65.0 / 91.2
NVLINK_PHY = {1: 1.888, 2: 1.888, 3: 1.888, 4: 0.965, 5: 0.965}
"""Of one link; those before the third generation are taken to be as large."""
NVLINK_CONTROLLER = 74.6 * 65.0 / 91.2
PCIE_PHY = {3: 0.48, 4: 0.48, 5: 0.64, 6: 0.64}
PCIE_CONTROLLER = 3.96 * 65.0 / 91.2
"""Of one of 16 lanes."""


@dataclass(frozen=True)
class Factors:
    """Factors fitted to the dies of `tests/gpusim/known_dies.py`: relative errors, least squares.

    logic: area of logic, in what its transistors take at the density of the library: wires, clocks, repeaters, slack.
    sram: area of an array, in cells: tags, parity, ports, decoders, sense amplifiers, redundancy.
    gddr_mm2: an interface to a device of 32 bits, with its controller and the raster units beside it.
    fixed: what every die has, in thousand million transistors: front end, copy and media engines, test, the rest.
    """

    logic: float
    sram: float
    gddr_mm2: float
    fixed: float


FITTED = Factors(logic=1.190, sram=7.38, gddr_mm2=9.84, fixed=0.920)
"""`python -m tests.gpusim.known_dies` shows how far the model is off; a test fits again."""

# Energies in pJ of 7 nm.
FP16_FMA, FP32_FMA, FP64_FMA, INTEGER_OPERATION = 0.50, 1.69, 8.2, 0.76
"""A product and a sum (Jouppi 2021); double precision by the square of the mantissa; integers half adds (0.03), half
products (1.48)."""
LANE_OVERHEAD = 16.0
"""Of an instruction in a lane besides its operation: fetch, decode, registers; fitted to products (Dally 2023 has 30
for an older node)."""
TENSOR_OVERHEAD = 1.3
"""Of a product in a tensor unit, operands included (Dally 2023: 22 % for a matrix instruction, rounded up)."""
LEAKAGE_W_MM2 = 0.1
"""Leakage and what else never stops, at working temperature. Assumed: between the idle power of an H100 (70 W on 814
mm^2) and what V. Kandiah et al., "AccelWattch", MICRO 2021, find for a Volta whose SMs are all on."""
L1_BYTE = 8.5 / 8
"""A read of 32 KB (Jouppi 2021)."""
L2_BYTE = 14.0 / 8
"""A read of 1 MB (Jouppi 2021), without the way there."""
WIRE_BIT_MM = 0.08
"""A bit over a millimetre (Dally 2023, all nodes: wires do not shrink)."""


@dataclass(frozen=True)
class Memory:
    """A kind of device memory.

    interface_gb_s: most that one stack, or one device of 32 bits, gives. channels: pseudo channels of it.
    bit_pj: energy of a bit from its cell to the GPU's controller.
    """

    interface_gb_s: float
    channels: int
    bit_pj: float
    stacked: bool = True


MEMORIES = {kind: Memory(**row) for kind, row in _TABLES["memories"].items()}
"""By `dram.kind`, in capitals; an unknown kind counts as GDDR6 or as the newest HBM."""

DIE_LINK_GB_S_MM2, DIE_LINK_BIT = 1350, 0.3
"""Of a link between dies, both directions, on each: UCIe 1.0, advanced package, bumps 45 um apart. pJ, above 16 Gb/s a
pin (D. Das Sharma, UCIe, Hot Interconnects 2025)."""
NVLINK_BIT = 10.0
"""pJ over a link on the board (Arunkumar 2019)."""
NVLINK_GB_S = {1: 40, 2: 50, 3: 50, 4: 50, 5: 100}
"""Both directions of one link."""
