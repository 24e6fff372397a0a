"""Numbers that follow from a configuration: peak rates, bandwidths, ridge points, occupancy limits, balance.

One place for each of these numbers: the roofline, the report and `gpusim config` take them from here. All are upper
bounds by arithmetic on the configuration's values, not predictions.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    pipes = config.pipes
    warps_per_s = config.sm.count * config.sm.sub_partitions * config.gpu.clock_mhz * 1e6
    lanes = config.gpu.warp_size
    return {
        "FP32": warps_per_s * 2 * lanes / pipes.fma.initiation_cycles,
        "FP64": warps_per_s * 2 * lanes / pipes.fp64.initiation_cycles,
        "FP16": warps_per_s * 4 * lanes / pipes.half.initiation_cycles,
        "tensor": warps_per_s * 2 * _matrix_multiply_adds(config) / pipes.tensor.initiation_cycles,
    }


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
    per_warp = sm.registers_per_sub_partition // sm.warps_per_sub_partition // sm.register_unit * sm.register_unit
    return min(per_warp // config.gpu.warp_size, sm.max_registers_per_thread)


def derive(config: GPUConfig) -> tuple[DerivedValue, ...]:
    """All derived values, in the order in which they are printed."""
    return (*_rates(config), *_bandwidths(config), *_ridges(config), *_occupancy(config), *_balance(config))


def _matrix_multiply_adds(config: GPUConfig) -> int:
    """Multiply-adds of the product that `pipes.tensor.initiation_cycles` counts: the largest one of 16-bit inputs that
    the architecture has, m16n8k16, and m16n8k8 before compute capability 8.0 (PTX ISA, mma)."""
    capability = int("".join(filter(str.isdigit, config.gpu.arch)))
    return 16 * 8 * (16 if capability >= 80 else 8)


def _rates(config: GPUConfig) -> list[DerivedValue]:
    group, peaks, pipes = "peak rates", peak_operations_per_s(config), config.pipes
    flops = ("TFLOP/s", 1e12)
    lanes_per_s = config.sm.count * config.sm.sub_partitions * config.gpu.clock_mhz * 1e6 * config.gpu.warp_size
    words = {"FP32": "single precision", "FP64": "double precision", "FP16": "packed half precision"}
    rows = [
        DerivedValue(group, f"{kind.lower()}_flop_s", peaks[kind], f"{text}, a fused multiply-add as two", *flops)
        for kind, text in words.items()
    ]
    alu, xu = pipes.alu.initiation_cycles, pipes.xu.initiation_cycles
    return [
        *rows,
        DerivedValue(group, "tensor_flop_s", peaks["tensor"], "16-bit matrix products by mma.sync", *flops),
        DerivedValue(group, "int32_op_s", lanes_per_s / alu, "additions, logic", "Top/s", 1e12),
        DerivedValue(group, "special_op_s", lanes_per_s / xu, "MUFU", "Top/s", 1e12),
        DerivedValue(group, "issue_s", lanes_per_s / config.gpu.warp_size, "warp instructions", "G/s", 1e9),
    ]


def _bandwidths(config: GPUConfig) -> list[DerivedValue]:
    group, sms, hz = "bandwidths", config.sm.count, config.gpu.clock_mhz * 1e6
    peaks, shared = peak_bytes_per_cycle(config), config.shared
    banks = sms * shared.banks * shared.bank_bytes / shared.wavefront_cycles
    read = peaks["DRAM"] * config.dram.bus_efficiency
    rows = [
        ("shared", banks, "shared memory without conflicts"),
        ("l1", peaks["L1"], "hits in L1"),
        ("l2", peaks["L2"], "hits in L2: the narrowest of slices, ports and SMs"),
        ("dram", peaks["DRAM"], "peak of device memory"),
        ("dram_read", read, "what a stream of reads reaches"),
    ]
    return [
        each
        for name, cycle, meaning in rows
        for each in (
            DerivedValue(group, f"{name}_bytes_s", cycle * hz, meaning, "TB/s", 1e12),
            DerivedValue(group, f"{name}_bytes_per_cycle_sm", cycle / sms, "the same per SM and cycle", "B"),
        )
    ]


def _ridges(config: GPUConfig) -> list[DerivedValue]:
    operations, peaks = peak_operations_per_s(config), peak_bytes_per_cycle(config)
    hz = config.gpu.clock_mhz * 1e6
    return [
        DerivedValue(
            "ridge points",
            f"{kind.lower()}_{level.lower()}_flop_per_byte",
            operations[kind] / (peaks[level] * hz),
            f"below it, {level} limits {kind}",
            "FLOP/B",
        )
        for kind, levels in (("FP32", ("L1", "L2", "DRAM")), ("FP64", ("DRAM",)), ("tensor", ("L2", "DRAM")))
        for level in levels
    ]


def _occupancy(config: GPUConfig) -> list[DerivedValue]:
    group, sm, lanes = "occupancy limits", config.sm, config.gpu.warp_size
    threads = min(sm.max_threads, sm.max_warps * lanes)
    least, shared = -(-threads // sm.max_blocks), sm.shared_bytes * lanes // threads
    registers = registers_at_full_occupancy(config)
    return [
        DerivedValue(group, "warps_per_sm", sm.max_warps, "resident warps of an SM"),
        DerivedValue(group, "blocks_per_sm", sm.max_blocks, "resident blocks of an SM"),
        DerivedValue(group, "threads_per_sm", threads, "resident threads of an SM"),
        DerivedValue(group, "threads", threads * sm.count, "resident threads of the GPU"),
        DerivedValue(group, "least_block_threads", least, "threads of a block at least, to fill an SM"),
        DerivedValue(group, "full_occupancy_registers", registers, "registers per thread with all warps resident"),
        DerivedValue(group, "full_occupancy_shared_bytes", shared, "shared memory for each warp, all resident", "B"),
    ]


def _balance(config: GPUConfig) -> list[DerivedValue]:
    group, sm, peaks = "balance", config.sm, peak_bytes_per_cycle(config)
    balance = config.dram_bytes_per_cycle * config.gpu.clock_mhz * 1e6 / peak_operations_per_s(config)["FP32"]
    flight = peaks["DRAM"] * config.dram.latency_cycles / sm.count
    most_flight = config.l1.max_outstanding_sectors * config.l1.sector_bytes
    most_l1 = sm.unified_l1_bytes - sm.shared_capacities_bytes[0]
    channel = config.dram.bandwidth_gb_s * 1e9 / config.dram.channels
    return [
        DerivedValue(group, "machine_balance", balance, "device memory for single precision", "B/FLOP"),
        DerivedValue(group, "l2_bytes_per_sm", config.l2.bytes / sm.count, "L2 for each SM", "KiB", 1024),
        DerivedValue(group, "l2_slice_bytes", config.l2.bytes / config.l2.slices, "a slice of L2", "KiB", 1024),
        DerivedValue(group, "most_l1_bytes", most_l1, "L1 of an SM with the least shared memory", "KiB", 1024),
        DerivedValue(group, "registers_bytes", 4 * sm.registers * sm.count, "registers of the GPU", "MiB", 1 << 20),
        DerivedValue(group, "dram_channel_bytes_s", channel, "a channel of device memory", "GB/s", 1e9),
        DerivedValue(group, "flight_bytes_per_sm", flight, "under way in each SM to fill memory (Little)", "KiB", 1024),
        DerivedValue(group, "most_flight_bytes_per_sm", most_flight, "what an SM can have under way", "KiB", 1024),
    ]
