"""A systolic accelerator and a CPU: every key, its meaning, its unit (in the name) and its range.

Files are read as those of GPUs are (`gpusim/config/load.py`): no defaults, a source for each value. Cycles are of the
machine's own clock.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from gpusim.config.load import Kind
from gpusim.config.models import Described
from gpusim.config.sections import Count, Cycles, Rate, Section, _doc


class Chip(Section):
    """Name and clock of the machine."""

    name: str = Field(min_length=1, description="name of the product")
    clock_mhz: Count = _doc("clock of the matrix units or cores")


class MatrixUnits(Section):
    """Weight-stationary systolic arrays: weights stay, inputs move from column to column, sums from row to row."""

    arrays: Count = _doc("arrays of the chip, which share the buffer and the memory")
    rows: Count = _doc("rows of one, along the dimension that is summed over")
    columns: Count = _doc("columns of one: results that leave it in a cycle")
    weight_planes: int = Field(ge=1, le=2, description="weights that a cell holds: with 2 the next ones come meanwhile")
    operand_bytes: Count = _doc("bytes of an input or weight")
    result_bytes: Count = _doc("bytes of a result on its way out")
    accumulator_rows: Count = _doc("rows of sums that an array keeps, half of which leave while others come")


class OnChip(Section):
    """Contents of the chip."""

    buffer_bytes: Count = _doc("inputs and results, put there by software")
    weight_tiles: Count = _doc("tiles of weights that wait in front of each array")


class OffChip(Section):
    """Device memory."""

    bandwidth_gb_s: Rate = _doc("peak")
    latency_us: float = Field(ge=0, allow_inf_nan=False, description="from a request to its first byte")
    holds_activations: bool = _doc("inputs and results lie in it too; else they are in the buffer before and after")


class Cores(Section):
    """The cores of a CPU and the instruction that multiplies."""

    count: Count = _doc("cores")
    units: Count = _doc("units of a core that execute such instructions")
    multiply_adds: Count = _doc("of one instruction")
    sums: Count = _doc("to which they are added")
    interval_cycles: Count = _doc("between two instructions of one unit")
    latency_cycles: Count = _doc("until the sums can be added to again")
    operand_bytes: Count = _doc("bytes of an element of the inputs")
    result_bytes: Count = _doc("bytes of an element of the result")
    fork_us: float = Field(ge=0, allow_inf_nan=False, description="to start all cores on something and wait for all")


class Blocking(Section):
    """Sizes of the blocks that stay in each level (K. Goto, R. van de Geijn, "Anatomy of High-Performance Matrix
    Multiplication", ACM TOMS 34(3), 2008)."""

    register_rows: Count = _doc("rows of the result that are kept in registers")
    register_columns: Count = _doc("columns of it")
    depth: Count = _doc("of the summed dimension, the part that a panel in L1 holds")
    rows: Count = _doc("rows of the first input that a block in L2 holds")
    columns: Count = _doc("columns of the second input that a block in L3 holds")


class CacheLevel(Section):
    """One level of cache, as one core sees it."""

    bytes: Count = _doc("capacity: of a core, or of the chip where it is shared")
    latency_cycles: Cycles = _doc("load that hits, dependent")
    bytes_per_cycle: Rate = _doc("that one core gets out of it")


class SystolicConfig(Described):
    """A systolic accelerator."""

    chip: Chip
    units: MatrixUnits
    on_chip: OnChip
    memory: OffChip

    @property
    def peak_macs_per_s(self) -> float:
        """Multiply-adds a second of all cells."""
        units = self.units
        return units.arrays * units.rows * units.columns * self.chip.clock_mhz * 1e6


class CpuConfig(Described):
    """A CPU."""

    chip: Chip
    cores: Cores
    blocking: Blocking
    l1: CacheLevel
    l2: CacheLevel
    l3: CacheLevel
    memory: OffChip

    @property
    def peak_macs_per_s(self) -> float:
        """Multiply-adds a second of all cores."""
        cores = self.cores
        each = cores.units * cores.multiply_adds / cores.interval_cycles
        return cores.count * each * self.chip.clock_mhz * 1e6


_HERE = Path(__file__).parent
SYSTOLIC = Kind(SystolicConfig, _HERE / "accelerators", "accelerator", "units.arrays=2")
CPU = Kind(CpuConfig, _HERE / "cpus", "CPU", "cores.count=8")
