"""Machines that are no GPUs, beside which one stands: a systolic accelerator and a CPU, at the same matrix product.

    gpusim.beside.matrix_product("tpu_v4", 512, 512, 512)

Reading order: `sections` (what a machine is, as checked numbers with sources; `accelerators/` and `cpus/` hold the
shipped ones), `machines` (a model of each kind, and those by name). docs/beside.md.
"""

from gpusim.beside.machines import ProductRun, dependent_load_us, load_machine, matrix_product, shipped_machines
from gpusim.beside.sections import CpuConfig, SystolicConfig

__all__ = [
    "CpuConfig", "ProductRun", "SystolicConfig", "dependent_load_us", "load_machine", "matrix_product",
    "shipped_machines",
]  # fmt: skip
