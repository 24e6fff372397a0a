"""Errors of a configuration, and physical suspicions about one without errors.

Errors are what `load_config` refuses. Warnings are judgements: values that a simulation takes, but that no GPU of the
kind has, or that contradict others. Each names its key, the value, and what it was held against.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpusim.config.derived import peak_bytes_per_cycle, registers_at_full_occupancy
from gpusim.config.load import load_collecting, load_config, own_sources
from gpusim.config.models import GPUConfig
from gpusim.errors import ConfigError

_CHANNEL_GB_S = {
    # Fastest speed grade of one channel as `dram.channels` counts them: data pins times Gbit/s per pin.
    "HBM2": (64, 2.4, "JESD235C"),
    "HBM2E": (64, 3.6, "JESD235D"),
    "HBM3": (32, 6.4, "JESD238"),
    "HBM3E": (32, 9.8, "JESD238B, vendors' fastest parts"),
    "HBM4": (32, 11.0, "JESD270-4 has 8.0, vendors' fastest parts"),
    "GDDR6": (16, 20.0, "JESD250, vendors' fastest parts"),
    "GDDR6X": (16, 24.0, "vendor's fastest part"),
    "GDDR7": (8, 36.0, "JESD239, vendors' fastest parts"),
    "LPDDR5": (16, 6.4, "JESD209-5"),
}
_ROW_NS = {"row_activate_cycles": (8, 25), "row_precharge_cycles": (8, 25), "row_cycle_cycles": (30, 70)}
"""Nanoseconds of DRAM cells, which have hardly changed for twenty years (JEDEC standards since DDR2)."""


@dataclass(frozen=True)
class Warned:
    """Something suspicious: the key, and why, in one line."""

    key: str
    reason: str

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}"


@dataclass(frozen=True)
class Report:
    """Outcome of a check. config: None if there are errors."""

    config: GPUConfig | None
    errors: tuple[ConfigError, ...]
    warnings: tuple[Warned, ...]


def check(config: str | Path, overrides: Iterable[str] | None = None) -> Report:
    """Read a configuration and say everything that is wrong with it or suspicious about it."""
    found, errors = load_collecting(config, overrides)
    if found is None:
        return Report(None, tuple(errors), ())
    _, base = own_sources(config)
    name = str(config) if overrides or base is None else base
    beside = Path(config).expanduser().parent / name
    before = load_config(beside if name == base and beside.is_file() else name)
    return Report(found, (), (*suspicious(found), *_stale(found, before, name)))


def suspicious(config: GPUConfig) -> tuple[Warned, ...]:
    """Suspicious values: no GPU of the kind has them, or they contradict each other."""
    sm, l1, l2, dram, mhz = config.sm, config.l1, config.l2, config.dram, config.gpu.clock_mhz
    lanes, registers, peaks = config.gpu.warp_size, registers_at_full_occupancy(config), peak_bytes_per_cycle(config)
    in_flight = sm.count * l1.max_outstanding_sectors * l1.sector_bytes / dram.latency_cycles
    banks, ns = config.shared.banks * config.shared.bank_bytes, dram.latency_cycles * 1e3 / mhz
    pins, rate, source = _CHANNEL_GB_S.get(dram.kind.upper(), (0, 0.0, ""))
    most, each = pins * rate / 8, dram.bandwidth_gb_s / dram.channels
    row_ns = {name: getattr(dram, name) * 1e3 / mhz for name in _ROW_NS}
    rows = [
        ("gpu.clock_mhz", not 300 <= mhz <= 3500, f"{mhz} MHz; GPUs run at 300 to 3,500"),
        ("sm.max_threads", sm.max_threads != sm.max_warps * lanes,
         f"{sm.max_threads} threads, {sm.max_warps} warps of {lanes}: the smaller number counts"),
        ("sm.registers", registers < 16,
         f"{registers} registers per thread with all warps resident; few kernels do with that"),
        ("l2.bytes", l2.bytes > 1 << 29, f"{l2.bytes >> 20} MiB; the largest L2 of a GPU has some 256"),
        ("sm.gpcs", sm.gpcs > sm.count, f"{sm.gpcs} GPCs for {sm.count} SMs"),
        ("l1.latency_cycles", l1.latency_cycles < config.shared.latency_cycles,
         f"{l1.latency_cycles} cycles, less than shared memory's {config.shared.latency_cycles}, which has no tags to "
         "look up"),
        ("dram.latency_cycles", not 150 <= ns <= 1000, f"{ns:.0f} ns; GPUs take 200 to 600 ns"),
        ("dram.bandwidth_gb_s", peaks["L2"] < peaks["DRAM"],
         f"{peaks['DRAM']:,.0f} B a cycle of memory pass an L2 that delivers {peaks['L2']:,.0f}"),
        ("l1.max_outstanding_sectors", in_flight < peaks["DRAM"],
         f"all SMs together keep {in_flight:,.0f} B a cycle under way (Little), memory delivers {peaks['DRAM']:,.0f}"),
        ("l1.data_bytes_per_cycle", banks < l1.data_bytes_per_cycle,
         f"{l1.data_bytes_per_cycle} B a cycle out of banks that hold {banks}"),
        ("dram.kind", not pins,
         f"{dram.kind!r} is not one of {', '.join(_CHANNEL_GB_S)}, so its channels are not checked"),
        ("dram.bandwidth_gb_s", 0 < most < each,
         f"{each:.1f} GB/s for each of {dram.channels} channels; {dram.kind} carries {most:.1f} at most "
         f"({pins} pins of {rate:g} Gbit/s, {source}), {most * dram.channels:,.0f} in all"),
        *((f"dram.{name}", not low <= row_ns[name] <= high,
           f"{row_ns[name]:.1f} ns at {mhz} MHz; DRAM takes {low} to {high} ns")
          for name, (low, high) in _ROW_NS.items()),
        ("dram.row_cycle_cycles", dram.row_cycle_cycles < dram.row_activate_cycles + dram.row_precharge_cycles,
         f"{dram.row_cycle_cycles} cycles, less than the {dram.row_activate_cycles + dram.row_precharge_cycles} that "
         "opening and closing a row take together"),
        ("gpu.dies", config.gpu.dies > l2.partitions,
         f"{config.gpu.dies} dies for {l2.partitions} partitions of L2, so that nothing takes longer from die to die"),
    ]  # fmt: skip
    return tuple(Warned(key, reason) for key, wrong, reason in rows if wrong)


def _stale(config: GPUConfig, before: GPUConfig, base: str) -> Iterator[Warned]:
    """Values that a change leaves behind: cycles that stand for nanoseconds, and what another kind of memory has."""
    new, old = config.dram, before.dram
    if new.kind != old.kind and (new.bandwidth_gb_s, new.channels) == (old.bandwidth_gb_s, old.channels):
        text = (
            f"{new.kind} for {old.kind} is a name, which changes what gpusim cost prices; launches keep the "
            f"{new.bandwidth_gb_s:,.0f} GB/s of dram.bandwidth_gb_s, the {new.channels} of dram.channels, "
            "dram.latency_cycles and energy.memory_scale"
        )
        yield Warned("dram.kind", text)
    dies = config.gpu.dies
    if dies > before.gpu.dies and config.sm.count == before.sm.count and config.l2.bytes == before.l2.bytes:
        text = f"{dies} dies, {before.gpu.dies} in {base}, share the same {config.sm.count} SMs and the same L2"
        yield Warned("gpu.dies", f"{text}: gpusim cost prices their link, launches take as long as before")
    clock, was = config.gpu.clock_mhz, before.gpu.clock_mhz
    if clock != was and new.latency_cycles == old.latency_cycles:
        text = (
            f"{clock} MHz, {was} in {base}, whose dram.latency_cycles and other times of memory are kept: they are "
            f"cycles of the SM clock, so memory has become {'faster' if clock > was else 'slower'}"
        )
        yield Warned("gpu.clock_mhz", text)
