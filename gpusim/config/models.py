"""The whole configuration: the sections together, what follows from them, and where each value comes from; keys and
values as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from operator import attrgetter
from typing import Any

from pydantic import PrivateAttr, model_validator

from gpusim.config import sections
from gpusim.errors import ConfigError, nearest

_UNITS = {
    "cycles": "SM clock cycles",
    "bytes": "bytes",
    "mhz": "MHz",
    "us": "microseconds",
    "gbit_s": "10^9 bits a second",
    "gb_s": "10^9 bytes a second",
    "bytes_per_cycle": "bytes per SM clock cycle",
}
_OTHER_UNITS = r"ns|us|ms|s|seconds|clk|clocks|cycle|ghz|hz|khz|kb|kib|mb|mib|gb|gib|tb|byte|bits|gbps|tb_s|gib_s|mb_s"
_UNIT = re.compile(rf"_(bytes_per_cycle|gb_s|gbit_s|cycles|bytes|mhz|{_OTHER_UNITS})$")


def unit_of(key: str) -> str:
    """The unit that a key's name carries, such as 'SM clock cycles'; '' where it has none."""
    unit = _UNIT.search(key.replace(".", "_"))
    return _UNITS.get(unit[1], "") if unit else ""


def unknown(key: str, keys: Mapping[str, str], where: str | None = None) -> ConfigError:
    """The error for a dotted key that is not among `keys`; it names the nearest one, and the unit if that is what
    differs."""
    stem = _UNIT.sub("", key)
    for known in keys:
        unit = _UNIT.search(known)
        if unit and known != key and _UNIT.sub("", known) == stem:
            meant = _UNITS.get(unit[1], unit[1])
            return ConfigError(f"wrong unit, the key counts {meant}", key=key, suggestion=known, where=where)
    sections = sorted({known[: i.start()] for known in keys for i in re.finditer(r"\.", known)})
    if key in sections:
        inside = next(known for known in keys if known.startswith(key + "."))
        return ConfigError("is a section, not a value", key=key, suggestion=inside)
    # Also of a key in the wrong section, or without one.
    tails = {known.rsplit(".", 1)[-1]: known for known in reversed(list(keys))}
    close = nearest(key, keys) or tails.get(nearest(key.rsplit(".", 1)[-1], tails) or "")
    reason = "unknown key" if close else f"unknown key; the sections are {', '.join(sections)}"
    return ConfigError(reason, key=key, suggestion=close, where=where)


def toml_value(value: Any) -> str:
    """A value as TOML writes it: as JSON does, but for a character that a text may not hold as it is."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class Described(sections.Section):
    """Base of a whole description: its keys, and where each value comes from."""

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    def source(self, key: str) -> str:
        """Source of the value of a dotted key: 'spec: ...', 'microbenchmark: ...', 'fitted: ...',
        'assumed: ...', 'user' or 'override'. Raises ConfigError for a key that does not exist."""
        if key not in self._sources:
            raise unknown(key, describe(type(self)))
        return self._sources[key]

    def items(self) -> Iterator[tuple[str, Any]]:
        """Every dotted key and its value, in file order."""
        keys = describe(type(self))
        return zip(keys, attrgetter(*keys)(self), strict=True)

    def to_toml(self) -> str:
        """The resolved tree as TOML with the source of every value, which is read back to an equal one."""
        tables: dict[str, list[str]] = {}
        for key, value in self.items():
            table, name = key.rsplit(".", 1)
            line = f"{name} = {{ value = {toml_value(value)}, source = {toml_value(self.source(key))} }}"
            tables.setdefault(table, []).append(line)
        return "\n\n".join("\n".join((f"[{table}]", *lines)) for table, lines in tables.items()) + "\n"


class GPUConfig(Described):
    """A whole configuration: immutable, hashable, equal when all values are (sources do not count)."""

    gpu: sections.Gpu
    sm: sections.Sm
    issue: sections.Issue
    pipes: sections.Pipes
    memory_instruction: sections.MemoryInstruction
    shared: sections.Shared
    tensor_memory: sections.TensorMemory
    l1: sections.L1
    icache: sections.Icache
    constant: sections.Constant
    crossbar: sections.Crossbar
    l2: sections.L2
    dram: sections.Dram
    launch: sections.LaunchTiming
    energy: sections.Energy

    @model_validator(mode="after")
    def _consistent(self) -> GPUConfig:
        shortest = self.l2.latency_near_cycles - self.l2.latency_spread_cycles // 2 - self.l1.latency_cycles
        shortest -= round(self.crossbar.tpc_cycles + self.crossbar.cpc_cycles)  # the mean way
        if self.l2.lookahead_cycles > shortest:
            raise ValueError(
                f"l2.lookahead_cycles must not exceed the shortest way to L2 and back, {shortest} cycles "
                "(l2.latency_near_cycles less l1.latency_cycles, half of l2.latency_spread_cycles and the mean way)"
            )
        if self.dram_miss_cycles < self.dram.row_activate_cycles:
            raise ValueError(
                "dram.latency_cycles must not be below the mean of l2.latency_near_cycles and "
                "l2.latency_far_cycles plus dram.row_activate_cycles"
            )
        if self.dram.row_bytes < self.l2.line_bytes:
            raise ValueError("dram.row_bytes must not be below l2.line_bytes")
        if self.sm.max_threads < self.sm.max_threads_per_block:
            raise ValueError("sm.max_threads must not be below sm.max_threads_per_block")
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GPUConfig) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    @property
    def dram_miss_cycles(self) -> float:
        """Cycles that an L2 miss adds to a hit in the same partition: idle memory, no open row."""
        return self.dram.latency_cycles - self.l2.mean_latency_cycles

    @property
    def dram_bytes_per_cycle(self) -> float:
        """Peak of device memory per SM clock cycle."""
        return self.dram.bandwidth_gb_s * 1e3 / self.gpu.clock_mhz

    @property
    def remote_way_cycles(self) -> int:
        """From an SM to another of its cluster: half of what a load from there takes outside its SM."""
        return max((self.shared.remote_latency_cycles - self.l1.latency_cycles) // 2, 1)

    @property
    def cluster_window_cycles(self) -> int:
        """Cycles in which no SM can hear of another, nor of L2, in a launch with clusters."""
        return min(self.remote_way_cycles, self.shared.cluster_barrier_cycles, self.l2.lookahead_cycles)

    def time_us(self, cycles: float) -> float:
        """Microseconds that `cycles` SM clock cycles take."""
        return cycles / self.gpu.clock_mhz

    def to_dict(self) -> dict[str, Any]:
        """The values as nested dictionaries, without sources."""
        return self.model_dump()


def describe_keys() -> Mapping[str, str]:
    """Every dotted key and what it means, in file order."""
    return describe(GPUConfig)


@cache
def describe(section: type[sections.Section]) -> Mapping[str, str]:
    """Every dotted key below a section and what it means, in file order."""
    found: dict[str, str] = {}
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, sections.Section):
            found |= {f"{name}.{key}": text for key, text in describe(kind).items()}
        else:
            found[name] = field.description or ""
    return found
