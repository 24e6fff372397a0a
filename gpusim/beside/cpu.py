"""A matrix product on a CPU, in blocks: what each level of memory has to deliver, and what the arithmetic takes.

The blocks are those of K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS
34(3), 2008): a part of the result stays in registers; a panel of the second input in L1; a block of the first one in L2
of each core; a block of the second one in L3, which all cores share. While a core multiplies, every level delivers what
the next blocks need, so the slowest of them and of the arithmetic is what the product takes; in front of it stand a
first load from memory, and one chain of dependent multiply-adds of the last part of the result. Cores share the parts
of the result; starting them costs time, so one core alone does what is faster so.
"""

from __future__ import annotations

from math import ceil

from gpusim.beside.product import ProductRun
from gpusim.beside.sections import CpuConfig


def multiply(config: CpuConfig, m: int, n: int, k: int) -> ProductRun:
    """The product on a CPU, with one core or all, whichever is faster."""
    return min((_on_cores(config, m, n, k, cores) for cores in (1, config.cores.count)), key=lambda each: each.seconds)


def _on_cores(config: CpuConfig, m: int, n: int, k: int, cores: int) -> ProductRun:
    """The product on so many cores."""
    block, core, clock_hz = config.blocking, config.cores, config.chip.clock_mhz * 1e6
    parts = ceil(m / block.register_rows) * ceil(n / block.register_columns)
    each = ceil(parts / cores)  # parts of the result of the core that has most
    multiply_adds = each * block.register_rows * block.register_columns * k
    size = core.operand_bytes
    # Between two steps of depth the sums wait in L3, if there is room beside the second input, else in memory.
    steps, columns = ceil(k / block.depth), min(n, block.columns)
    stay = m * columns * core.result_bytes + min(k, block.depth) * columns * size <= config.l3.bytes
    results = m * n * core.result_bytes
    moved = {
        # A step of a part's sums needs a column of the first input and a row of the second one.
        "L1": parts * (block.register_rows + block.register_columns) * k * size,
        # Each part needs its rows of the block in L2; panels go to L1 once for each block.
        "L2": parts * block.register_rows * k * size + ceil(m / block.rows) * k * n * size,
        "L3": m * k * ceil(n / block.columns) * size + ceil(m / block.rows) * k * n * size + results * (2 * steps - 1),
        "memory": m * k * ceil(n / block.columns) * size + k * n * size + results * (1 if stay else 2 * steps - 1),
    }
    busy = min(cores, parts)
    rates = {
        name: level.bytes_per_cycle * busy * clock_hz
        for name, level in (("L1", config.l1), ("L2", config.l2), ("L3", config.l3))
    }
    # One core has as many lines of memory under way as its share of L3's bandwidth stands for.
    rates["memory"] = min(config.memory.bandwidth_gb_s * 1e9, rates["L3"])
    times = {name: moved[name] / rate for name, rate in rates.items()}
    instructions = multiply_adds / core.multiply_adds
    # Fewer sums than a unit works at cannot fill it.
    chains = block.register_rows * block.register_columns / core.sums / core.units
    interval = max(core.interval_cycles, core.latency_cycles / chains)
    times["arithmetic"] = instructions / core.units * interval / clock_hz
    latency = config.memory.latency_us * 1e-6 + core.latency_cycles / clock_hz
    fork = config.cores.fork_us * 1e-6 if cores > 1 else 0.0
    bound = max(times, key=lambda name: times[name])
    seconds = times[bound] + latency + fork
    spent = {bound: times[bound], "latency": latency, "starting the cores": fork}
    limit = max(spent, key=lambda name: spent[name])
    least = {name: moved[name] / rate for name, rate in rates.items()}
    least["arithmetic"] = m * n * k / config.peak_macs_per_s
    return ProductRun(config.chip.name, m, n, k, seconds, moved, least, limit, spent[limit] / seconds)
