"""Numbers that follow from a configuration: peak rates, bandwidths, ridge points, occupancy limits, balance.

One place for each of these numbers: the roofline, the report and `gpusim config` take them from here. All are upper
bounds by arithmetic on the configuration's values, not predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpusim.config.models import GPUConfig


@dataclass(frozen=True)
class DerivedValue:
    """One number that follows from a configuration.

    name: unique, with its unit as a suffix. group: heading it belongs under. unit: as printed, after `scale` has been
    divided out. meaning: one line.
    """

    group: str
    name: str
    value: float
    meaning: str
    unit: str = ""
    scale: float = 1.0

    @property
    def text(self) -> str:
        """The value as people read it, such as '66.9 TFLOP/s'."""
        number = self.value / self.scale
        plain = f"{number:,.0f}" if number == int(number) or abs(number) >= 1000 else f"{number:,.4g}"
        return f"{plain} {self.unit}".strip()


def peak_operations_per_s(config: GPUConfig) -> dict[str, float]:
    """Operations a second of all SMs, by kind: a fused multiply-add of 32 lanes each `initiation_cycles`."""
    pipes, capability = config.pipes, int("".join(filter(str.isdigit, config.gpu.arch)))
    warps_per_s = config.sm.count * config.sm.sub_partitions * config.gpu.clock_mhz * 1e6
    lanes = config.gpu.warp_size
    largest = 16 * 8 * (16 if capability >= 80 else 8)  # multiply-adds that `pipes.tensor` counts (PTX ISA, mma)
    return {
        "FP32": warps_per_s * 2 * lanes / pipes.fma.initiation_cycles,
        "FP64": warps_per_s * 2 * lanes / pipes.fp64.initiation_cycles,
        "FP16": warps_per_s * 4 * lanes / pipes.half.initiation_cycles,
        "tensor": warps_per_s * 2 * largest / pipes.tensor.initiation_cycles,
        **_matrix_peaks(config, capability, warps_per_s),
    }


def _matrix_peaks(config: GPUConfig, capability: int, warps_per_s: float) -> dict[str, float]:
    """The same of other products, by the bits of an element: in tensor memory, of 128 rows and 256 bits along K; by
    QMMA and OMMA, m16n8k32 and m16n8k64, with scales or short sums."""
    if 100 <= capability < 120:
        bits = warps_per_s / config.sm.sub_partitions * 2 * 128 * 256 * config.tensor_memory.columns_per_cycle
        return {f"tcgen05 {each}-bit": bits / each for each in (32, 16, 8, 4)}
    narrow = warps_per_s * 2 * 16 * 8 * config.pipes.tensor_short_sums_speedup / config.pipes.tensor.initiation_cycles
    kinds = (8, 4) if capability >= 120 else (8,) if capability == 89 else ()
    return {f"tensor {each}-bit": narrow * 256 / each for each in kinds}


def peak_bytes_per_cycle(config: GPUConfig) -> dict[str, float]:
    """Bytes per SM clock cycle of the whole GPU, by level. For L2 the narrowest of slices, crossbar ports and SMs."""
    crossbar = config.crossbar
    ports = -(-config.sm.count // crossbar.sms_per_port)
    return {
        "L1": config.sm.count * config.l1.data_bytes_per_cycle,
        "L2": min(
            config.l2.slices * config.l2.slice_bytes_per_cycle,
            ports * crossbar.port_reply_bytes_per_cycle,
            config.sm.count * crossbar.sm_reply_bytes_per_cycle,
        ),
        "DRAM": config.dram_bytes_per_cycle,
    }


def registers_at_full_occupancy(config: GPUConfig) -> int:
    """Registers per thread with which all warps that an SM has room for are resident."""
    sm = config.sm
    per_warp = sm.registers // sm.max_warps // sm.register_unit * sm.register_unit
    return min(per_warp // config.gpu.warp_size, sm.max_registers_per_thread)


def derive(config: GPUConfig) -> tuple[DerivedValue, ...]:
    """All derived values, in the order in which they are printed."""
    return tuple(DerivedValue(group, *row) for group, rows in _GROUPS.items() for row in rows(config))


_Rows = list[tuple[Any, ...]]
"""Fields of derived values behind their group."""
_TERA, _KIB = ("TFLOP/s", 1e12), ("KiB", 1024)


def _rates(config: GPUConfig) -> _Rows:
    peaks, pipes = peak_operations_per_s(config), config.pipes
    warps_per_s = config.sm.count * config.sm.sub_partitions * config.gpu.clock_mhz * 1e6
    lanes_per_s = warps_per_s * config.gpu.warp_size
    return [
        ("fp32_flop_s", peaks["FP32"], "single precision, a fused multiply-add as two", *_TERA),
        ("fp64_flop_s", peaks["FP64"], "double precision, a fused multiply-add as two", *_TERA),
        ("fp16_flop_s", peaks["FP16"], "packed half precision, a fused multiply-add as two", *_TERA),
        ("tensor_flop_s", peaks["tensor"], "16-bit matrix products by mma.sync", *_TERA),
        *((f"{kind.replace(' ', '_').replace('-', '_')}_flop_s", rate, f"{kind} matrix products", *_TERA)
          for kind, rate in peaks.items() if kind.endswith("-bit")),
        ("int32_op_s", lanes_per_s / pipes.alu.initiation_cycles, "additions, logic", "Top/s", 1e12),
        ("special_op_s", lanes_per_s / pipes.xu.initiation_cycles, "MUFU", "Top/s", 1e12),
        ("issue_s", warps_per_s, "warp instructions", "G/s", 1e9),
    ]


def _bandwidths(config: GPUConfig) -> _Rows:
    sms, hz, shared, peaks = config.sm.count, config.gpu.clock_mhz * 1e6, config.shared, peak_bytes_per_cycle(config)
    rows = (
        ("shared", sms * shared.banks * shared.bank_bytes / shared.wavefront_cycles, "shared memory without conflicts"),
        ("l1", peaks["L1"], "hits in L1"),
        ("l2", peaks["L2"], "hits in L2: the narrowest of slices, ports and SMs"),
        ("dram", peaks["DRAM"], "peak of device memory"),
        ("dram_read", peaks["DRAM"] * config.dram.bus_efficiency, "what a stream of reads reaches"),
    )
    return [
        row for name, cycle, meaning in rows
        for row in ((f"{name}_bytes_s", cycle * hz, meaning, "TB/s", 1e12),
                    (f"{name}_bytes_per_cycle_sm", cycle / sms, "the same per SM and cycle", "B"))
    ]  # fmt: skip


def _ridges(config: GPUConfig) -> _Rows:
    operations, peaks, hz = peak_operations_per_s(config), peak_bytes_per_cycle(config), config.gpu.clock_mhz * 1e6
    pairs = (("FP32", "L1"), ("FP32", "L2"), ("FP32", "DRAM"), ("FP64", "DRAM"), ("tensor", "L2"), ("tensor", "DRAM"))
    return [
        (f"{kind.lower()}_{level.lower()}_flop_per_byte", operations[kind] / (peaks[level] * hz),
         f"below it, {level} limits {kind}", "FLOP/B")
        for kind, level in pairs
    ]  # fmt: skip


def _occupancy(config: GPUConfig) -> _Rows:
    sm, lanes = config.sm, config.gpu.warp_size
    threads, registers = min(sm.max_threads, sm.max_warps * lanes), registers_at_full_occupancy(config)
    return [
        ("warps_per_sm", sm.max_warps, "resident warps of an SM"),
        ("blocks_per_sm", sm.max_blocks, "resident blocks of an SM"),
        ("threads_per_sm", threads, "resident threads of an SM"),
        ("threads", threads * sm.count, "resident threads of the GPU"),
        ("least_block_threads", -(-threads // sm.max_blocks), "threads of a block at least, to fill an SM"),
        ("full_occupancy_registers", registers, "registers per thread with all warps resident"),
        ("full_occupancy_shared_bytes", sm.shared_bytes * lanes // threads, "shared memory for a resident warp", "B"),
    ]  # fmt: skip


def _balance(config: GPUConfig) -> _Rows:
    sm, dram, l1, peaks = config.sm, config.dram, config.l1, peak_bytes_per_cycle(config)
    balance = peaks["DRAM"] * config.gpu.clock_mhz * 1e6 / peak_operations_per_s(config)["FP32"]
    most_l1 = sm.unified_l1_bytes - sm.shared_capacities_bytes[0]
    flight = peaks["DRAM"] * dram.latency_cycles / sm.count
    most_flight = l1.max_outstanding_sectors * l1.sector_bytes
    return [
        ("machine_balance", balance, "device memory for single precision", "B/FLOP"),
        ("l2_bytes_per_sm", config.l2.bytes / sm.count, "L2 for each SM", *_KIB),
        ("l2_slice_bytes", config.l2.bytes / config.l2.slices, "a slice of L2", *_KIB),
        ("most_l1_bytes", most_l1, "L1 of an SM with the least shared memory", *_KIB),
        ("registers_bytes", 4 * sm.registers * sm.count, "registers of the GPU", "MiB", 1 << 20),
        ("dram_channel_bytes_s", dram.bandwidth_gb_s * 1e9 / dram.channels, "a channel of device memory", "GB/s", 1e9),
        ("flight_bytes_per_sm", flight, "under way in each SM to fill memory (Little)", *_KIB),
        ("most_flight_bytes_per_sm", most_flight, "what an SM can have under way", *_KIB),
    ]


_GROUPS: dict[str, Callable[[GPUConfig], _Rows]] = {
    "peak rates": _rates, "bandwidths": _bandwidths, "ridge points": _ridges, "occupancy limits": _occupancy,
    "balance": _balance,
}  # fmt: skip
